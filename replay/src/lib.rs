//! Replays a set against a target and writes a run.
//!
//! Read in this order:
//!
//! 1. [`cli`]: what can be asked;
//! 2. [`load`]: a set, read and checked before anything is sent;
//! 3. [`arrivals`]: when sessions start; [`plan`] and [`body`]: turns and flags become dispatches with
//!    absolute deadlines (R1);
//! 4. [`schedule`]: which dispatch may be sent when, as a pure state machine (R2, R3);
//! 5. [`pace`]: the thread that walks the schedule in real time;
//! 6. [`client`]: one request, one timed answer;
//! 7. [`walk`]: the run itself: send, measure, collect, stop;
//! 8. [`probe_target`] and [`isolation`]: what the target is and takes, asked before anything is
//!    measured;
//! 9. [`rows`], [`run_dir`] and [`report`]: the run on disk, and the report that is drawn from it.
//!    [`compare`]: runs against other runs;
//! 10. [`host`] and [`knee`]: one replay, or one after the other until the target gives way; [`shard`]:
//!     one replay over several processes.
//!
//! ```text
//!  set ─▶ plan ─▶ pacing thread ══ spawn ══▶ exchange tasks ══ bounded ══▶ collector ─▶ run/1
//!                   ▲  owns the schedule         │
//!                   └────── completions ─────────┘
//! ```
//!
//! R1 Everything is decided before the first byte is sent. R2 A dispatch is never early; its
//! lateness is recorded. R3 A turn is sent after the turns it depends on, at
//! `max(due, end of dependency + think time)`. R4 Nothing is skipped silently.

pub mod answers;
pub mod arrivals;
pub mod body;
pub mod breaker;
pub mod cli;
pub mod client;
pub mod clock;
pub mod command;
pub mod compare;
pub mod dry_run;
pub mod error;
pub mod files;
pub mod host;
pub mod isolation;
pub mod knee;
pub mod lengths;
pub mod load;
pub mod misses;
pub mod pace;
pub mod plan;
pub mod probe;
pub mod probe_target;
pub mod progress;
pub mod report;
pub mod row;
pub mod rows;
pub mod run_dir;
pub mod schedule;
pub mod scrape;
pub mod settings;
pub mod shard;
pub mod signals;
pub mod verdict;
pub mod walk;

pub use command::run;
pub use error::Error;
