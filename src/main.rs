//! `truetape`: routes verbs to crates, and maps errors to exit codes. Nothing else.

mod demo;

use clap::{Parser, Subcommand};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use truetape_schemas::blame::{Answer, Blamed};
use truetape_schemas::file::key::{self, Keyring};

/// Where the system's allocator is musl's, which takes a lock for each allocation. glibc's is kept:
/// with a thousand streams it holds 60 MiB where this one holds 106.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The version, with the formats this build writes.
const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (capture/1 set/1 run/1 report/1)"
);

/// Record LLM inference traffic, compile it into replay sets, replay them, and say how far the
/// replay is from production.
#[derive(Debug, Parser)]
#[command(name = "truetape", version = VERSION, about)]
struct Cli {
    /// Keys of encrypted captures, for the verbs that read them: 32 or 64 hexadecimal digits a line.
    #[arg(long, global = true, env = key::KEY_FILE_ENV, value_name = "FILE")]
    key_file: Option<PathBuf>,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Record: a transparent proxy in front of an inference server (the same as `truetape-proxy`).
    Record(Box<truetape_proxy::cli::RecordArgs>),
    /// Turn a public trace into a capture.
    Import(truetape_compiler::cli::ImportArgs),
    /// Print what a capture, a set or a run is made of.
    Profile(truetape_compiler::cli::ProfileArgs),
    /// Compile captures into a replay set.
    Compile(truetape_compiler::cli::CompileArgs),
    /// Write a set in another tool's format.
    Export(truetape_compiler::cli::ExportArgs),
    /// Show what a file or directory of ours is.
    Inspect(truetape_compiler::cli::InspectArgs),
    /// Check that a capture, a set or a run is whole and true to itself.
    Verify(truetape_compiler::cli::VerifyArgs),
    /// Say where two captures, sets or runs differ.
    Diff(truetape_compiler::cli::DiffArgs),
    /// Look after a directory of sets: versions, tags, room, sets as one file.
    Store(truetape_compiler::cli::StoreArgs),
    /// Ship sealed segments to an object store, beside a recorder.
    Ship(truetape_compiler::cli::ShipArgs),
    /// Find out what a target is and does, before anything is measured on it.
    Probe(truetape_replay::cli::ProbeArgs),
    /// Replay a set against a target.
    Replay(Box<truetape_replay::cli::ReplayArgs>),
    /// Print the fidelity report of runs.
    Report(truetape_replay::cli::ReportArgs),
    /// Compare runs of a set with other runs of it: what can be claimed, and what cannot.
    Compare(truetape_replay::cli::CompareArgs),
    /// Stand in for a real server.
    Stub(truetape_stub::cli::StubArgs),
    /// Record, compile, replay and report on the embedded engine.
    Demo(demo::DemoArgs),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match cli.verb {
        // The demo talks for itself; the life of its servers is no news.
        Verb::Demo(_) => truetape_proxy::log::init_at("warn"),
        _ => truetape_proxy::log::init(),
    }
    if let Some(path) = &cli.key_file {
        match Keyring::read(path) {
            Ok(keys) => key::install(keys),
            Err(error) => return fail(&error),
        }
    }
    let answer = match cli.verb {
        Verb::Record(args) => blamed(truetape_proxy::run(*args)),
        Verb::Import(args) => blamed(truetape_compiler::import::run(args)),
        Verb::Profile(args) => blamed(truetape_compiler::profile::run(args)),
        Verb::Compile(args) => blamed(truetape_compiler::compile::run(args)),
        Verb::Export(args) => blamed(truetape_compiler::export::run(args)),
        Verb::Inspect(args) => blamed(truetape_compiler::inspect::run(args)),
        Verb::Verify(args) => blamed(truetape_compiler::verify::run(args)),
        Verb::Diff(args) => blamed(truetape_compiler::diff::run(args)),
        Verb::Store(args) => blamed(truetape_compiler::store::run(args)),
        Verb::Ship(args) => blamed(truetape_compiler::ship::run(args)),
        Verb::Probe(args) => blamed(truetape_replay::probe::run(args)),
        Verb::Replay(args) => blamed(truetape_replay::run(*args)),
        Verb::Report(args) => blamed(truetape_replay::report::run(args)),
        Verb::Compare(args) => blamed(truetape_replay::compare::run(args)),
        Verb::Stub(args) => blamed(truetape_stub::run(args)),
        Verb::Demo(args) => blamed(demo::run(&args)),
    };
    match answer {
        Ok(answer) => ExitCode::from(answer.exit_code()),
        Err(error) => fail(&*error),
    }
}

fn blamed<E: Blamed + 'static>(result: Result<Answer, E>) -> Result<Answer, Box<dyn Blamed>> {
    result.map_err(|error| Box::new(error) as Box<dyn Blamed>)
}

/// One error, on stderr; a broken stderr leaves the exit code, which is what scripts read.
fn fail(error: &dyn Blamed) -> ExitCode {
    let mut stderr = std::io::stderr().lock();
    let mut said = writeln!(stderr, "error: {error}");
    let mut cause = std::error::Error::source(error);
    while let (Ok(()), Some(because)) = (&said, cause) {
        said = writeln!(stderr, "  because: {because}");
        cause = because.source();
    }
    ExitCode::from(error.blame().exit_code())
}
