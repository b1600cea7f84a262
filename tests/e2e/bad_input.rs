//! What is wrong with an input is answered as `docs/compile.md` says: the exit code, one line that
//! says what to do, nothing written; or a set whose accounts show what was left out.

use crate::support::{recipe, truetape};
use serde_json::json;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use truetape_schemas::capture::{Exchange, Header, LengthSource, Outcome};
use truetape_schemas::file::{FORMAT_KEY, Writer};
use truetape_schemas::set::manifest::Manifest;
use truetape_schemas::set::store;
use truetape_testkit::capture;
use truetape_testkit::process::Ended;
use truetape_testkit::tempdir::TempDir;

/// Turns of each conversation, and the time between them; answers take 2 ms.
const TURNS: usize = 4;
const STEP_US: i64 = 5_000_000;

/// A conversation whose client names it nowhere: every turn brings its history along.
fn talk(name: &str) -> Vec<Exchange> {
    let mut messages = vec![json!({"role": "system", "content": "You are helpful."})];
    let mut rows = Vec::new();
    for turn in 0..TURNS {
        messages.push(json!({"role": "user", "content": format!("{name} asks {turn}")}));
        let answer = json!({"role": "assistant", "content": format!("{name} hears {turn}")});
        let body = json!({"model": "m", "messages": messages});
        let choice = json!({"index": 0, "finish_reason": "stop", "message": answer});
        let at_us = STEP_US * turn as i64;
        rows.push(Exchange {
            exchange_id: format!("{name}-{turn:04}"),
            proxy_id: "p".into(),
            upstream: "10.0.0.1:8000".into(),
            arrival: 1_700_000_000_000_000 + at_us,
            arrival_mono_us: at_us,
            request_end_us: Some(10),
            first_token_us: Some(1_010),
            last_token_us: Some(2_010),
            end_us: Some(2_050),
            method: "POST".into(),
            path: "/v1/chat/completions".into(),
            dialect: "openai_chat".into(),
            model: Some("m".into()),
            status: Some(200),
            request_body: Some(body.to_string().into_bytes()),
            response_headers: vec![Header {
                name: "content-type".into(),
                value: "application/json".into(),
            }],
            response_body: Some(json!({"choices": [choice]}).to_string().into_bytes()),
            output_tokens: Some(3),
            output_tokens_source: LengthSource::Usage,
            outcome: Outcome::Complete,
            ..Exchange::default()
        });
        messages.push(answer);
    }
    rows
}

/// Writes a capture of one segment, with a ledger that fits.
fn write(dir: &Path, rows: &[Exchange]) {
    capture::write(dir, rows, &capture::whole(rows.len()));
}

/// Somewhere with a recipe that takes everything.
struct Bench {
    dir: TempDir,
}

impl Bench {
    fn new(name: &str) -> Self {
        let dir = TempDir::new(name);
        std::fs::write(dir.join("recipe.toml"), recipe("it", "lengths")).unwrap();
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn compile(&self, captures: &[&str]) -> Ended {
        let mut args: Vec<OsString> = vec!["compile".into()];
        args.extend(captures.iter().map(|name| self.path(name).into_os_string()));
        args.extend(["--recipe".into(), self.path("recipe.toml").into_os_string()]);
        args.extend(["--store".into(), self.path("sets").into_os_string()]);
        truetape(&args)
    }

    /// A set is made: its manifest.
    #[track_caller]
    fn compiled(&self, captures: &[&str]) -> Manifest {
        self.compile(captures).expect_code(0);
        let set = store::resolve("it@latest", Some(&self.path("sets"))).unwrap();
        store::manifest(&set).unwrap()
    }

    /// No set is made, for a reason that is one line and says all of this; nothing is left behind.
    #[track_caller]
    fn refused(&self, captures: &[&str], code: i32, said: &[&str]) {
        let ended = self.compile(captures).expect_code(code);
        assert_one_line(&ended, said);
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
        let written = capture::files(&self.path("sets"));
        assert_eq!(written, Vec::<PathBuf>::new());
    }
}

#[track_caller]
fn assert_one_line(ended: &Ended, said: &[&str]) {
    let lines: Vec<&str> = ended.stderr.lines().collect();
    let errors = lines.iter().filter(|line| line.starts_with("error: "));
    assert_eq!(errors.count(), 1, "{}", ended.stderr);
    let line = lines.last().copied().unwrap_or_default();
    assert!(line.starts_with("error: "), "{}", ended.stderr);
    for word in said {
        assert!(line.contains(word), "`{word}` is not in: {line}");
    }
    assert_eq!(ended.stdout, "", "an error has no data");
}

/// What each stage reads is what the one before passed on; what it left is counted.
#[track_caller]
fn assert_nothing_is_lost(manifest: &Manifest, rows: usize) {
    let mut given = rows as u64;
    for stage in &manifest.stages {
        let left: u64 = stage.left.values().sum();
        assert_eq!(
            (stage.read, stage.taken + left),
            (given, given),
            "{stage:?}"
        );
        given = stage.taken;
    }
    assert_eq!(manifest.counts.turns, given);
}

#[test]
fn rows_and_segments_in_any_order_are_the_same_set() {
    let bench = Bench::new("unsorted");
    let mut rows = [talk("a"), talk("b")].concat();
    write(&bench.path("sorted"), &rows);
    rows.reverse();
    rows.swap(1, 5);
    write(&bench.path("unsorted"), &rows);
    let sorted = bench.compiled(&["sorted"]);
    assert_nothing_is_lost(&sorted, 2 * TURNS);
    let ended = bench.compile(&["unsorted"]).expect_code(0);
    assert!(ended.stderr.contains("nothing to do"), "{}", ended.stderr);
    assert_eq!(bench.compiled(&["unsorted"]).digest, sorted.digest);
}

#[test]
fn what_is_there_twice_is_counted_once_and_said() {
    let bench = Bench::new("twice");
    let rows = talk("a");
    write(&bench.path("one"), &rows);
    write(&bench.path("two"), &[rows.clone(), talk("b")].concat());
    let manifest = bench.compiled(&["one", "two"]);
    assert_eq!(manifest.stages[0].left.get("duplicate"), Some(&4));
    assert_eq!(manifest.counts.sessions, 2);
    assert_nothing_is_lost(&manifest, 3 * TURNS);
}

#[test]
fn torn_and_foreign_segments_are_refused_by_name() {
    let bench = Bench::new("torn");
    write(&bench.path("whole"), &talk("b"));
    write(&bench.path("torn"), &talk("a"));
    let segment = capture::sealed(&bench.path("torn")).remove(0);
    let bytes = std::fs::read(&segment).unwrap();
    let mut hollow = bytes.clone();
    let middle = bytes.len() / 3;
    hollow[4..middle].fill(0);
    let foreign = b"timestamp,input,output\n1,2,3\n".to_vec();
    let cut = |kept: usize| bytes[..kept].to_vec();
    let torn = [cut(0), cut(3), cut(bytes.len() / 2), cut(bytes.len() - 1)];
    for bytes in torn.into_iter().chain([hollow, foreign]) {
        std::fs::write(&segment, &bytes).unwrap();
        bench.refused(&["whole", "torn"], 65, &["torn/part-0"]);
    }
}

#[test]
fn a_later_format_is_refused_by_name() {
    let bench = Bench::new("later");
    write(&bench.path("now"), &talk("b"));
    std::fs::create_dir_all(bench.path("later")).unwrap();
    let path = bench.path("later").join("a.parquet");
    let mut writer = Writer::create(&path).unwrap();
    writer.write(&talk("a")).unwrap();
    let format = (FORMAT_KEY.to_owned(), "capture/99".to_owned());
    writer.finish(&[format]).unwrap();
    let said = [
        "later/a.parquet",
        "capture/99",
        "capture/1",
        "upgrade truetape",
    ];
    bench.refused(&["now", "later"], 65, &said);
}

#[test]
fn traces_of_two_block_sizes_are_not_compiled_together() {
    let bench = Bench::new("sizes");
    let traced = |id: &str, block_tokens: i32| Exchange {
        exchange_id: id.into(),
        dialect: "trace".into(),
        input_tokens: Some(512),
        block_tokens: Some(block_tokens),
        block_hashes: Some(vec![1; 512 / block_tokens as usize]),
        outcome: Outcome::Complete,
        ..Exchange::default()
    };
    write(&bench.path("large"), &[traced("1", 512)]);
    write(&bench.path("small"), &[traced("2", 16)]);
    let said = ["blocks of 16 and 512 tokens", "compile them apart"];
    bench.refused(&["large", "small"], 65, &said);
    assert_nothing_is_lost(&bench.compiled(&["small"]), 1);
}

#[test]
fn a_clock_that_is_off_is_moved_and_said() {
    for ahead_us in [-60_000_000, 60_000_000] {
        let bench = Bench::new("clocks");
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for (turn, mut row) in ["a", "b", "c"].map(talk).concat().into_iter().enumerate() {
            if turn % 2 == 0 {
                first.push(row);
            } else {
                row.proxy_id = "q".into();
                row.arrival += ahead_us;
                second.push(row);
            }
        }
        first.extend(talk("d"));
        write(&bench.path("first"), &first);
        write(&bench.path("second"), &second);
        let manifest = bench.compiled(&["first", "second"]);
        assert_eq!(manifest.stages[0].marked.get("clock_moved"), Some(&6));
        let findings = manifest.findings.join("\n");
        assert!(findings.contains("the clock of q was"), "{findings}");
        assert_eq!(manifest.counts.sessions, 4, "{findings}");
        assert_nothing_is_lost(&manifest, 4 * TURNS);
    }
}

#[test]
fn a_capture_without_inference_is_refused_with_what_it_holds() {
    let bench = Bench::new("no-inference");
    let mut rows = talk("a");
    for row in &mut rows {
        row.dialect = "unknown".into();
        row.path = "/healthz".into();
        row.output_tokens = None;
    }
    rows[0].dialect = "openai_embeddings".into();
    rows[0].input_tokens = Some(4);
    write(&bench.path("other"), &rows);
    write(&bench.path("empty"), &[]);
    let said = ["4 rows", "3 not_inference", "1 embeddings", "record"];
    bench.refused(&["other"], 65, &said);
    bench.refused(&["empty"], 65, &["0 rows", "record"]);
    bench.refused(&["nowhere"], 65, &["nowhere"]);
}

#[test]
fn a_trace_with_torn_lines_counts_them_and_strict_refuses_it() {
    let bench = Bench::new("lines");
    let line = |at: usize| {
        format!(r#"{{"timestamp":{at},"input_length":40,"output_length":2,"hash_ids":[1]}}"#)
    };
    let text = [
        line(0),
        "not json".into(),
        line(9),
        r#"{"timestamp":"#.into(),
    ]
    .join("\n");
    std::fs::write(bench.path("trace.jsonl"), text).unwrap();
    let args = |more: &[&str]| {
        let mut args: Vec<OsString> = vec!["import".into(), "mooncake".into()];
        args.push(bench.path("trace.jsonl").into_os_string());
        args.extend(["--out".into(), bench.path("traced").into_os_string()]);
        args.extend(more.iter().map(OsString::from));
        args
    };
    let ended = truetape(&args(&["--strict"])).expect_code(65);
    assert_one_line(&ended, &["trace.jsonl", "2", "--strict"]);
    assert_eq!(capture::files(&bench.path("traced")), Vec::<PathBuf>::new());
    truetape(&args(&[])).expect_code(0);
    let ledger = capture::footers(&bench.path("traced"))
        .remove(0)
        .ledger
        .unwrap();
    assert_eq!((ledger.offered, ledger.recorded), (4, 2));
    assert!(ledger.balances(), "{ledger:?}");
    assert_nothing_is_lost(&bench.compiled(&["traced"]), 2);
}

#[test]
fn a_path_that_is_no_run_says_what_would_be_one() {
    let bench = Bench::new("no-run");
    write(&bench.path("capture"), &talk("a"));
    let set = {
        bench.compiled(&["capture"]);
        store::resolve("it@latest", Some(&bench.path("sets"))).unwrap()
    };
    let cases = [
        (bench.path("nothere"), "no such directory"),
        (bench.path("recipe.toml"), "no such directory"),
        (bench.path("capture"), "holds no run.json"),
        (set, "is a set"),
    ];
    for (path, found) in cases {
        let args = [OsStr::new("report"), path.as_os_str()];
        let name = path.display().to_string();
        let ended = truetape(&args).expect_code(65);
        assert_one_line(&ended, &[&name, found, "truetape replay --out"]);
    }
}
