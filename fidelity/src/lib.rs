//! The measures: pure functions that say how far one population of turns is from another.
//!
//! Read in this order:
//!
//! 1. [`tokens`]: the tokenizer and the chat template of the reference engine;
//! 2. [`blocks`]: keyed, chained hashes of prompt blocks;
//! 3. [`prefix`]: prefix-cache hits at every capacity, in one pass ([`mix`] is its hasher);
//! 4. [`engine`]: the reference engine model, in virtual time;
//! 5. [`quantile`]: the one definition of a percentile;
//! 6. [`population`]: turns as the measures see them, and [`facts`] what they are besides lengths;
//! 7. [`dispersion`]: how bursty arrivals are, and [`draws`] random numbers of a shape;
//! 8. [`profile`]: the statistics of one population;
//! 9. [`latency`]: the latencies of a run;
//! 10. [`grade`]: dimensions and verdicts, [`direction`] which way they bend results, and
//!     [`checklist`] the seven points;
//! 11. [`simulated`]: two populations on the engine model;
//! 12. [`noise`]: how much of a result may be luck;
//! 13. [`compare`]: runs of one set against other runs of it;
//! 14. [`render`]: reports for people.
//!
//! This crate has no clock, no sockets and no randomness of its own.

pub mod blocks;
pub mod checklist;
pub mod compare;
pub mod direction;
pub mod dispersion;
pub mod draws;
pub mod engine;
pub mod facts;
pub mod gate;
pub mod grade;
pub mod latency;
pub mod mix;
pub mod noise;
pub mod population;
pub mod prefix;
pub mod profile;
pub mod quantile;
pub mod render;
pub mod simulated;
pub mod tokens;

#[cfg(test)]
mod testdata;
