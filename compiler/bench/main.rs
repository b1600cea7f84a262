//! What compiling costs at scale: wall time, memory, and how they grow.
//!
//! Read in this order: [`traffic`] (what is compiled), [`steps`] (what is measured); [`words`] (what
//! is tokenised), [`tokens`] (by whom, and how fast).
#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a measurement that cannot go on ends here, and prints"
)]

mod steps;
mod tokens;
mod traffic;
mod words;

use clap::Parser;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use steps::Cost;
use truetape_testkit::eval::{Eval, Table, figure};

/// What the design allows for a million turns, profiled, selected and emitted.
const WALL_S_PER_MILLION: f64 = 60.0;
/// See [`WALL_S_PER_MILLION`].
const RSS_MIB_PER_MILLION: f64 = 2048.0;

/// Measure the compiler at scale.
#[derive(Debug, Parser)]
struct Args {
    /// Turns of each capture that is made and compiled.
    #[arg(long, value_delimiter = ',', default_values_t = [1_000_000, 4_000_000])]
    turns: Vec<usize>,
    /// Small captures: to see that it runs.
    #[arg(long)]
    quick: bool,
    /// Seeds the traffic.
    #[arg(long, default_value_t = 7)]
    seed: u64,
    /// Share of the tokens that sets take.
    #[arg(long, default_value_t = 0.1)]
    share: f64,
    /// Threads of the compiler.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Where captures and sets go; captures that are there are used again.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// A `tokenizer.json` to measure with, in place of one that is learned.
    #[arg(long)]
    tokenizer: Option<PathBuf>,
    /// Only these steps: profile, compile, all, tokens.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// The step that this process is.
    #[arg(long, hide = true)]
    step: Option<String>,
    /// Given by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

/// The steps after the capture was made, with what they are called.
const STEPS: [(&str, &str); 3] = [
    ("profile", "profile"),
    ("compile", "profile, select, emit (synthetic)"),
    ("all", "emit every turn (lengths)"),
];

fn main() {
    let mut args = Args::parse();
    if args.quick {
        args.turns = vec![20_000, 80_000];
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let dir = match &args.dir {
        Some(dir) => dir.clone(),
        None => root.join("target").join("bench-compiler"),
    };
    if let Some(step) = &args.step {
        let turns = args.turns.first().copied().expect("a number of turns");
        let cost = run_step(step, &args, &dir, turns);
        println!("{}", json!(cost));
        return;
    }
    let eval = Eval::begin("bench-compiler");
    let speeds = if args.measures("tokens") {
        eprintln!("tokenising ...");
        tokens::measure(&dir, args.tokenizer.as_deref(), args.seed, args.threads)
    } else {
        Vec::new()
    };
    let (table, figures) = scaled(&args, &dir);
    println!("{}", table.markdown());
    println!("{}", growth(&figures).markdown());
    println!(
        "Allowed for a million turns, profiled, selected and emitted: {WALL_S_PER_MILLION} s and {RSS_MIB_PER_MILLION} MiB.\n"
    );
    println!("{}", tokens::table(&speeds).markdown());
    let document = json!({
        "steps": figures, "seed": args.seed, "share": args.share, "threads": args.threads,
        "allowed": {"wall_s": WALL_S_PER_MILLION, "rss_mib": RSS_MIB_PER_MILLION},
        "tokenising": speeds,
    });
    match eval.write(&root, &document) {
        Ok(path) => eprintln!("figures: {}", path.display()),
        Err(cause) => eprintln!("figures were not written: {cause}"),
    }
}

impl Args {
    fn measures(&self, step: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == step)
    }
}

/// Carries out the steps for every size.
fn scaled(args: &Args, dir: &Path) -> (Table, Vec<Value>) {
    let mut table = Table::new(
        &format!(
            "The compiler at scale (seed {}, {} of the tokens selected, {} threads)",
            args.seed, args.share, args.threads
        ),
        &[
            "step",
            "turns",
            "wall s",
            "CPU s",
            "peak RSS MiB",
            "us a turn",
            "bytes a turn",
        ],
    );
    let mut figures = Vec::new();
    let steps: Vec<_> = STEPS
        .into_iter()
        .filter(|(step, _)| args.measures(step))
        .collect();
    for turns in args.turns.iter().filter(|_| !steps.is_empty()) {
        let generate = std::iter::once(("generate", "write the capture"));
        for (step, title) in generate.chain(steps.iter().copied()) {
            let cost = child(step, args, dir, *turns);
            if step == "generate" && cost.turns == 0 {
                continue;
            }
            let cells = row(title, *turns, &cost);
            eprintln!("  {}", cells.join(" | "));
            table.row(cells);
            figures.push(json!({"step": step, "of_turns": turns, "cost": cost}));
        }
    }
    (table, figures)
}

fn row(title: &str, turns: usize, cost: &Cost) -> [String; 7] {
    let each = 1.0 / turns as f64;
    [
        title.to_owned(),
        turns.to_string(),
        figure(cost.wall_s),
        figure(cost.cpu_s),
        figure(cost.peak_rss_mib),
        figure(cost.wall_s * 1e6 * each),
        figure(cost.peak_rss_mib * 1024.0 * 1024.0 * each),
    ]
}

/// How each step grows from the smallest capture to the largest; 1 is linear.
fn growth(figures: &[Value]) -> Table {
    let mut table = Table::new(
        "Growth from the smallest capture to the largest, over the growth of the turns (1 is linear)",
        &["step", "turns", "wall", "CPU", "peak RSS"],
    );
    for (step, title) in STEPS {
        let of: Vec<&Value> = figures
            .iter()
            .filter(|figure| figure["step"] == step)
            .collect();
        let (Some(first), Some(last)) = (of.first(), of.last()) else {
            continue;
        };
        let ratio = |pointer: &str| {
            let number = |value: &Value| value.pointer(pointer).and_then(Value::as_f64);
            number(last).unwrap_or(f64::NAN) / number(first).unwrap_or(f64::NAN)
        };
        let turns = ratio("/of_turns");
        if of.len() > 1 {
            let grown = |pointer: &str| figure(ratio(pointer) / turns);
            table.row([
                title.to_owned(),
                format!("x{}", figure(turns)),
                grown("/cost/wall_s"),
                grown("/cost/cpu_s"),
                grown("/cost/peak_rss_mib"),
            ]);
        }
    }
    table
}

/// Runs a step in a process of its own.
fn child(step: &str, args: &Args, dir: &Path, turns: usize) -> Cost {
    eprintln!("{step}, {turns} turns ...");
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args(["--step", step, "--turns", &turns.to_string()])
        .args([
            "--seed",
            &args.seed.to_string(),
            "--share",
            &args.share.to_string(),
        ])
        .args(["--threads", &args.threads.to_string()])
        .arg("--dir")
        .arg(dir)
        .stderr(std::process::Stdio::inherit())
        .output()
        .expect("a step that runs");
    assert!(output.status.success(), "{step} failed");
    serde_json::from_slice(&output.stdout).expect("what the step cost")
}

fn run_step(step: &str, args: &Args, dir: &Path, turns: usize) -> Cost {
    let capture = dir.join(format!("capture-{}-{turns}", args.seed));
    let store = dir.join("store");
    let recipe = format!(
        "name = \"bench\"\nview = \"fleet\"\n[select]\ntoken_share = {}\n",
        args.share
    );
    match step {
        "generate" => {
            // A capture that is there whole is the one that would be made.
            let done = capture.join("done");
            if done.is_file() {
                return Cost::default();
            }
            let cost = steps::measured(|| steps::generate(&capture, args.seed, turns));
            std::fs::write(done, "").expect("a mark that the capture is whole");
            cost
        }
        "profile" => steps::measured(|| steps::profiled(&capture, args.threads)),
        "compile" => fresh(&store, || {
            steps::compiled(&capture, &store, &recipe, args.threads)
        }),
        "all" => {
            let recipe = "name = \"bench\"\nview = \"fleet\"\n[select]\nmethod = \"all\"\n[content]\nkind = \"lengths\"\n";
            fresh(&store, || {
                steps::compiled(&capture, &store, recipe, args.threads)
            })
        }
        other => panic!("no step is called {other}"),
    }
}

/// Measures a step that writes a set, into an empty store.
fn fresh(store: &Path, step: impl FnOnce() -> Cost) -> Cost {
    if store.is_dir() {
        std::fs::remove_dir_all(store).expect("an empty store");
    }
    steps::measured(step)
}
