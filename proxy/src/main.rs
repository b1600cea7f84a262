//! `truetape-proxy`: `truetape record` alone, for a small image.

use clap::Parser;
use std::io::Write as _;
use std::process::ExitCode;
use truetape_proxy::cli::RecordArgs;
use truetape_schemas::blame::Blamed as _;

/// glibc's allocator keeps what a thousand streams once needed, and shares its locks among threads.
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
