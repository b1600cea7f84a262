//! The replayer, as its users run it.

use crate::proxied::TRUETAPE;
use std::ffi::OsString;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;
use truetape_schemas::run::{self, Dispatch, Run};
use truetape_testkit::process::{Process, RUN_WITHIN, waited_for_cpu};
use truetape_testkit::upstream::Upstream;

/// What is asked of a replay besides the set and the target.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options<'a> {
    pub(crate) more: &'a [&'a str],
}

/// A run, read back.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) run: Run,
    pub(crate) dispatches: Vec<Dispatch>,
    /// How long its threads waited for a processor.
    pub(crate) waited_ms: f64,
    /// What is wrong whatever is expected.
    pub(crate) faults: Vec<String>,
}

/// The exit code of a run that was too late for its own schedule.
const TOO_LATE: i32 = 74;

/// Exit codes of a replay that wrote a run: yes, no, and "too late to be trusted".
const WROTE_A_RUN: &[i32] = &[0, 1, TOO_LATE];

/// Replays a set against a target, and reads the run.
pub(crate) fn replay(
    set: &Path,
    target: &Upstream,
    out: &Path,
    options: &Options<'_>,
) -> Result<Ran, String> {
    let mut args: Vec<OsString> = vec!["replay".into(), set.as_os_str().to_owned()];
    args.extend(["--target".into(), target.url().into()]);
    args.extend(["--out".into(), out.as_os_str().to_owned()]);
    args.extend(options.more.iter().map(OsString::from));
    let process = Process::start(TRUETAPE.as_ref(), args, &[]);
    let waiting = Waiting::watch(process.id());
    let ended = process.wait(RUN_WITHIN);
    let waited_ms = waiting.stop();
    if !ended.code.is_some_and(|code| WROTE_A_RUN.contains(&code)) {
        return Err(format!(
            "replay ended with {:?}: {}",
            ended.code, ended.stderr
        ));
    }
    let text = |e: truetape_schemas::file::Error| format!("{e}\n{}", ended.stderr);
    let run = run::open(out).map_err(text)?;
    let dispatches = run::dispatches(out).map_err(text)?;
    let mut faults = faults(&run, &dispatches);
    if (run.validity == "invalid") != (ended.code == Some(TOO_LATE)) {
        let (code, validity) = (ended.code, &run.validity);
        faults.push(format!(
            "the run is {validity}, and the command ended with {code:?}"
        ));
    }
    Ok(Ran {
        run,
        dispatches,
        waited_ms,
        faults,
    })
}

/// R2 and R4.
fn faults(run: &Run, dispatches: &[Dispatch]) -> Vec<String> {
    let mut faults = Vec::new();
    if !run.account.balances() {
        faults.push(format!("the account does not balance: {:?}", run.account));
    }
    if run.account.due != dispatches.len() as u64 {
        faults.push(format!(
            "{} due, {} rows",
            run.account.due,
            dispatches.len()
        ));
    }
    let early = dispatches.iter().filter(|dispatch| {
        let late = dispatch.lateness_us.is_some_and(|us| us < 0);
        late || dispatch
            .sent_us
            .is_some_and(|sent_us| sent_us < dispatch.due_us.min(sent_us + 1))
    });
    for dispatch in early {
        faults.push(format!(
            "turn {} was sent early: {dispatch:?}",
            dispatch.turn_id
        ));
    }
    faults
}

/// Between two looks at a process that will be gone when it has ended.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Follows how long a process waits for a processor.
struct Waiting {
    stop: SyncSender<()>,
    thread: JoinHandle<Duration>,
}

impl Waiting {
    fn watch(id: u32) -> Self {
        let (stop, stopped) = sync_channel(1);
        let thread = std::thread::spawn(move || {
            let mut waited = Duration::ZERO;
            while stopped.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                waited = waited.max(waited_for_cpu(id).values().sum());
            }
            waited
        });
        Self { stop, thread }
    }

    fn stop(self) -> f64 {
        drop(self.stop);
        self.thread.join().unwrap_or_default().as_secs_f64() * 1e3
    }
}
