//! A proxy in front of a scripted upstream.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use truetape_schemas::capture::Exchange;
use truetape_schemas::ledger::Ledger;
use truetape_testkit::capture;
use truetape_testkit::client;
use truetape_testkit::process::{Ended, Process};
use truetape_testkit::tempdir::TempDir;
use truetape_testkit::upstream::{Action, Record, Script, Step, Upstream};

/// Longest wait for what should happen at once.
pub(crate) const SOON: Duration = Duration::from_secs(10);

pub(crate) const PROXY: &str = env!("CARGO_BIN_EXE_truetape-proxy");

pub(crate) const CHAT: &str = "/v1/chat/completions";

pub(crate) struct Sidecar {
    pub(crate) process: Process,
    pub(crate) listen: SocketAddr,
    pub(crate) admin: SocketAddr,
}

pub(crate) fn args(upstream: &str, out: &Path, more: &[&str]) -> Vec<String> {
    let out = out.display().to_string();
    let loopback = "127.0.0.1:0";
    let fixed = [
        "--listen",
        loopback,
        "--admin",
        loopback,
        "--upstream",
        upstream,
        "--out",
        &out,
    ];
    let named = more.contains(&"--proxy-id");
    let name: &[&str] = if named { &[] } else { &["--proxy-id", "test"] };
    fixed
        .iter()
        .chain(name)
        .chain(more)
        .map(|arg| (*arg).to_owned())
        .collect()
}

impl Sidecar {
    pub(crate) fn start(upstream: &str, out: &Path, more: &[&str]) -> Self {
        Self::of(Process::start(
            Path::new(PROXY),
            args(upstream, out, more),
            &[],
        ))
    }

    pub(crate) fn of(process: Process) -> Self {
        let listening = process.listening();
        let admin = listening.admin.unwrap();
        Self {
            process,
            listen: listening.listen,
            admin,
        }
    }

    /// An admin page: status and text.
    pub(crate) fn page(&self, path: &str) -> (u16, String) {
        let answer = client::exchange(self.admin, &get(path), None);
        (answer.status(), answer.text())
    }

    /// A command to the admin port: status and text.
    pub(crate) fn command(&self, path: &str) -> (u16, String) {
        let request = format!("POST {path} HTTP/1.1\r\nhost: admin\r\ncontent-length: 0\r\n\r\n");
        let answer = client::exchange(self.admin, request.as_bytes(), None);
        (answer.status(), answer.text())
    }

    /// A metric's value, labels included in the name.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let (_, page) = self.page("/metrics");
        let value = page
            .lines()
            .find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        value.unwrap_or_else(|| panic!("{name} is not in\n{page}"))
    }

    /// Resident memory.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let path = format!("/proc/{}/status", self.process.id());
        let status = std::fs::read_to_string(path).unwrap();
        let line = status
            .lines()
            .find(|line| line.starts_with("VmRSS:"))
            .unwrap();
        line.split_whitespace()
            .nth(1)
            .unwrap()
            .parse::<u64>()
            .unwrap()
            * 1024
    }

    pub(crate) fn stop(self) -> Ended {
        self.process.stop().expect_code(0)
    }
}

/// A proxy in front of an upstream, with a folder of its own.
pub(crate) struct Stage {
    pub(crate) upstream: Upstream,
    pub(crate) out: TempDir,
    pub(crate) sidecar: Sidecar,
}

impl Stage {
    pub(crate) fn new(
        label: &str,
        respond: impl Fn(&Record) -> Script + Send + Sync + 'static,
    ) -> Self {
        Self::with(label, &[], respond)
    }

    pub(crate) fn with(
        label: &str,
        more: &[&str],
        respond: impl Fn(&Record) -> Script + Send + Sync + 'static,
    ) -> Self {
        let upstream = Upstream::start(respond);
        let out = TempDir::new(label);
        let sidecar = Sidecar::start(&upstream.url(), &out.join("captures"), more);
        Self {
            upstream,
            out,
            sidecar,
        }
    }

    /// Sends one request on a connection of its own, as bytes.
    pub(crate) fn send(&self, request: &[u8]) -> client::Answer {
        client::exchange(self.sidecar.listen, request, None)
    }

    /// Ends in order; gives the rows and the sum of the ledgers, which must balance.
    pub(crate) fn finish(self) -> (Vec<Exchange>, Ledger) {
        let Self {
            upstream,
            out,
            sidecar,
        } = self;
        sidecar.stop();
        drop(upstream);
        captured(&out.join("captures"))
    }
}

/// Rows and the sum of the ledgers of a directory; it must hold no other data, and balance.
pub(crate) fn captured(directory: &Path) -> (Vec<Exchange>, Ledger) {
    let rows = capture::rows(directory);
    let mut sum = Ledger::default();
    for footer in capture::footers(directory) {
        let ledger = footer.ledger.unwrap();
        assert!(ledger.balances(), "{ledger:?}");
        sum.merge(&ledger);
    }
    assert_eq!(sum.rows(), rows.len() as u64, "{sum:?}");
    (rows, sum)
}

/// Whether any file below a directory, or a text, holds these bytes.
pub(crate) fn holders(directory: &Path, needle: &str) -> Vec<PathBuf> {
    let holds = |path: &PathBuf| {
        let bytes = std::fs::read(path).unwrap();
        bytes
            .windows(needle.len())
            .any(|window| window == needle.as_bytes())
    };
    capture::files(directory)
        .into_iter()
        .filter(holds)
        .collect()
}

pub(crate) fn get(path: &str) -> Vec<u8> {
    client::request("GET", path, &[], b"")
}

/// A streaming chat request.
pub(crate) fn chat() -> Vec<u8> {
    let message = serde_json::json!([{"role": "user", "content": "ping"}]);
    let body = serde_json::json!({"model": "syn", "stream": true, "messages": message});
    client::post_json(CHAT, &body)
}

pub(crate) fn ok(_: &Record) -> Script {
    Script::json(200, &serde_json::json!({"ok": true}))
}

/// A content event of a chat stream.
pub(crate) fn event(text: &str) -> Vec<u8> {
    let choices = serde_json::json!([{"index": 0, "delta": {"content": text}}]);
    let event =
        serde_json::json!({"id": "c1", "object": "chat.completion.chunk", "choices": choices});
    format!("data: {event}\n\n").into_bytes()
}

pub(crate) fn write(at_ms: u64, bytes: impl Into<Vec<u8>>) -> Step {
    Step {
        at: Duration::from_millis(at_ms),
        action: Action::Write(bytes.into()),
    }
}

pub(crate) fn act(at_ms: u64, action: Action) -> Step {
    Step {
        at: Duration::from_millis(at_ms),
        action,
    }
}

/// A stream of `tokens` events, `gap_ms` apart, with its end.
pub(crate) fn stream(tokens: u64, gap_ms: u64) -> Script {
    let mut steps: Vec<Step> = (1..=tokens)
        .map(|token| write(token * gap_ms, event(&format!("t{token}"))))
        .collect();
    steps.push(write(tokens * gap_ms, "data: [DONE]\n\n"));
    steps.push(act(tokens * gap_ms, Action::End));
    Script::events(steps)
}

/// Counts calls: 0, 1, 2 ...
pub(crate) fn counter() -> impl Fn() -> usize + Send + Sync {
    let calls = std::sync::atomic::AtomicUsize::new(0);
    move || calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}

/// How late this machine wakes a thread, at worst, while it is held: a bound on a time is widened
/// by it, since a late test is no late proxy.
pub(crate) struct Meter {
    worst_us: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

impl Meter {
    pub(crate) fn start() -> Self {
        let meter = Self {
            worst_us: Arc::default(),
            stop: Arc::default(),
        };
        let (worst_us, stop) = (Arc::clone(&meter.worst_us), Arc::clone(&meter.stop));
        let nap = Duration::from_millis(1);
        std::thread::spawn(move || {
            while !stop.load(Relaxed) {
                let asleep = Instant::now();
                std::thread::sleep(nap);
                let late_us = (asleep.elapsed() - nap).as_micros();
                worst_us.fetch_max(u64::try_from(late_us).unwrap_or(u64::MAX), Relaxed);
            }
        });
        meter
    }

    pub(crate) fn widen(&self, bound: Duration) -> Duration {
        // Each of the proxy, the upstream and the test may be woken late.
        bound + 3 * Duration::from_micros(self.worst_us.load(Relaxed))
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
    }
}
