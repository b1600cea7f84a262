//! A stub of one's own, and what its answers say.

use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use truetape_fidelity::tokens;
use truetape_stub::engine::config::Config;
use truetape_stub::engine::{Handle, start};
use truetape_testkit::client::{Answer, End, exchange, post_json, request};

/// How long an event is awaited before the test fails.
pub(crate) const WITHIN: Duration = Duration::from_secs(20);

/// So fast that steps take no time.
pub(crate) const AT_ONCE: f64 = 1e9;

/// A running stub; dropping it stops it.
pub(crate) struct Stub {
    pub(crate) addr: SocketAddr,
    pub(crate) runtime: Runtime,
    handle: Option<Handle>,
}

impl Stub {
    pub(crate) fn start(config: Config) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let handle = runtime.block_on(start(config)).unwrap();
        Self {
            addr: handle.addr,
            runtime,
            handle: Some(handle),
        }
    }

    /// A stub whose steps take no time.
    pub(crate) fn at_once() -> Self {
        Self::start(at_once())
    }

    /// Stops it, and returns how many connections were cut.
    pub(crate) fn stop(&mut self) -> Option<u64> {
        self.handle
            .take()
            .map(|handle| self.runtime.block_on(handle.shutdown()))
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        whole(exchange(self.addr, &request("GET", path, &[], b""), None))
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        whole(exchange(self.addr, &post_json(path, body), None))
    }

    /// Posts and reads the JSON of an answer of status 200.
    pub(crate) fn ask(&self, path: &str, body: &Value) -> Value {
        let answer = self.post(path, body);
        assert_eq!(answer.status(), 200, "{}", answer.text());
        serde_json::from_slice(&answer.body).unwrap()
    }

    /// Posts a streamed request and reads its events, without the end mark, which must be there.
    pub(crate) fn events(&self, path: &str, body: &Value) -> Vec<Value> {
        let answer = self.post(path, body);
        assert_eq!(answer.status(), 200, "{}", answer.text());
        let head = answer.head.as_ref().unwrap();
        assert_eq!(
            head.value("content-type"),
            Some("text/event-stream; charset=utf-8")
        );
        events(&answer.text())
    }

    /// The value of a sample of `/metrics`, by the start of its line.
    pub(crate) fn sample(&self, name: &str) -> f64 {
        let text = self.get("/metrics").text();
        let line = text.lines().find(|line| line.starts_with(name));
        let value = line.and_then(|line| line.rsplit(' ').next());
        value
            .unwrap_or_else(|| panic!("no {name} in {text}"))
            .parse()
            .unwrap()
    }

    /// Waits until a sample has a value.
    pub(crate) fn await_sample(&self, name: &str, wanted: f64) {
        let deadline = Instant::now() + WITHIN;
        while self.sample(name) != wanted {
            assert!(
                Instant::now() < deadline,
                "{name} is {}, not {wanted}",
                self.sample(name)
            );
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.stop();
    }
}

pub(crate) fn at_once() -> Config {
    Config {
        speed: AT_ONCE,
        ..Config::default()
    }
}

/// The JSON of each event, in order; the end mark must be the last.
pub(crate) fn events(text: &str) -> Vec<Value> {
    let payloads: Vec<&str> = text
        .split_terminator("\n\n")
        .map(|event| {
            event
                .strip_prefix("data: ")
                .unwrap_or_else(|| panic!("{event:?}"))
        })
        .collect();
    let (last, payloads) = payloads.split_last().unwrap();
    assert_eq!(*last, "[DONE]");
    payloads
        .iter()
        .map(|payload| serde_json::from_str(payload).unwrap())
        .collect()
}

/// A chat of one user message.
pub(crate) fn chat(text: &str) -> Value {
    json!({"model": "stub", "messages": [{"role": "user", "content": text}]})
}

/// A request with more fields.
pub(crate) fn with(mut body: Value, fields: Value) -> Value {
    for (name, value) in fields.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

/// The seed of what is said to a chat by a server with seed 0.
pub(crate) fn seed_of(chat: &Value) -> u64 {
    tokens::output_seed(&tokens::render_chat(chat), [0, 0])
}

/// The first tokens said under a seed.
pub(crate) fn said(seed: u64, count: u64) -> String {
    (0..count)
        .map(|index| tokens::output_text(seed, index))
        .collect()
}

fn whole(answer: Answer) -> Answer {
    assert_eq!(answer.end, End::Clean, "{}", answer.text());
    answer
}
