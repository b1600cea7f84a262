//! A headless Chromium, spoken to over its debugging pipe: descriptors 3 and 4, JSON ended by zero
//! bytes. A shell ties two named pipes to them.

use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};
use truetape_testkit::tempdir::TempDir;

/// Longest wait for an answer of the browser; its start on a busy machine is the slowest of them.
const WITHIN: Duration = Duration::from_secs(60);

/// Messages that may wait to be read.
const WAITING_MAX: usize = 4_096;

/// What the browser is called.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// The browser, where there is one.
pub(crate) fn installed() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut places = std::env::split_paths(&path).flat_map(|dir| NAMES.map(|name| dir.join(name)));
    places.find(|place| place.is_file())
}

/// A browser with one open page.
#[derive(Debug)]
pub(crate) struct Browser {
    child: Child,
    to: File,
    from: Receiver<Value>,
    asked: u64,
    session: Option<String>,
    /// What it told by itself, in order.
    events: Vec<Value>,
    _profile: TempDir,
}

impl Browser {
    pub(crate) fn start(program: &Path) -> Self {
        let profile = TempDir::new("browser");
        let (to, from) = (profile.join("to"), profile.join("from"));
        let made = Command::new("mkfifo").args([&to, &from]).status().unwrap();
        assert!(made.success());
        let child = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<\"$TO\" 4>\"$FROM\""])
            .arg(program)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--no-first-run",
            ])
            .args(["--disable-background-networking", "--disable-dev-shm-usage"])
            .arg("--remote-debugging-pipe")
            .arg(format!(
                "--user-data-dir={}",
                profile.join("profile").display()
            ))
            .env("TO", &to)
            .env("FROM", &from)
            .env("HOME", profile.join("home"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let to = OpenOptions::new().write(true).open(&to).unwrap();
        let mut browser = Self {
            child,
            to,
            from: follow(from),
            asked: 0,
            session: None,
            events: Vec::new(),
            _profile: profile,
        };
        browser.attach();
        browser
    }

    fn attach(&mut self) {
        let made = self.ask("Target.createTarget", json!({"url": "about:blank"}));
        let target = json!({"targetId": made["targetId"], "flatten": true});
        let attached = self.ask("Target.attachToTarget", target);
        self.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            self.ask(&format!("{domain}.enable"), json!({}));
        }
    }

    /// Asks, and waits for the answer.
    #[track_caller]
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        self.asked += 1;
        let mut message = json!({"id": self.asked, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.to
            .write_all(format!("{message}\0").as_bytes())
            .unwrap();
        let id = self.asked;
        let answer = self.await_message(|message| message["id"] == json!(id));
        assert_eq!(answer.get("error"), None, "{method}: {answer}");
        answer["result"].clone()
    }

    #[track_caller]
    fn await_message(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + WITHIN;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let message = self
                .from
                .recv_timeout(left)
                .unwrap_or_else(|cause| panic!("the browser does not answer: {cause}"));
            if wanted(&message) {
                return message;
            }
            if message.get("method").is_some() {
                self.events.push(message);
            }
        }
    }

    /// Opens a file, and waits until it is loaded.
    #[track_caller]
    pub(crate) fn open(&mut self, file: &Path) {
        self.events.clear();
        let file = file.canonicalize().unwrap();
        self.ask(
            "Page.navigate",
            json!({"url": format!("file://{}", file.display())}),
        );
        let loaded = |message: &Value| message["method"] == "Page.loadEventFired";
        if !self.events.iter().any(loaded) {
            self.await_message(loaded);
        }
    }

    /// The value of an expression in the page.
    #[track_caller]
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true});
        let answer = self.ask("Runtime.evaluate", params);
        assert_eq!(
            answer.get("exceptionDetails"),
            None,
            "{expression}: {answer}"
        );
        answer["result"]["value"].clone()
    }

    /// Presses a key and lets go of it.
    #[track_caller]
    pub(crate) fn press(&mut self, key: &str, code: u32) {
        for kind in ["keyDown", "keyUp"] {
            let params =
                json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code});
            self.ask("Input.dispatchKeyEvent", params);
        }
    }

    /// What the page complained of, and every address it asked for besides its own.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let of = |event: &Value| {
            let params = &event["params"];
            match event["method"].as_str()? {
                "Runtime.exceptionThrown" => Some(params.to_string()),
                "Runtime.consoleAPICalled" => Some(params["args"].to_string()),
                "Log.entryAdded" => Some(params["entry"]["text"].to_string()),
                "Network.requestWillBeSent" if params["type"] != "Document" => {
                    Some(params["request"]["url"].to_string())
                }
                _ => None,
            }
        };
        self.events.iter().filter_map(of).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It may have ended by itself.
        if self.child.kill().is_ok() {
            drop(self.child.wait());
        }
    }
}

/// Reads messages on a thread of its own, so that waiting for one can end.
fn follow(path: PathBuf) -> Receiver<Value> {
    let (messages, from) = sync_channel(WAITING_MAX);
    std::thread::spawn(move || {
        let mut source = BufReader::new(File::open(path).unwrap());
        let mut message = Vec::new();
        while source
            .read_until(0, &mut message)
            .is_ok_and(|read| read > 0)
        {
            let text = message.strip_suffix(&[0]).unwrap_or(&message);
            let read = serde_json::from_slice(text).unwrap();
            if messages.send(read).is_err() {
                return;
            }
            message.clear();
        }
    });
    from
}
