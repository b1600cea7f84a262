//! The latencies of a run are those of the engine's own clock.

use crate::support::{compile, engine, truetape};
use std::ffi::{OsStr, OsString};
use truetape_fidelity::engine::{Engine, EngineConfig, Job};
use truetape_schemas::capture::Outcome;
use truetape_schemas::run::{self, Dispatch};
use truetape_testkit::tempdir::TempDir;

/// What TTFT, ITL, TPOT and E2EL may differ by.
const APART_MAX_US: i64 = 1_000;

/// Requests, one after the other: each is over when the next is sent.
const REQUESTS: u64 = 24;
const OUTPUT_TOKENS: u64 = 20;
const GAP_MS: u64 = 600;

/// The engine that is started below, in its own time.
fn config() -> EngineConfig {
    EngineConfig {
        block_tokens: 16,
        kv_blocks: 65_536,
        ..EngineConfig::default()
    }
}

/// When an engine that has nothing else to do says each token of an answer, in microseconds.
fn token_times_us(prompt_tokens: u64) -> Vec<i64> {
    let mut engine = Engine::new(config());
    let job = Job {
        prompt_tokens,
        output_tokens: OUTPUT_TOKENS,
        ..Job::default()
    };
    engine.submit(job).unwrap();
    let (mut now_ns, mut times) = (0, Vec::new());
    while !engine.is_idle() {
        let step = engine.step();
        now_ns += step.duration_ns;
        let now_us = i64::try_from(now_ns / 1_000).unwrap();
        times.extend(step.outputs.iter().map(|_| now_us));
    }
    times
}

fn median(mut values: Vec<i64>) -> i64 {
    values.sort_unstable();
    values[values.len() / 2]
}

fn gaps(times: &[i64]) -> Vec<i64> {
    times.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

/// How far a row is from the engine's own clock, in microseconds.
#[derive(Debug)]
struct Apart {
    ttft: i64,
    e2el: i64,
    tpot: i64,
    /// The median over its gaps.
    itl: i64,
}

impl Apart {
    fn of(row: &Dispatch) -> Self {
        let own = alone(row);
        let seen = row.token_event_offsets_us.as_ref().unwrap();
        assert_eq!(seen.len(), own.len(), "{row:?}");
        let tpot = |times: &[i64]| (times[times.len() - 1] - times[0]) / (times.len() as i64 - 1);
        let pairs = gaps(seen).into_iter().zip(gaps(&own));
        Self {
            ttft: row.first_token_us.unwrap() - own[0],
            e2el: row.last_token_us.unwrap() - own[own.len() - 1],
            tpot: tpot(seen) - tpot(&own),
            itl: median(pairs.map(|(seen, own)| (seen - own).abs()).collect()),
        }
    }

    fn most(&self) -> i64 {
        let all = [self.ttft, self.e2el, self.tpot, self.itl];
        all.into_iter().map(i64::abs).max().unwrap()
    }
}

/// The machine may add to any time and take from none: of every request it is asserted that nothing was
/// taken, and of the one that the machine disturbed least that nothing was added.
#[test]
fn a_run_measures_what_the_engine_did() {
    let dir = TempDir::new("clock");
    let set = compiled(&dir);
    let (engine, addr) = engine(&["--block-tokens", "16"]);
    let out = dir.join("run");
    let mut args: Vec<OsString> = vec!["replay".into(), set];
    args.extend(["--target".into(), format!("http://{addr}").into()]);
    args.extend(["--out".into(), out.clone().into_os_string()]);
    args.extend(["--fail-on", "never", "--lateness-p99-max", "1h"].map(OsString::from));
    let ended = truetape(&args);
    engine.stop().expect_code(0);
    ended.expect_code(0);
    let rows = run::dispatches(&out).unwrap();
    assert_eq!(rows.len() as u64, REQUESTS);
    let apart: Vec<Apart> = rows.iter().map(Apart::of).collect();
    // Both clocks are rounded to microseconds.
    let is_early = |apart: &Apart| apart.ttft < -2 || apart.e2el < -2;
    assert!(!apart.iter().any(is_early), "{apart:?}");
    let least = apart.iter().map(Apart::most).min().unwrap();
    assert!(least <= APART_MAX_US, "{least} us: {apart:?}");
}

/// The engine's times of a request that had it to itself and found nothing cached.
fn alone(row: &Dispatch) -> Vec<i64> {
    assert_eq!(row.outcome, Some(Outcome::Complete), "{row:?}");
    assert_eq!(row.cached_tokens, Some(0), "{row:?}");
    assert_eq!(row.output_tokens, Some(OUTPUT_TOKENS as i64), "{row:?}");
    let times = token_times_us(u64::try_from(row.input_tokens.unwrap()).unwrap());
    assert!(times.last().unwrap() / 1_000 < GAP_MS as i64, "{times:?}");
    times
}

/// Prompts of different lengths that share nothing.
fn compiled(dir: &TempDir) -> OsString {
    let rows: String = (0..REQUESTS)
        .map(|i| {
            let (at, input) = (i * GAP_MS, 200 + 10 * i);
            format!("{{\"timestamp\": {at}, \"input_length\": {input}, \"output_length\": {OUTPUT_TOKENS}, \"hash_ids\": [{i}]}}\n")
        })
        .collect();
    let (file, capture) = (dir.join("mooncake.jsonl"), dir.join("capture"));
    std::fs::write(&file, rows).unwrap();
    let args: [&OsStr; 5] = [
        "import".as_ref(),
        "mooncake".as_ref(),
        file.as_os_str(),
        "--out".as_ref(),
        capture.as_os_str(),
    ];
    truetape(&args).expect_code(0);
    compile(dir, &capture, "clock", "synthetic")
        .dir
        .into_os_string()
}
