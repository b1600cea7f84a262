//! Production, in small: sessions of several turns that share a system prompt.

use crate::engine::MODEL;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;
use truetape_testkit::client;

const SESSIONS: usize = 6;
const TURNS: usize = 4;

/// Words of the system prompt: several blocks of any engine.
const SYSTEM_WORDS: usize = 160;
/// Words of a question.
const QUESTION_WORDS: usize = 60;

/// Between two turns, so that they are told apart.
const PAUSE: Duration = Duration::from_millis(30);

/// Sends it, and says how many turns were answered.
pub(crate) fn send(to: SocketAddr) -> Result<usize, String> {
    let mut sessions: Vec<Vec<Value>> = (0..SESSIONS)
        .map(|_| vec![json!({"role": "system", "content": words(0, SYSTEM_WORDS)})])
        .collect();
    let mut answered = 0;
    for turn in 0..TURNS {
        for (session, messages) in sessions.iter_mut().enumerate() {
            let number = 1 + turn * SESSIONS + session;
            messages.push(json!({"role": "user", "content": words(number, QUESTION_WORDS)}));
            let body = json!({
                "model": MODEL,
                "messages": messages,
                "stream": true,
                "stream_options": {"include_usage": true},
                "max_tokens": 8 + 5 * (number % 7),
                "temperature": 0,
            });
            let headers = [
                ("content-type".to_owned(), "application/json".to_owned()),
                ("x-session-id".to_owned(), format!("session-{session}")),
            ];
            let request = client::request(
                "POST",
                "/v1/chat/completions",
                &headers,
                body.to_string().as_bytes(),
            );
            let answer = client::exchange(to, &request, None);
            if answer.status() != 200 {
                return Err(format!(
                    "turn {number}: {} {}",
                    answer.status(),
                    answer.text()
                ));
            }
            messages.push(json!({"role": "assistant", "content": said(&answer.text())}));
            answered += 1;
            std::thread::sleep(PAUSE);
        }
    }
    Ok(answered)
}

/// What a streamed answer said.
fn said(stream: &str) -> String {
    stream
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .filter_map(|data| serde_json::from_str::<Value>(data).ok())
        .filter_map(|event| {
            let content = event.pointer("/choices/0/delta/content")?;
            content.as_str().map(str::to_owned)
        })
        .collect()
}

/// Words that differ from those of every other number.
fn words(number: usize, count: usize) -> String {
    const WORDS: [&str; 16] = [
        "def", "return", "import", "class", "value", "self", "index", "while", "string", "list",
        "error", "write", "count", "path", "items", "break",
    ];
    let mut state = 0x9e37_79b9_usize.wrapping_mul(number + 1);
    let mut text = format!("number {number}:");
    for _ in 0..count {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        text.push(' ');
        text.push_str(WORDS[(state >> 33) % WORDS.len()]);
    }
    text
}
