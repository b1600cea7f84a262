//! Captures become replay sets; public traces become captures; sets become other tools' files.
//!
//! A compiler is a function: the same captures and the same recipe give the same set, whatever
//! the threads, the order of the files or the machine (C1). A session is never split and no turn
//! is invented (C2). A set is never changed, and is named by its digest (C3).
//!
//! Read in this order:
//!
//! 1. [`recipe`]: what can be asked for;
//! 2. [`import`]: how a trace becomes a capture;
//! 3. [`compile`]: the stages, one after the other;
//! 4. [`tokenizer`]: a model's own vocabulary and chat template;
//! 5. [`select`]: which sessions are taken, and why those;
//! 6. [`profile`], [`inspect`], [`verify`], [`diff`]: looking at what there is;
//! 7. [`store`]: versions of sets, and sets as one file;
//! 8. [`export`]: other tools' formats;
//! 9. [`objects`]: captures in object stores;
//! 10. [`ship`]: sealed segments to a store, beside a recorder.

pub mod cli;
pub mod compile;
pub mod diff;
pub mod error;
pub mod export;
pub mod import;
pub mod inspect;
mod objects;
mod parallel;
pub mod profile;
pub mod recipe;
pub mod select;
pub mod ship;
pub mod source;
pub mod store;
pub mod talk;
pub mod tokenizer;
pub mod verify;

pub use error::Error;
