//! Which sessions are taken, so that a set is what one system under test would have seen.
//!
//! The *view* says what that system stands for, and so what a choice is measured against: one of the
//! captured replicas ([`replica`]), or the fleet as one pooled cache ([`fleet`]). Sessions are taken
//! whole or not at all.
//!
//! Read in this order:
//!
//! 1. [`source`]: what is chosen from, and units that are taken whole;
//! 2. [`family`]: sessions that share more than everybody does;
//! 3. [`feature`]: what must add up ([`group`]: by kind), and [`work`]: how unevenly it may arrive;
//! 4. [`problem`]: what is wanted, and [`search`]: from a random sample to one that adds up;
//! 5. [`judge`]: the engine model's opinion, and [`mod@reference`]: what a replica is on average;
//! 6. [`fleet`], [`replica`]: the two views;
//! 7. [`window`]: contiguous time;
//! 8. [`told`]: what a manifest says about a choice.

pub mod family;
pub mod feature;
pub mod fleet;
pub mod group;
pub mod judge;
pub mod problem;
pub mod reference;
mod refine;
pub mod replica;
pub mod search;
pub mod source;
pub mod told;
mod vector;
pub mod window;
pub mod work;

#[cfg(test)]
mod tests;
