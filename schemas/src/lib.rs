//! Every format the product reads or writes, and the nouns they are made of.
//!
//! Read in this order:
//!
//! 1. [`blame`]: whose problem an error is;
//! 2. [`time`] and [`ids`]: instants, offsets and names;
//! 3. [`column`](mod@column) and [`file`](mod@file): how rows become Parquet and come back;
//! 4. [`ledger`]: the account that proves what a capture holds;
//! 5. [`capture`]: one observed exchange, as a row;
//! 6. [`set`]: turns chosen for replay, with their content and manifest;
//! 7. [`run`]: one replay of one set against one target;
//! 8. [`report`]: dimensions, verdicts, directions;
//! 9. [`wire`]: how requests, streams and lengths are read off the bytes that passed by.
//!
//! This crate knows neither sockets nor a runtime: `tests/tidy` holds it to that.

pub mod blame;
pub mod capture;
pub mod column;
pub mod file;
pub mod ids;
pub mod ledger;
pub mod report;
pub mod run;
pub mod set;
pub mod time;
pub mod wire;
