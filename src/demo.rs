//! `truetape demo`: the whole product on one machine, in under a minute.
//!
//! It starts the reference engine and the proxy on loopback, sends its own traffic through them,
//! compiles what was recorded, replays it, and prints the report. It leaves files in its output
//! directory and nowhere else.

mod traffic;
mod workload;

use clap::Args;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use truetape_compiler::compile::CompileOptions;
use truetape_compiler::recipe::Recipe;
use truetape_proxy::cli::RecordArgs;
use truetape_replay::cli::ReplayArgs;
use truetape_replay::client::Target;
use truetape_schemas::blame::{Answer, Blame, Blamed};

/// The recipe of the demo: every session, with new text of the same lengths and the same sharing.
const RECIPE: &str = r#"name = "demo"

[select]
method = "all"

[content]
kind = "synthetic"
"#;

/// Record, compile, replay and report on the embedded engine. Takes under a minute.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Directory for the capture, the set and the run. It must not exist, or be empty.
    #[arg(long, value_name = "DIR", default_value = "truetape-demo")]
    out: PathBuf,

    /// Seed of the traffic.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// Why the demo could not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{0} is not empty; name another directory with --out, or remove it")]
    OutNotEmpty(String),
    #[error("{path}: {cause}")]
    Io { path: String, cause: std::io::Error },
    #[error("the demo's recipe: {0}")]
    Recipe(String),
    #[error("demo: {0}")]
    Settings(#[from] clap::Error),
    #[error(transparent)]
    Proxy(#[from] truetape_proxy::Error),
    #[error(transparent)]
    Stub(#[from] truetape_stub::Error),
    #[error(transparent)]
    Compiler(#[from] truetape_compiler::Error),
    #[error(transparent)]
    Replay(#[from] truetape_replay::Error),
    #[error("demo: the capture does not account for its traffic: {0}")]
    Unaccounted(String),
}

impl Blamed for Error {
    fn blame(&self) -> Blame {
        match self {
            Self::OutNotEmpty(_) => Blame::Config,
            Self::Io { .. } => Blame::Host,
            Self::Recipe(_) | Self::Settings(_) | Self::Unaccounted(_) => Blame::Bug,
            Self::Proxy(error) => error.blame(),
            Self::Stub(error) => error.blame(),
            Self::Compiler(error) => error.blame(),
            Self::Replay(error) => error.blame(),
        }
    }
}

/// Runs the demo.
pub(crate) fn run(args: &DemoArgs) -> Result<Answer, Error> {
    prepare(&args.out)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|cause| io(&args.out, cause))?;

    say("1/4 record: the reference engine, the proxy in front of it, and a seeded workload");
    let production = runtime.block_on(truetape_stub::engine::start(engine_config()?))?;
    let upstream = format!("http://{}", production.addr);
    runtime.block_on(record(&upstream, &args.out.join("capture"), args.seed))?;
    runtime.block_on(production.shutdown());

    say("2/4 compile: every session, new text of the same lengths and the same prefix sharing");
    let compiled = truetape_compiler::compile::compile(&compile_options(&args.out)?)?;
    say(&format!(
        "    set {}@{}",
        compiled.manifest.name, compiled.manifest.digest
    ));

    say("3/4 replay: the set against another engine, on the recorded schedule");
    let tested = runtime.block_on(truetape_stub::engine::start(engine_config()?))?;
    let target = format!("http://{}", tested.addr);
    let replayed =
        truetape_replay::run(replay_args(&compiled.dir, &target, &args.out.join("run"))?);
    runtime.block_on(tested.shutdown());
    match replayed {
        // The machine was too busy for the schedule. The report calls the run invalid, as it is;
        // showing that is no failure of the demo.
        Err(error @ truetape_replay::Error::Invalid { .. }) => say(&format!("    {error}")),
        ended => drop(ended?),
    }

    say(&format!(
        "4/4 done: {0}/capture, {0}/sets, {0}/run; the report as a page: {0}/run/report.html",
        args.out.display()
    ));
    // The demo shows a report; what it says of a busy machine is not a failure of the demo.
    Ok(Answer::Yes)
}

async fn record(upstream: &str, capture: &Path, seed: u64) -> Result<(), Error> {
    let config = truetape_proxy::config::Config::resolve(&record_args(upstream, capture)?)?;
    let proxy = truetape_proxy::start(config).await?;
    let target = Target::resolve(&format!("http://{}", proxy.listen_addr))?;
    let sent = traffic::drive(target, workload::sessions(seed)).await;
    let ledger = proxy.shutdown().await;
    say(&format!(
        "    {} requests, {} answered; ledger: {} offered, {} recorded",
        sent.requests, sent.answered, ledger.offered, ledger.recorded
    ));
    if ledger.balances() && ledger.rows() == sent.requests {
        return Ok(());
    }
    Err(Error::Unaccounted(format!(
        "{} sent, {ledger:?}",
        sent.requests
    )))
}

fn say(line: &str) {
    // Talk is for people: a closed stderr must not end the demo.
    if writeln!(std::io::stderr(), "{line}").is_err() {}
}

fn io(path: &Path, cause: std::io::Error) -> Error {
    Error::Io {
        path: path.display().to_string(),
        cause,
    }
}

fn prepare(out: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(out).map_err(|cause| io(out, cause))?;
    let mut entries = std::fs::read_dir(out).map_err(|cause| io(out, cause))?;
    match entries.next() {
        None => Ok(()),
        Some(_) => Err(Error::OutNotEmpty(out.display().to_string())),
    }
}

/// Flags as they would be typed, so that the demo has the defaults that users have.
fn typed<A: Args>(flags: &[&str]) -> Result<A, clap::Error> {
    let command = A::augment_args(clap::Command::new("demo").no_binary_name(true));
    A::from_arg_matches(&command.try_get_matches_from(flags)?)
}

fn record_args(upstream: &str, capture: &Path) -> Result<RecordArgs, clap::Error> {
    let out = capture.display().to_string();
    let loopback = "127.0.0.1:0";
    typed(&[
        "--listen",
        loopback,
        "--admin",
        loopback,
        "--upstream",
        upstream,
        "--out",
        &out,
    ])
}

fn replay_args(set: &Path, target: &str, run: &Path) -> Result<ReplayArgs, clap::Error> {
    let (set, run) = (set.display().to_string(), run.display().to_string());
    let never = ["--fail-on", "never"];
    let flags = [&set, "--target", target, "--out", &run];
    typed(&[&flags[..], &never].concat())
}

fn engine_config() -> Result<truetape_stub::engine::config::Config, Error> {
    let flags = ["--listen", "127.0.0.1:0", "--model", traffic::MODEL];
    Ok(typed::<truetape_stub::cli::EngineArgs>(&flags)?.into_config()?)
}

fn compile_options(out: &Path) -> Result<CompileOptions, Error> {
    Ok(CompileOptions {
        captures: vec![out.join("capture")],
        recipe: Recipe::parse(RECIPE).map_err(Error::Recipe)?,
        store: out.join("sets"),
        tags: Vec::new(),
        threads: 2,
    })
}
