//! Record, compile, replay and report against real engines: what they take, what they say, and
//! whether what we expect of them is what they do.
//!
//! It is no part of the suite: it installs engines (`engine`), each into a folder of its own under
//! `target/engines`. A check that does not hold ends it with exit code 1.
#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program of checks: it ends where it cannot go on, and prints"
)]

mod engine;
mod journey;
mod traffic;

use clap::Parser;
use engine::Kind;
use journey::Seen;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use truetape_testkit::eval::{Eval, Table};

/// Check the product against real engines.
#[derive(Debug, Parser)]
struct Args {
    /// Which: llamacpp, dynamo, vllm.
    #[arg(required = true)]
    engines: Vec<Kind>,
    /// The binary under test.
    #[arg(long, env = "TRUETAPE_BINARY")]
    truetape: PathBuf,
    /// A Python that the engines' packages are made for.
    #[arg(long, env = "TRUETAPE_PYTHON", default_value = "python3")]
    python: PathBuf,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let eval = Eval::begin("engines");
    let mut table = Table::new(
        "Record, compile, replay against real engines.",
        &[
            "engine",
            "turns",
            "outputs exact, %",
            "cached: expected, observed, %",
            "second run: observed, %",
            "flushed run: observed, %",
            "salt",
            "isolation",
            "probe",
            "probe, no prefix cache",
        ],
    );
    let mut broken = Vec::new();
    let mut figures = Vec::new();
    for kind in &args.engines {
        eprintln!("{}", kind.name());
        let seen = journey::of(*kind, &args.truetape, &args.python, &root);
        match seen {
            Ok(seen) => {
                table.row(seen.row(kind.name()));
                let problems = seen.problems(*kind);
                figures.push(json!({"engine": kind.name(), "seen": seen, "problems": problems}));
                broken.extend(
                    problems
                        .into_iter()
                        .map(|what| format!("{}: {what}", kind.name())),
                );
            }
            Err(why) => broken.push(format!("{}: {why}", kind.name())),
        }
    }
    println!("{}", table.markdown());
    for what in &broken {
        println!("does not hold: {what}");
    }
    let figures = json!({"engines": figures, "broken": broken});
    let written = eval.write(&root, &figures).expect("figures are written");
    eprintln!("figures: {}", written.display());
    if broken.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

impl Seen {
    fn row(&self, name: &str) -> Vec<String> {
        let share = |share: Option<f64>| {
            share.map_or_else(|| "?".to_owned(), |share| format!("{:.1}", share * 100.0))
        };
        vec![
            name.to_owned(),
            self.turns.to_string(),
            share(self.outputs_exact),
            format!("{}, {}", share(self.cached_expected), share(self.cached)),
            share(self.cached_again),
            share(self.cached_flushed),
            self.salt.clone().unwrap_or_else(|| "-".to_owned()),
            self.isolation.clone(),
            self.probe.clone().unwrap_or_else(|| "-".to_owned()),
            self.probe_uncached
                .clone()
                .unwrap_or_else(|| "-".to_owned()),
        ]
    }
}
