//! One of our binaries: started, awaited by its log, ended by signal, killed on drop.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{BufRead as _, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// Longest wait for a process to start, to log, or to end.
pub const WITHIN: Duration = Duration::from_secs(20);

/// Where a server listens, by its own word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listening {
    /// The address for traffic.
    pub listen: SocketAddr,
    /// The admin address, where there is one.
    pub admin: Option<SocketAddr>,
}

/// How a process ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Its exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// All of its standard output.
    pub stdout: String,
    /// All of its standard error.
    pub stderr: String,
}

impl Ended {
    /// Panics with everything the process said, unless it ended with `code`.
    #[track_caller]
    pub fn expect_code(self, code: i32) -> Self {
        assert_eq!(
            self.code,
            Some(code),
            "stdout:\n{}\nstderr:\n{}",
            self.stdout,
            self.stderr
        );
        self
    }
}

#[derive(Debug, Default)]
struct Lines {
    state: Mutex<(Vec<String>, bool)>,
    changed: Condvar,
}

impl Lines {
    fn follow(self: &Arc<Self>, source: impl Read + Send + 'static) {
        let lines = Arc::clone(self);
        std::thread::spawn(move || {
            let mut source = BufReader::new(source);
            let mut line = Vec::new();
            while source
                .read_until(b'\n', &mut line)
                .is_ok_and(|read| read > 0)
            {
                let text = String::from_utf8_lossy(&line)
                    .trim_end_matches('\n')
                    .to_owned();
                lines.state.lock().expect("no panics").0.push(text);
                lines.changed.notify_all();
                line.clear();
            }
            lines.state.lock().expect("no panics").1 = true;
            lines.changed.notify_all();
        });
    }

    fn text(&self) -> String {
        self.state.lock().expect("no panics").0.join("\n")
    }

    /// `None` when the stream ended or the deadline came first.
    fn find<T>(&self, deadline: Instant, mut wanted: impl FnMut(&str) -> Option<T>) -> Option<T> {
        let mut state = self.state.lock().expect("no panics");
        let mut seen = 0;
        loop {
            while let Some(line) = state.0.get(seen) {
                if let Some(found) = wanted(line) {
                    return Some(found);
                }
                seen += 1;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if state.1 || left.is_zero() {
                return None;
            }
            state = self.changed.wait_timeout(state, left).expect("no panics").0;
        }
    }

    fn ended_by(&self, deadline: Instant) -> bool {
        self.find(deadline, |_| None::<()>);
        self.state.lock().expect("no panics").1
    }
}

/// A running process.
#[derive(Debug)]
pub struct Process {
    child: Child,
    name: String,
    stdout: Arc<Lines>,
    stderr: Arc<Lines>,
    status: Option<ExitStatus>,
}

impl Process {
    /// Starts a program; it inherits no `TRUETAPE_*` variable.
    pub fn start<A: AsRef<OsStr>>(
        program: &Path,
        args: impl IntoIterator<Item = A>,
        env: &[(&str, &str)],
    ) -> Self {
        Self::start_in(Path::new("."), program, args, env)
    }

    /// The same in a directory of its own.
    pub fn start_in<A: AsRef<OsStr>>(
        dir: &Path,
        program: &Path,
        args: impl IntoIterator<Item = A>,
        env: &[(&str, &str)],
    ) -> Self {
        let mut command = Command::new(program);
        command
            .current_dir(dir)
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("TRUETAPE_") {
                command.env_remove(name);
            }
        }
        command.envs(env.iter().copied());
        let name = format!("{command:?}");
        let mut child = command
            .spawn()
            .unwrap_or_else(|cause| panic!("{name}: {cause}"));
        let (stdout, stderr) = (Arc::new(Lines::default()), Arc::new(Lines::default()));
        stdout.follow(child.stdout.take().expect("it is piped"));
        stderr.follow(child.stderr.take().expect("it is piped"));
        Self {
            child,
            name,
            stdout,
            stderr,
            status: None,
        }
    }

    /// Waits for the event `listening`.
    #[track_caller]
    pub fn listening(&self) -> Listening {
        let event = self.event("listening");
        let addr = |field: &str| event.get(field)?.as_str()?.parse::<SocketAddr>().ok();
        let listen = addr("listen").unwrap_or_else(|| panic!("no address in {event}"));
        Listening {
            listen,
            admin: addr("admin"),
        }
    }

    /// Waits for a log event by its message, and gives its fields.
    #[track_caller]
    pub fn event(&self, message: &str) -> serde_json::Value {
        let found = self.stderr.find(Instant::now() + WITHIN, |line| {
            let event: serde_json::Value = serde_json::from_str(line).ok()?;
            let fields = event.get("fields").cloned().unwrap_or(event);
            (fields.get("message")?.as_str()? == message).then_some(fields)
        });
        found.unwrap_or_else(|| {
            panic!(
                "{} never logged {message:?}; it said:\n{}",
                self.name,
                self.stderr.text()
            )
        })
    }

    /// Everything on standard error so far.
    pub fn log(&self) -> String {
        self.stderr.text()
    }

    /// Process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to end (SIGTERM).
    pub fn terminate(&self) {
        self.signal(rustix::process::Signal::TERM);
    }

    /// Asks it to stop what it does (SIGINT).
    pub fn interrupt(&self) {
        self.signal(rustix::process::Signal::INT);
    }

    /// Asks for settings to be read again (SIGHUP).
    pub fn hang_up(&self) {
        self.signal(rustix::process::Signal::HUP);
    }

    /// Asks a recorder to write what it has (SIGUSR1).
    pub fn flush(&self) {
        self.signal(rustix::process::Signal::USR1);
    }

    /// Ends it without a word (SIGKILL), and waits until it is gone.
    pub fn kill(mut self) -> Ended {
        self.signal(rustix::process::Signal::KILL);
        self.reap();
        self.ended()
    }

    /// Waits until it ends by itself.
    #[track_caller]
    pub fn wait(mut self, within: Duration) -> Ended {
        let deadline = Instant::now() + within;
        let ended = self.stdout.ended_by(deadline) && self.stderr.ended_by(deadline);
        assert!(
            ended,
            "{} did not end in {within:?}; it said:\n{}",
            self.name,
            self.log()
        );
        self.reap();
        self.ended()
    }

    /// Asks it to end and waits until it has.
    #[track_caller]
    pub fn stop(self) -> Ended {
        self.terminate();
        self.wait(WITHIN)
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let id = i32::try_from(self.child.id())
            .ok()
            .and_then(rustix::process::Pid::from_raw);
        if let (None, Some(id)) = (self.status, id) {
            // It may have ended on its own a moment ago.
            rustix::process::kill_process(id, signal).ok();
        }
    }

    fn reap(&mut self) {
        if self.status.is_none() {
            self.status = self.child.wait().ok();
        }
    }

    fn ended(&self) -> Ended {
        let deadline = Instant::now() + WITHIN;
        self.stdout.ended_by(deadline);
        self.stderr.ended_by(deadline);
        Ended {
            code: self.status.and_then(|status| status.code()),
            stdout: self.stdout.text(),
            stderr: self.stderr.text(),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal(rustix::process::Signal::KILL);
        self.reap();
        if std::thread::panicking() {
            eprintln!("--- {} said:\n{}", self.name, self.stderr.text());
        }
    }
}

/// How long each thread of a process has waited for a processor so far: what a busy machine adds to
/// what the thread does. Empty where the system does not say.
pub fn waited_for_cpu(id: u32) -> BTreeMap<OsString, Duration> {
    let tasks = std::fs::read_dir(format!("/proc/{id}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let waited =
        |task: std::fs::DirEntry| Some((task.file_name(), waited(&task.path().join("schedstat"))?));
    tasks.filter_map(waited).collect()
}

/// The same for this thread alone.
pub fn this_thread_waited_for_cpu() -> Duration {
    waited(Path::new("/proc/thread-self/schedstat")).unwrap_or_default()
}

/// The second field: nanoseconds on a run queue.
fn waited(schedstat: &Path) -> Option<Duration> {
    let text = std::fs::read_to_string(schedstat).ok()?;
    text.split_whitespace()
        .nth(1)?
        .parse()
        .ok()
        .map(Duration::from_nanos)
}

/// Runs a command to its end.
#[track_caller]
pub fn run<A: AsRef<OsStr>>(program: &Path, args: impl IntoIterator<Item = A>) -> Ended {
    run_with(program, args, &[])
}

/// Runs a command to its end, with variables.
#[track_caller]
pub fn run_with<A: AsRef<OsStr>>(
    program: &Path,
    args: impl IntoIterator<Item = A>,
    env: &[(&str, &str)],
) -> Ended {
    Process::start(program, args, env).wait(RUN_WITHIN)
}

/// Longest wait for a command that runs to its end.
pub const RUN_WITHIN: Duration = Duration::from_secs(120);
