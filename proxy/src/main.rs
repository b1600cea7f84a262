//! `truetape-proxy`: `truetape record` alone, for a small image.

use clap::Parser;
use std::io::Write as _;
use std::process::ExitCode;
use truetape_proxy::cli::RecordArgs;
use truetape_schemas::blame::Blamed as _;

/// Where the system's allocator is musl's, which takes a lock for each allocation. glibc's is kept:
/// with a thousand streams it holds 60 MiB where this one holds 106.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Record LLM inference traffic: a transparent proxy in front of an inference server.
#[derive(Debug, Parser)]
#[command(name = "truetape-proxy", version, about)]
struct Cli {
    #[command(flatten)]
    record: RecordArgs,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    truetape_proxy::log::init();
    match truetape_proxy::run(cli.record) {
        Ok(answer) => ExitCode::from(answer.exit_code()),
        Err(error) => {
            // A broken stderr leaves the exit code, which is what scripts read.
            drop(writeln!(std::io::stderr(), "error: {error}"));
            ExitCode::from(error.blame().exit_code())
        }
    }
}
