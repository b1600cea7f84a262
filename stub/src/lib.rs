//! Servers that stand in for real ones, so that every promise can be tried without a GPU.
//!
//! Read in this order:
//!
//! 1. [`cli`]: what an operator types;
//! 2. [`engine`]: an inference server over the reference engine model, in real time.
//!
//! `docs/engine-stub.md` is the normative page: tokenizer, template, step formula, wire.

use truetape_schemas::blame::Answer;

pub use error::Error;

pub mod cli;
pub mod engine;
mod error;

/// Runs a stub until it is told to stop.
pub fn run(args: cli::StubArgs) -> Result<Answer, Error> {
    match args.server {
        cli::Server::Engine(args) => engine::run(args.into_config()?),
    }
}
