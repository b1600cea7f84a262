//! P4: prompt text leaves the process in a capture only, and secrets do not leave it at all.

use crate::support::{Recorder, WITHIN, compile, truetape_with};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::path::Path;
use truetape_testkit::capture;
use truetape_testkit::client::{exchange, request};
use truetape_testkit::tempdir::TempDir;
use truetape_testkit::upstream::{Action, Script, Upstream};

/// What a user says.
const PROMPT: &str = "CANARY-PROMPT-7d1f";

/// What a model says.
const ANSWER: &str = "CANARY-ANSWER-93ab";

/// What nobody but the server may see.
const SECRET: &str = "CANARY-SECRET-c04e";

/// Every event there is.
const LOG: (&str, &str) = ("TRUETAPE_LOG", "trace");

fn ask(path: &str, extra: &[(&str, &str)], body: &str) -> Vec<u8> {
    let mut headers = vec![("content-type".to_owned(), "application/json".to_owned())];
    headers.extend(
        extra
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
    );
    request("POST", path, &headers, body.as_bytes())
}

fn chat() -> String {
    json!({"model": "m", "messages": [{"role": "user", "content": PROMPT}]}).to_string()
}

fn respond(path: &str) -> Script {
    if path.contains("refused") {
        let error =
            json!({"error": {"message": format!("no: {PROMPT}, bearer {SECRET}"), "code": 401}});
        return Script::json(401, &error);
    }
    if path.contains("cut") {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n{{\"{ANSWER}\":");
        return Script::raw(head.as_bytes(), Action::Close);
    }
    let message = json!({"role": "assistant", "content": ANSWER});
    Script::json(
        200,
        &json!({
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 9, "completion_tokens": 4},
        }),
    )
}

#[track_caller]
fn clean(what: &str, text: &str) {
    for canary in [PROMPT, ANSWER, SECRET] {
        let at = text.find(canary).map(|at| {
            let start = at.saturating_sub(200);
            text.get(start..at + canary.len())
                .unwrap_or(canary)
                .to_owned()
        });
        assert_eq!(at, None, "{what} holds {canary}");
    }
}

fn everything_below(dir: &Path) -> String {
    let read = |path| String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned();
    capture::files(dir).into_iter().map(read).collect()
}

#[test]
fn canaries_stay_where_they_belong() {
    let dir = TempDir::new("privacy");
    let captured = dir.join("capture");
    let upstream = Upstream::start(|record| respond(&record.head.start));
    let recorder = Recorder::start_with(&upstream.url(), &captured, &[], &[LOG]);
    let secret = format!("Bearer {SECRET}");
    let extra = [
        ("authorization", secret.as_str()),
        ("cookie", secret.as_str()),
        ("api-key", SECRET),
        ("x-api-key", SECRET),
    ];
    let query = format!("/v1/chat/completions?api_key={SECRET}&key={SECRET}");
    for (path, body) in [
        (query.as_str(), chat()),
        ("/v1/chat/completions?refused", chat()),
        ("/v1/chat/completions?cut", chat()),
        (
            "/v1/chat/completions",
            format!("{{\"messages\": \"{PROMPT}"),
        ),
        ("/v1/other", PROMPT.to_owned()),
    ] {
        exchange(recorder.at.listen, &ask(path, &extra, &body), None);
    }
    let admin = recorder.admin();
    for page in ["/metrics", "/capture", "/version", "/readyz", "/nowhere"] {
        let answer = exchange(admin, &request("GET", page, &[], b""), None);
        clean(page, &answer.text());
    }
    let ended = recorder.process.stop().expect_code(0);
    clean(
        "the log of the proxy",
        &format!("{}{}", ended.stderr, ended.stdout),
    );

    let rows = capture::rows(&captured);
    assert_eq!(rows.len(), 5);
    let body = |row: &truetape_schemas::capture::Exchange| {
        String::from_utf8_lossy(row.request_body.as_deref().unwrap_or_default()).into_owned()
    };
    assert!(
        rows.iter().all(|row| body(row).contains(PROMPT)),
        "the capture has the prompts"
    );
    for row in &rows {
        let columns = serde_json::to_string(row).unwrap();
        assert!(
            !columns.contains(SECRET),
            "a secret is in the capture: {columns}"
        );
        let answer = String::from_utf8_lossy(row.response_body.as_deref().unwrap_or_default());
        assert!(
            !answer.contains(SECRET),
            "a secret is in a recorded error body: {answer}"
        );
    }

    let set = compile(&dir, &captured, "clean", "synthetic");
    clean("a synthetic set", &everything_below(&set.dir));
    let contents = truetape_schemas::set::store::content(&set.dir)
        .unwrap()
        .read_all()
        .unwrap();
    for part in contents {
        clean(
            "the content of a synthetic set",
            &String::from_utf8_lossy(&part.body),
        );
    }
    for verb in ["inspect", "profile", "verify"] {
        for subject in [captured.as_os_str(), set.dir.as_os_str()] {
            let ended = truetape_with(&[OsStr::new(verb), subject], &[LOG]);
            clean(verb, &format!("{}{}", ended.stdout, ended.stderr));
        }
    }
}

#[test]
fn an_upstream_that_is_not_there_is_said_without_the_prompt() {
    let dir = TempDir::new("nobody");
    let gone = Upstream::start(|_| Script::json(200, &Value::Null));
    let url = gone.url();
    drop(gone);
    let recorder = Recorder::start_with(&url, &dir.join("capture"), &[], &[LOG]);
    let answer = exchange(
        recorder.at.listen,
        &ask("/v1/chat/completions", &[], &chat()),
        None,
    );
    assert_eq!(answer.status(), 502);
    clean("our own error", &answer.text());
    let rows_then = recorder.process.stop().expect_code(0);
    clean("the log", &rows_then.stderr);
    let rows = capture::await_rows(&dir.join("capture"), 1, WITHIN);
    assert_eq!(rows.len(), 1, "an arrival that found nobody is an arrival");
}
