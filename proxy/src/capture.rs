//! Everything off the serving path: three threads between the recorder and the sealed segments.
//!
//! ```text
//! recorder ══ records ══▶ observe ══ rows ══▶ write ──▶ spool ──▶ seal ──▶ segment
//! ```

use crate::account::{Account, Loss};
use crate::config::Config;
use crate::disk::{FILE_MODE, RealDisk};
use crate::error::Error;
use crate::limits;
use crate::metrics::Metrics;
use crate::observe::{self, Plan};
use crate::recorder::{Offer, Recorder};
use crate::room::Pause;
use crate::sealer;
use crate::swap::Swap;
use crate::writer::{Setup, Writer};
use std::fs::{DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use truetape_schemas::time::wall_now_us;

/// Name of the file that one proxy holds locked in its directory.
const LOCK: &str = ".truetape-proxy.lock";

/// Files that make a directory a set, a run, or the name of sets.
const FOREIGN: [&str; 3] = ["manifest.json", "run.json", "tags.json"];

/// Begins the names of an importer's segments.
const IMPORTED: &str = "import-";

/// The directory is for the owner only.
const DIRECTORY_MODE: u32 = 0o700;

/// What the admin page tells about capture.
#[derive(Debug, Default)]
pub struct Status {
    segment: Mutex<Option<PathBuf>>,
    /// A [`Pause`], or 0.
    paused: AtomicU8,
    failed: AtomicBool,
    flush: AtomicBool,
    noted_offers: AtomicU64,
}

impl Status {
    /// `recording`, `paused_disk` while the disk refuses or has no room, or `failed` once a bug has
    /// ended it.
    pub fn state(&self) -> &'static str {
        if self.failed.load(Relaxed) {
            "failed"
        } else if self.why_paused().is_some() {
            "paused_disk"
        } else {
            "recording"
        }
    }

    /// The spool that is being written.
    pub fn segment(&self) -> Option<PathBuf> {
        self.segment
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Another spool is being written, or none.
    pub fn opened(&self, path: Option<PathBuf>) {
        *self.segment.lock().unwrap_or_else(PoisonError::into_inner) = path;
    }

    /// Sets whether and why capture pauses.
    pub fn paused(&self, why: Option<Pause>) {
        self.paused.store(why.map_or(0, |why| why as u8), Relaxed);
    }

    /// Why it pauses; its rows are lost to [`Pause::loss`] meanwhile.
    pub fn why_paused(&self) -> Option<Pause> {
        let code = self.paused.load(Relaxed);
        Pause::ALL.into_iter().find(|why| *why as u8 == code)
    }

    /// Asks for the segment in progress to be sealed soon; of a flight recorder, for what it keeps
    /// to be written. What was asked for before it is done is done once.
    pub fn flush(&self) {
        self.flush.store(true, Relaxed);
    }

    /// Whether somebody asked for it since this was last asked.
    pub fn take_flush(&self) -> bool {
        self.flush.swap(false, Relaxed)
    }

    /// Whether anything arrived since this was last asked.
    pub fn offers_since_note(&self, account: &Account) -> bool {
        let offered = account.snapshot().offered;
        self.noted_offers.swap(offered, Relaxed) != offered
    }
}

/// Held by a thread of the capture. When the thread panics, it says so, once for all of them.
struct Guard(Arc<Status>);

impl Drop for Guard {
    fn drop(&mut self) {
        if std::thread::panicking() && !self.0.failed.swap(true, Relaxed) {
            tracing::error!("capture failed; traffic goes on, and is counted as lost");
        }
    }
}

/// The threads of one capture.
#[derive(Debug)]
pub struct Capture {
    recorder: Arc<Recorder>,
    status: Arc<Status>,
    stop: Arc<AtomicBool>,
    observer: JoinHandle<()>,
    writer: JoinHandle<()>,
    sealer: sealer::Handle,
    plans: Arc<Swap<Plan>>,
    _lock: File,
}

impl Capture {
    /// Locks the directory and starts. Spools that an earlier process left are sealed meanwhile.
    pub fn start(
        config: &Config,
        recorder: &Arc<Recorder>,
        metrics: &Arc<Metrics>,
        plan: Plan,
        records: Receiver<Offer>,
    ) -> Result<Self, Error> {
        let directory = config.out.clone();
        let lock = lock(&directory)?;
        let plan = Arc::new(plan.keyed(config)?);
        let status = Arc::new(Status::default());
        let prefix = format!("{}-{}", config.proxy_id, wall_now_us());
        let writer = Writer::start(
            recorder,
            metrics,
            &status,
            Box::new(RealDisk),
            Setup::of(config, prefix, Arc::clone(&plan.terms)),
        )
        .map_err(|cause| Error::Disk {
            path: directory.clone(),
            cause,
        })?;
        let runtime = |cause| Error::Runtime { cause };
        let (rows, written) = sync_channel(limits::WRITE_QUEUE_ROWS_MAX);
        let stop = Arc::new(AtomicBool::new(false));
        let sealer = sealer::start(directory, config.storage.keys.clone(), &status, metrics)
            .map_err(runtime)?;
        let poke = sealer.poke();
        let guard = Guard(Arc::clone(&status));
        let writer = thread("truetape-write", move || {
            let _guard = guard;
            writer.run(&written, &poke);
        })?;
        let plans = Arc::new(Swap::new(plan));
        let observing = observe::Observer::new(
            Arc::clone(&plans),
            Arc::clone(recorder),
            Arc::clone(metrics),
        );
        let stopping = Arc::clone(&stop);
        let guard = Guard(Arc::clone(&status));
        let observer = thread("truetape-read", move || {
            let _guard = guard;
            observing.run(&records, &rows, &stopping);
        })?;
        let recorder = Arc::clone(recorder);
        Ok(Self {
            recorder,
            status,
            stop,
            observer,
            writer,
            sealer,
            plans,
            _lock: lock,
        })
    }

    /// What rows are made by; a reload puts another plan in force.
    pub fn plans(&self) -> Arc<Swap<Plan>> {
        Arc::clone(&self.plans)
    }

    /// What the admin page tells.
    pub fn status(&self) -> Arc<Status> {
        Arc::clone(&self.status)
    }

    /// Writes and seals what is queued, once nothing more is offered. A disk that does not answer
    /// is not waited for without end. Says how many spools are left unsealed.
    pub async fn finish(self) -> u64 {
        self.stop.store(true, Relaxed);
        self.observer.thread().unpark();
        let account = Arc::clone(self.recorder.account());
        let joining = tokio::task::spawn_blocking(move || {
            // A thread that panicked has said so; what it held is settled below.
            drop(self.observer.join());
            drop(self.writer.join());
            self.sealer.finish()
        });
        let unsealed = match tokio::time::timeout(limits::SEAL_WITHIN, joining).await {
            Ok(Ok(unsealed)) => unsealed,
            Ok(Err(_)) | Err(_) => {
                tracing::error!("the last segment could not be sealed in time");
                1
            }
        };
        let ledger = account.snapshot();
        account.lose(
            Loss::Shutdown,
            ledger.offered.saturating_sub(ledger.accounted()),
        );
        unsealed
    }
}

fn thread(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Error> {
    Builder::new()
        .name(name.to_owned())
        .spawn(move || {
            yield_to_traffic();
            run();
        })
        .map_err(|cause| Error::Runtime { cause })
}

/// Recording takes the processor when traffic leaves it, and a smaller share when there is none to
/// spare. Where the system refuses, both are equal.
pub(crate) fn yield_to_traffic() {
    // With no process named, it is this thread.
    rustix::process::setpriority_process(None, limits::RECORDING_NICE).ok();
}

/// Makes the directory where it is missing, and locks it for this process.
fn lock(directory: &Path) -> Result<File, Error> {
    let disk = |path: &Path| {
        let path = path.to_owned();
        move |cause| Error::Disk { path, cause }
    };
    let mut builder = DirBuilder::new();
    builder
        .recursive(true)
        .mode(DIRECTORY_MODE)
        .create(directory)
        .map_err(disk(directory))?;
    refuse_foreign(directory)?;
    let path = directory.join(LOCK);
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(FILE_MODE)
        .open(&path)
        .map_err(disk(&path))?;
    match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(Error::Locked {
            directory: directory.to_owned(),
        }),
        Err(cause) => Err(disk(&path)(cause.into())),
    }
}

/// Refuses a directory that holds something else: segments among the files of a set or a run, or of
/// an imported trace, would be read as part of it.
fn refuse_foreign(directory: &Path) -> Result<(), Error> {
    let disk = |cause| Error::Disk {
        path: directory.to_owned(),
        cause,
    };
    for entry in std::fs::read_dir(directory).map_err(disk)? {
        let name = entry.map_err(disk)?.file_name();
        let name = name.to_string_lossy();
        if FOREIGN.contains(&&*name) || name.starts_with(IMPORTED) {
            let problem = format!(
                "{} holds {name}: it is no directory of a recorder; name another",
                directory.display()
            );
            return Err(Error::config("out", problem));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Guard, Pause, Status, lock};
    use std::sync::Arc;

    #[test]
    fn a_directory_of_something_else_is_refused() {
        for name in [
            "run.json",
            "manifest.json",
            "tags.json",
            "import-mooncake-00000.parquet",
        ] {
            let directory = tempfile::tempdir().unwrap();
            std::fs::write(directory.path().join(name), "").unwrap();
            let refused = lock(directory.path()).unwrap_err().to_string();
            assert!(refused.contains(name), "{refused}");
        }
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("pod-1-000001.parquet"), "").unwrap();
        lock(directory.path()).unwrap();
    }

    #[test]
    fn a_thread_that_panics_fails_the_capture_and_one_that_ends_does_not() {
        let status = Arc::new(Status::default());
        let ends = Guard(Arc::clone(&status));
        std::thread::spawn(move || drop(ends)).join().unwrap();
        assert_eq!(status.state(), "recording");
        let fails = Guard(Arc::clone(&status));
        let failed = std::thread::spawn(move || {
            let _fails = fails;
            panic!("as it should");
        });
        assert!(failed.join().is_err());
        status.paused(Some(Pause::Low));
        assert_eq!(status.state(), "failed");
    }
}
