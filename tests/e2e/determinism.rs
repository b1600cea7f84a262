//! One capture and one recipe are one set, however they are read.

use crate::support::{Recorder, WITHIN, recipe, truetape};
use std::ffi::OsStr;
use std::path::Path;
use truetape_schemas::capture::SEGMENT_SUFFIX;
use truetape_schemas::set::store;
use truetape_testkit::capture;
use truetape_testkit::client::{End, exchange, post_json};
use truetape_testkit::tempdir::TempDir;
use truetape_testkit::upstream::{Script, Upstream};

/// Requests, and how many of them a segment holds.
const REQUESTS: usize = 12;
const ROWS_A_SEGMENT: &str = "4";

/// Records short sessions into several segments.
fn record(out: &Path) {
    let upstream = Upstream::start(|_| {
        let message = serde_json::json!({"role": "assistant", "content": "good"});
        let choice = serde_json::json!({"index": 0, "message": message, "finish_reason": "stop"});
        let usage = serde_json::json!({"prompt_tokens": 9, "completion_tokens": 1});
        Script::json(
            200,
            &serde_json::json!({"id": "a", "object": "chat.completion", "model": "m",
                "choices": [choice], "usage": usage}),
        )
    });
    let recorder = Recorder::start(&upstream.url(), out, &["--rotate-rows", ROWS_A_SEGMENT]);
    for at in 0..REQUESTS {
        let text = format!("question {} of many: {}", at % 5, "word ".repeat(at));
        let message = serde_json::json!({"role": "user", "content": text});
        let body = serde_json::json!({"model": "m", "messages": [message]});
        let request = post_json("/v1/chat/completions", &body);
        let answer = exchange(recorder.at.listen, &request, None);
        assert_eq!(answer.end, End::Clean);
    }
    recorder.process.stop().expect_code(0);
    assert_eq!(capture::await_rows(out, REQUESTS, WITHIN).len(), REQUESTS);
}

/// Copies segments under names whose order is the other way round.
fn renamed(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    let segments = capture::sealed(from);
    assert!(segments.len() > 1, "one segment has no order");
    for (at, segment) in segments.iter().rev().enumerate() {
        std::fs::copy(segment, to.join(format!("other-{at}{SEGMENT_SUFFIX}"))).unwrap();
    }
}

fn digest(dir: &TempDir, capture: &Path, store_name: &str, threads: &str, kind: &str) -> String {
    let recipe_file = dir.join("recipe.toml");
    std::fs::write(&recipe_file, recipe("same", kind)).unwrap();
    let store_dir = dir.join(store_name);
    let args: [&OsStr; 8] = [
        "compile".as_ref(),
        capture.as_os_str(),
        "--recipe".as_ref(),
        recipe_file.as_os_str(),
        "--store".as_ref(),
        store_dir.as_os_str(),
        "--threads".as_ref(),
        threads.as_ref(),
    ];
    let ended = truetape(&args);
    assert!(matches!(ended.code, Some(0 | 1)), "{ended:?}");
    let set = store::resolve("same@latest", Some(&store_dir)).unwrap();
    store::manifest(&set).unwrap().digest
}

#[test]
fn a_set_does_not_depend_on_threads_or_on_names_and_order_of_segments() {
    let dir = TempDir::new("determinism");
    let (recorded, other) = (dir.join("capture"), dir.join("other"));
    record(&recorded);
    renamed(&recorded, &other);
    let mut digests = Vec::new();
    for kind in ["verbatim", "synthetic", "lengths"] {
        let of = |capture, name: &str, threads| {
            digest(&dir, capture, &format!("{kind}-{name}"), threads, kind)
        };
        let first = of(&recorded, "first", "1");
        assert_eq!(first, of(&recorded, "threads", "4"), "{kind}: threads");
        assert_eq!(first, of(&other, "segments", "3"), "{kind}: segments");
        digests.push(first);
    }
    digests.dedup();
    assert_eq!(digests.len(), 3, "a digest that tells nothing apart");
}
