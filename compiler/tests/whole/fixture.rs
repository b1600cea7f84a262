//! Captures made up for tests, and the ways to compile them.

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use truetape_compiler::compile::{CompileOptions, Compiled, compile};
use truetape_compiler::import::format::TraceFormat;
use truetape_compiler::import::{ImportOptions, Imported, import};
use truetape_compiler::recipe::Recipe;
use truetape_fidelity::tokens::{count, render_chat};
use truetape_schemas::capture::{Exchange, LengthSource, Outcome};
use truetape_schemas::file::{Reader, Writer};
use truetape_schemas::set::{Content, Turn, store};

/// A conversation to be held.
#[derive(Clone, Debug)]
pub(crate) struct Talk {
    pub(crate) name: String,
    pub(crate) start_us: i64,
    pub(crate) turns: usize,
    /// Named by the client, or left to be inferred.
    pub(crate) keyed: bool,
}

/// Holds a conversation: every turn brings the whole history along.
pub(crate) fn hold(talk: &Talk) -> Vec<Exchange> {
    let mut messages = vec![json!({"role": "system", "content": "You are a helpful Canary."})];
    let mut exchanges = Vec::new();
    for turn in 0..talk.turns {
        let question = format!("{}: Canary question number {turn}?", talk.name);
        messages.push(json!({"role": "user", "content": question}));
        let answer = format!("{}: Canary answer {turn}.", talk.name);
        let at = talk.start_us + turn as i64 * 5_000_000;
        exchanges.push(exchange(talk, turn, at, &messages, &answer));
        messages.push(json!({"role": "assistant", "content": answer}));
    }
    exchanges
}

fn exchange(talk: &Talk, turn: usize, at: i64, messages: &[Value], answer: &str) -> Exchange {
    let body = json!({
        "model": "stub", "temperature": 0.5, "max_tokens": 64, "user": "Canary",
        "messages": messages,
    });
    let input = i64::try_from(count(&render_chat(&body))).unwrap();
    let response = json!({
        "id": format!("{}-{turn}", talk.name), "object": "chat.completion",
        "choices": [{"index": 0, "finish_reason": "stop",
            "message": {"role": "assistant", "content": answer}}],
        "usage": {"prompt_tokens": input, "completion_tokens": 7},
    });
    Exchange {
        exchange_id: format!("{}-{turn:04}", talk.name),
        proxy_id: "p".into(),
        conn_seq: i32::try_from(turn).unwrap(),
        upstream: "127.0.0.1:1".into(),
        arrival: 1_700_000_000_000_000 + at,
        arrival_mono_us: at,
        request_end_us: Some(10),
        first_token_us: Some(1_010),
        last_token_us: Some(2_010),
        end_us: Some(2_050),
        method: "POST".into(),
        path: "/v1/chat/completions".into(),
        dialect: "openai_chat".into(),
        model: Some("stub".into()),
        request_body: Some(body.to_string().into_bytes()),
        response_headers: vec![truetape_schemas::capture::Header {
            name: "content-type".into(),
            value: "application/json".into(),
        }],
        response_body: Some(response.to_string().into_bytes()),
        status: Some(200),
        max_tokens: Some(64),
        temperature: Some(0.5),
        input_tokens: Some(input),
        input_tokens_source: LengthSource::Usage,
        output_tokens: Some(7),
        output_tokens_source: LengthSource::Usage,
        session_key: talk.keyed.then(|| talk.name.clone()),
        session_rule: talk.keyed.then(|| "header:x-session-id".into()),
        outcome: Outcome::Complete,
        ..Exchange::default()
    }
}

/// Writes rows as one segment, with a ledger that fits.
pub(crate) fn write(path: &Path, rows: &[Exchange]) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut writer = Writer::<Exchange>::create(path).unwrap();
    writer.write(rows).unwrap();
    let footer = truetape_testkit::capture::whole(rows.len());
    writer.finish(&footer.to_pairs()).unwrap();
}

/// Compiles captures into a store.
pub(crate) fn compiled(captures: &[PathBuf], recipe: &str, store: &Path) -> Compiled {
    compile(&options(captures, recipe, store, 2)).unwrap()
}

pub(crate) fn options(
    captures: &[PathBuf],
    recipe: &str,
    store: &Path,
    threads: usize,
) -> CompileOptions {
    CompileOptions {
        captures: captures.to_vec(),
        recipe: Recipe::parse(recipe).unwrap(),
        store: store.to_owned(),
        tags: Vec::new(),
        threads,
    }
}

/// Imports a trace that is given as text.
pub(crate) fn imported(format: TraceFormat, text: &str, dir: &Path) -> (Imported, Vec<Exchange>) {
    let file = dir.join("trace.jsonl");
    std::fs::write(&file, text).unwrap();
    let options = ImportOptions {
        format,
        files: vec![file],
        out: dir.join("capture"),
        block_tokens: None,
        start_us: 0,
        strict: false,
    };
    let imported = import(&options).unwrap();
    let read = |path: &PathBuf| Reader::<Exchange>::open(path).unwrap().read_all().unwrap();
    let rows = imported.segments.iter().flat_map(read).collect();
    (imported, rows)
}

pub(crate) fn turns(compiled: &Compiled) -> Vec<Turn> {
    store::turns(&compiled.dir).unwrap()
}

pub(crate) fn contents(compiled: &Compiled) -> std::collections::HashMap<String, Content> {
    let parts = store::content(&compiled.dir).unwrap().read_all().unwrap();
    parts
        .into_iter()
        .map(|part| (part.content_id.clone(), part))
        .collect()
}
