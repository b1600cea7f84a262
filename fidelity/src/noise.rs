//! How much a result may be luck.
//!
//! Turns of one session, and of one minute, resemble each other: a thousand answers may tell as much
//! as a hundred independent ones ([`design`]). So what is drawn again is never a turn but a block of
//! time, a session, or a run and then its blocks ([`bootstrap`]); what is claimed of two builds comes
//! from pairs of runs ([`student`] for few of them, [`holm`] for many claims); and what is measured
//! begins when the target is warm ([`mser`]).

pub mod bootstrap;
pub mod design;
pub mod holm;
pub mod mser;
pub mod series;
pub mod student;
