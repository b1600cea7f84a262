//! The writer: rows to the spool, in batches, synced, rotated. A disk that fails costs rows, and
//! says so; it never costs a request.
//!
//! It is a thread and not a task: a sync can take seconds, and a task that holds a worker of the
//! runtime for so long would delay the traffic.

use crate::account::Loss;
use crate::books::Books;
use crate::budget::Held;
use crate::capture::Status;
use crate::config::Config;
use crate::disk::{Appender, Disk};
use crate::limits;
use crate::metrics::{Metric, Metrics};
use crate::recorder::Recorder;
use crate::sealer::Poke;
use crate::spool::{self, Head, Note};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// A row on its way to the spool.
#[derive(Debug)]
pub struct Entry {
    /// The row as a frame.
    pub frame: Vec<u8>,
    /// Something was given up.
    pub degraded: bool,
    /// What it holds of the budget.
    pub held: Held,
}

/// When a segment is full, and how often it is synced.
#[derive(Clone, Copy, Debug)]
pub struct Rotation {
    /// Size.
    pub bytes: u64,
    /// Rows.
    pub rows: u64,
    /// Age.
    pub every: Duration,
    /// Time between syncs.
    pub fsync_every: Duration,
}

impl Rotation {
    /// As set.
    pub fn of(config: &Config) -> Self {
        Self {
            bytes: config.rotate_bytes,
            rows: config.rotate_rows,
            every: config.rotate_every,
            fsync_every: config.fsync_every,
        }
    }
}

/// Names the spools of one process: no two processes and no two segments share a name.
#[derive(Debug)]
pub struct Names {
    /// The directory.
    pub directory: PathBuf,
    /// The recorder, and when it started.
    pub prefix: String,
    /// The next segment.
    pub next: u64,
}

impl Names {
    fn path(&self) -> PathBuf {
        self.directory
            .join(format!("{}-{:06}{}", self.prefix, self.next, spool::SUFFIX))
    }
}

struct Open {
    file: Box<dyn Appender>,
    bytes: u64,
    rows: u64,
    unsynced: bool,
    /// The file holds more than `bytes`: what a failed write left could not be cut off yet.
    torn: bool,
    opened: Instant,
    synced: Instant,
}

/// The writer's state.
pub struct Writer {
    recorder: Arc<Recorder>,
    metrics: Arc<Metrics>,
    status: Arc<Status>,
    disk: Box<dyn Disk>,
    rotation: Rotation,
    names: Names,
    config_digest: String,
    books: Books,
    open: Option<Open>,
    paused_until: Option<Instant>,
    complained: Option<(Instant, u64)>,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer")
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}

impl Writer {
    /// A writer with its first spool open: a directory that cannot be written to is an error at the
    /// start, and a loss later.
    pub fn start(
        recorder: &Arc<Recorder>,
        metrics: &Arc<Metrics>,
        status: &Arc<Status>,
        disk: Box<dyn Disk>,
        rotation: Rotation,
        names: Names,
        config_digest: String,
    ) -> io::Result<Self> {
        let account = Arc::clone(recorder.account());
        let mut writer = Self {
            recorder: Arc::clone(recorder),
            metrics: Arc::clone(metrics),
            status: Arc::clone(status),
            disk,
            rotation,
            names,
            config_digest,
            books: Books::new(account),
            open: None,
            paused_until: None,
            complained: None,
        };
        writer.open_next()?;
        Ok(writer)
    }

    /// Writes rows until the other end of the queue is gone, then closes the last segment.
    pub fn run(mut self, rows: &Receiver<Entry>, sealer: &Poke) {
        let mut segments = self.names.next;
        loop {
            match rows.recv_timeout(self.until_due()) {
                Ok(first) => {
                    let batch = batch(first, rows);
                    self.write(batch);
                }
                Err(RecvTimeoutError::Timeout) => self.note_quiet(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.recorder.clock().follow() {
                tracing::info!("wall clock moved; arrivals follow it from now on");
            }
            self.keep_house();
            if std::mem::replace(&mut segments, self.names.next) != self.names.next {
                sealer.closed();
            }
        }
        self.close(true);
    }

    /// Time until something is due although no row comes.
    fn until_due(&self) -> Duration {
        let Some(open) = &self.open else {
            return limits::DISK_RETRY_AFTER;
        };
        let due = if open.unsynced {
            open.synced + self.rotation.fsync_every
        } else {
            open.opened + self.rotation.every
        };
        // A tick at least as often as a sync keeps the noted ledger fresh.
        due.saturating_duration_since(Instant::now()).clamp(
            Duration::from_millis(1),
            self.rotation
                .fsync_every
                .clamp(limits::OBSERVE_TICK, limits::CLOCK_TICK),
        )
    }

    fn write(&mut self, batch: Vec<Entry>) {
        let rows = batch.len() as u64;
        if self
            .paused_until
            .is_some_and(|until| Instant::now() < until)
        {
            self.lose(rows);
            return;
        }
        if self.open.is_none() && self.open_next().is_err() {
            self.lose(rows);
            return;
        }
        let mut bytes: Vec<u8> = Vec::with_capacity(batch.iter().map(|e| e.frame.len()).sum());
        for entry in &batch {
            bytes.extend_from_slice(&entry.frame);
        }
        match self.append(&bytes, rows) {
            Ok(()) => {
                for entry in &batch {
                    self.books.account().record(entry.degraded);
                }
                // After the rows, so that it covers them.
                self.note();
                self.resumed();
            }
            Err(cause) => {
                self.refused(&cause);
                self.lose(rows);
            }
        }
    }

    /// Appends whole frames or nothing: what a failed write left is cut off again, before anything
    /// else is written. A spool that was let go of with it would show rows that count as lost.
    fn append(&mut self, bytes: &[u8], rows: u64) -> io::Result<()> {
        let Some(open) = &mut self.open else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        if open.torn {
            open.file.truncate(open.bytes)?;
            open.torn = false;
        }
        if let Err(cause) = open.file.append(bytes) {
            open.torn = open.file.truncate(open.bytes).is_err();
            return Err(cause);
        }
        open.bytes += bytes.len() as u64;
        open.rows += rows;
        open.unsynced = true;
        Ok(())
    }

    fn note(&mut self) {
        let note = Note {
            ledger: self.books.open(),
            anchor: self.recorder.clock().reading(),
            closed: false,
        };
        // Without room for a note the one before stands.
        if let Err(cause) = spool::note(&note).and_then(|bytes| self.append(&bytes, 0)) {
            self.refused(&cause);
        }
    }

    /// Nothing was written for a while, but there may be something to tell: exchanges in flight,
    /// probes, losses.
    fn note_quiet(&mut self) {
        let paused = self
            .paused_until
            .is_some_and(|until| Instant::now() < until);
        if !paused && self.open.is_some() && self.status.offers_since_note(self.books.account()) {
            self.note();
        }
    }

    fn keep_house(&mut self) {
        let now = Instant::now();
        let paused = self.paused_until.is_some_and(|until| now < until);
        let rotation = self.rotation;
        let Some(open) = &mut self.open else {
            if !paused && self.open_next().is_ok() {
                self.resumed();
            }
            return;
        };
        if open.unsynced && now >= open.synced + rotation.fsync_every {
            open.synced = now;
            match open.file.sync() {
                Ok(()) => open.unsynced = false,
                Err(cause) => self.refused(&cause),
            }
        }
        let Some(open) = &self.open else { return };
        let full = open.bytes >= rotation.bytes
            || open.rows >= rotation.rows
            || now >= open.opened + rotation.every;
        if full && open.rows > 0 && !paused {
            self.close(false);
        }
    }

    /// Ends the segment and begins the next. Without room for the last note the segment stays open:
    /// closed without it, what is in progress would count as lost.
    fn close(&mut self, last: bool) {
        let (ledger, next) = self.books.close(last);
        let note = Note {
            ledger,
            anchor: self.recorder.clock().reading(),
            closed: true,
        };
        if let Err(cause) = spool::note(&note).and_then(|bytes| self.append(&bytes, 0)) {
            self.refused(&cause);
            if !last {
                return;
            }
        }
        self.books = next;
        if let Some(mut open) = self.open.take()
            && let Err(cause) = open.file.sync()
        {
            self.refused(&cause);
        }
        self.status.opened(None);
        if !last && let Err(cause) = self.open_next() {
            self.refused(&cause);
        }
    }

    fn open_next(&mut self) -> io::Result<()> {
        let path = self.names.path();
        let head = Head {
            opened: self.recorder.clock().anchor(),
            config_digest: self.config_digest.clone(),
            redaction_profile: REDACTION_PROFILE.to_owned(),
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        // Told before it exists: the sealer must never take it for one that a crash left.
        self.status.opened(Some(path.clone()));
        let opened = self.disk.create(&path).and_then(|mut file| {
            let bytes = spool::begin(&head)?;
            file.append(&bytes)?;
            Ok((file, bytes.len() as u64))
        });
        self.names.next += 1;
        match opened {
            Ok((file, bytes)) => {
                let now = Instant::now();
                let open = Open {
                    file,
                    bytes,
                    rows: 0,
                    unsynced: true,
                    torn: false,
                    opened: now,
                    synced: now,
                };
                self.open = Some(open);
                Ok(())
            }
            Err(cause) => {
                self.status.opened(None);
                self.refused(&cause);
                Err(cause)
            }
        }
    }

    fn refused(&mut self, cause: &io::Error) {
        self.metrics.count(Metric::DiskErrors);
        self.paused_until = Some(Instant::now() + limits::DISK_RETRY_AFTER);
        self.status.paused(true);
        let due = self
            .complained
            .is_none_or(|(at, _)| at.elapsed() >= limits::LOSS_LOG_EVERY);
        if due {
            let lost = self.books.account().lost();
            self.complained = Some((Instant::now(), lost));
            let directory = self.names.directory.display();
            tracing::error!(%directory, %cause, lost, "disk refuses the capture; traffic goes on");
        }
    }

    fn resumed(&mut self) {
        self.paused_until = None;
        if self.status.paused(false) {
            let lost = self.books.account().lost();
            tracing::info!(lost, "disk takes the capture again");
        }
    }

    fn lose(&self, rows: u64) {
        self.books.account().lose(Loss::Disk, rows);
    }
}

/// Names what is done to secrets: allow-listed headers, scrubbed queries and error bodies.
pub const REDACTION_PROFILE: &str = "headers-allow-list/1";

/// Takes what has queued up meanwhile, within bounds.
fn batch(first: Entry, rows: &Receiver<Entry>) -> Vec<Entry> {
    let mut bytes = first.frame.len();
    let mut batch = vec![first];
    while batch.len() < limits::BATCH_ROWS_MAX
        && bytes < limits::BATCH_BYTES_MAX
        && let Ok(next) = rows.try_recv()
    {
        bytes += next.frame.len();
        batch.push(next);
    }
    batch
}

#[cfg(test)]
mod tests;
