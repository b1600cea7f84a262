//! What is measured: each step is a process of its own, so that its memory is its own.

use crate::traffic;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Instant;
use truetape_compiler::compile::{CompileOptions, compile};
use truetape_compiler::profile::{self, ProfileOptions};
use truetape_compiler::recipe::Recipe;
use truetape_schemas::capture::Exchange;
use truetape_schemas::capture::footer::Footer;
use truetape_schemas::file::{READ_BATCH_ROWS, Writer};
use truetape_schemas::ledger::Ledger;

/// Rows of a segment.
const SEGMENT_ROWS: usize = 256 * 1024;

/// What a step came to.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Cost {
    pub(crate) wall_s: f64,
    pub(crate) cpu_s: f64,
    pub(crate) peak_rss_mib: f64,
    /// Turns that it made or read.
    pub(crate) turns: u64,
    /// Blocks of their prompts, where it counts them.
    pub(crate) blocks: u64,
    /// Distinct ones.
    pub(crate) unique_blocks: u64,
    /// Sessions.
    pub(crate) sessions: u64,
}

/// Carries a step out and says what it cost this process.
pub(crate) fn measured(step: impl FnOnce() -> Cost) -> Cost {
    let begin = Instant::now();
    let mut cost = step();
    cost.wall_s = begin.elapsed().as_secs_f64();
    cost.cpu_s = cpu_s();
    cost.peak_rss_mib = peak_rss_mib();
    cost
}

/// Writes the captures, unless an earlier run left them.
pub(crate) fn generate(dir: &Path, seed: u64, turns: usize) -> Cost {
    let due = traffic::plan(seed, turns);
    std::fs::create_dir_all(dir).expect("a folder for the capture");
    for (at, part) in due.chunks(SEGMENT_ROWS).enumerate() {
        let path = dir.join(format!("bench-{at:05}.parquet"));
        let mut writer = Writer::<Exchange>::create(&path).expect("a segment");
        for (batch_at, batch) in part.chunks(READ_BATCH_ROWS).enumerate() {
            let first = at * SEGMENT_ROWS + batch_at * READ_BATCH_ROWS;
            let numbered = (first..).zip(batch);
            let rows = numbered.map(|(index, due)| traffic::exchange(seed, index, *due));
            writer.write_owned(rows.collect()).expect("rows");
        }
        let rows = part.len() as u64;
        let ledger = Ledger {
            offered: rows,
            recorded: rows,
            ..Ledger::default()
        };
        let footer = Footer {
            ledger: Some(ledger),
            ..Footer::default()
        };
        writer.finish(&footer.to_pairs()).expect("a footer");
    }
    Cost {
        turns: turns as u64,
        ..Cost::default()
    }
}

/// Profiles the captures.
pub(crate) fn profiled(capture: &Path, threads: usize) -> Cost {
    let options = ProfileOptions {
        capacities_blocks: Vec::new(),
        windows_s: Vec::new(),
        block_tokens: None,
        threads,
    };
    let reference = capture.to_string_lossy().into_owned();
    let (profile, _) = profile::of(&[reference], None, &options).expect("a profile");
    Cost {
        turns: profile.turns,
        sessions: profile.sessions,
        blocks: profile.prefix.refs,
        unique_blocks: profile.prefix.unique,
        ..Cost::default()
    }
}

/// Compiles the captures: profile, select, emit, grade.
pub(crate) fn compiled(capture: &Path, store: &Path, recipe: &str, threads: usize) -> Cost {
    let options = CompileOptions {
        captures: vec![PathBuf::from(capture)],
        recipe: Recipe::parse(recipe).expect("a recipe"),
        store: store.to_owned(),
        tags: Vec::new(),
        threads,
    };
    let compiled = compile(&options).expect("a set");
    Cost {
        turns: compiled.manifest.counts.turns,
        sessions: compiled.manifest.counts.sessions,
        ..Cost::default()
    }
}

/// CPU time of all threads of this process.
pub(crate) fn cpu_s() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let main_ns = first_number(&text);
    let threads = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Fields 14 and 15 after the name in brackets: user and system time, threads that ended included.
    let after = threads.rsplit(')').next().unwrap_or_default();
    let fields: Vec<&str> = after.split_whitespace().collect();
    let ticks = |at: usize| -> f64 {
        fields
            .get(at)
            .and_then(|field| field.parse().ok())
            .unwrap_or(0.0)
    };
    // Linux shows ticks of 1/100 s whatever it counts in.
    ((ticks(11) + ticks(12)) / 100.0).max(main_ns / 1e9)
}

fn first_number(text: &str) -> f64 {
    let first = text.split_whitespace().next();
    first.and_then(|number| number.parse().ok()).unwrap_or(0.0)
}

/// The most memory this process ever had.
fn peak_rss_mib() -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.map_or(0.0, first_number) / 1024.0
}
