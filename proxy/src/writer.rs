//! The writer: rows to the spool, in batches, synced, rotated. A disk that fails, or has no room,
//! costs rows, and says so; it never costs a request.
//!
//! It is a thread and not a task: a sync can take seconds, and a task that holds a worker of the
//! runtime for so long would delay the traffic.

mod house;
mod open;

use crate::account::{Exclusion, Loss};
use crate::books::Books;
use crate::budget::Held;
use crate::capture::Status;
use crate::config::Config;
use crate::disk::Disk;
use crate::flight::Flight;
use crate::limits;
use crate::metrics::Metrics;
use crate::recorder::Recorder;
use crate::room::{self, Pause};
use crate::sealer::Poke;
use crate::spool::{self, Frame, Head, Note, Terms};
use open::Open;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use truetape_schemas::file::key::Keyring;

/// A row on its way to the spool.
#[derive(Debug)]
pub struct Entry {
    /// The row as a frame.
    pub frame: Frame,
    /// Something was given up.
    pub degraded: bool,
    /// What it holds of the budget.
    pub held: Held,
    /// What it means: rows of one segment share it.
    pub terms: Arc<Terms>,
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

/// How a writer writes.
#[derive(Debug)]
pub struct Setup {
    /// When segments end.
    pub rotation: Rotation,
    /// What they may take of the disk.
    pub room: room::Limits,
    /// What they are encrypted with.
    pub keys: Keyring,
    /// Rows of the last minutes wait in memory for somebody to ask for them.
    pub flight: Option<Duration>,
    /// What they are called.
    pub names: Names,
    /// What rows mean.
    pub terms: Arc<Terms>,
}

impl Setup {
    /// As set.
    pub fn of(config: &Config, prefix: String, terms: Arc<Terms>) -> Self {
        Self {
            rotation: Rotation {
                bytes: config.rotate_bytes,
                rows: config.rotate_rows,
                every: config.rotate_every,
                fsync_every: config.fsync_every,
            },
            room: config.storage.room,
            keys: config.storage.keys.clone(),
            flight: config.storage.flight_recorder,
            names: Names {
                directory: config.out.clone(),
                prefix,
                next: 1,
            },
            terms,
        }
    }
}

/// Capture pauses.
#[derive(Clone, Copy, Debug)]
struct Paused {
    why: Pause,
    /// When to try again; for want of room it is looked for instead.
    until: Option<Instant>,
}

impl Paused {
    fn lasts(self) -> bool {
        self.until.is_none_or(|until| Instant::now() < until)
    }
}

/// The writer's state.
pub struct Writer {
    recorder: Arc<Recorder>,
    metrics: Arc<Metrics>,
    status: Arc<Status>,
    disk: Box<dyn Disk>,
    setup: Setup,
    books: Books,
    flight: Option<Flight>,
    open: Option<Open>,
    paused: Option<Paused>,
    looked: Option<Instant>,
    noted: Instant,
    complained: Option<Instant>,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer")
            .field("names", &self.setup.names)
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
        setup: Setup,
    ) -> io::Result<Self> {
        let account = Arc::clone(recorder.account());
        let budget = recorder.budget().max();
        let flight = setup.flight.map(|keep| Flight::new(keep, budget));
        let mut writer = Self {
            recorder: Arc::clone(recorder),
            metrics: Arc::clone(metrics),
            status: Arc::clone(status),
            disk,
            setup,
            books: Books::new(account),
            flight,
            open: None,
            paused: None,
            looked: None,
            noted: Instant::now(),
            complained: None,
        };
        writer.open_next()?;
        Ok(writer)
    }

    /// Writes rows until the other end of the queue is gone, then closes the last segment.
    pub fn run(mut self, rows: &Receiver<Entry>, sealer: &Poke) {
        let mut segments = self.setup.names.next;
        loop {
            match rows.recv_timeout(self.until_due()) {
                Ok(first) => {
                    let batch = batch(first, rows);
                    self.take(batch);
                }
                Err(RecvTimeoutError::Timeout) => self.note_quiet(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.recorder.clock().follow() {
                tracing::info!("wall clock moved; arrivals follow it from now on");
            }
            self.keep_house();
            if std::mem::replace(&mut segments, self.setup.names.next) != self.setup.names.next {
                sealer.closed();
            }
        }
        self.end();
    }

    fn end(&mut self) {
        if self.status.take_flush() {
            self.flush();
        }
        let paused = self.pausing().filter(|_| self.status.take_flush());
        if let Some(flight) = &mut self.flight {
            let rows = flight.clear();
            let account = self.books.account();
            match paused {
                // Asked for, and there was no room to the end.
                Some(why) => account.lose(why.loss(), rows),
                None => account.exclude_many(Exclusion::FlightExpired, rows),
            }
        }
        self.close(true);
    }

    /// Writes rows, or keeps them for later.
    fn take(&mut self, batch: Vec<Entry>) {
        let Some(flight) = &mut self.flight else {
            self.write(batch);
            return;
        };
        let now = Instant::now();
        let displaced = batch.into_iter().map(|entry| flight.push(entry, now)).sum();
        self.books
            .account()
            .exclude_many(Exclusion::FlightDisplaced, displaced);
    }

    /// Ends the segment now; a flight recorder writes first what it has kept.
    fn flush(&mut self) {
        while let Some(flight) = &mut self.flight {
            if self.paused.is_some_and(Paused::lasts) && !flight.is_empty() {
                // They are safe where they are, and room may come: asked for again.
                self.status.flush();
                return;
            }
            let (batch, broken) = flight.batch();
            self.books.account().lose(Loss::Bug, broken);
            if batch.is_empty() && broken == 0 {
                break;
            }
            self.write(batch);
        }
        if self.open.as_ref().is_some_and(|open| open.rows > 0) {
            self.close(false);
        }
    }

    fn write(&mut self, batch: Vec<Entry>) {
        for run in batch.chunk_by(|one, next| Arc::ptr_eq(&one.terms, &next.terms)) {
            self.write_run(run);
        }
    }

    /// Rows that mean the same.
    fn write_run(&mut self, batch: &[Entry]) {
        let rows = batch.len() as u64;
        if let Some(why) = self.pausing() {
            self.books.account().lose(why.loss(), rows);
            return;
        }
        let ready = batch.first().is_none_or(|entry| self.follow(&entry.terms))
            && (self.open.is_some() || self.open_next().is_ok());
        if !ready {
            self.books.account().lose(Loss::Disk, rows);
            return;
        }
        match self.append(batch.iter().map(|entry| &entry.frame), rows) {
            Ok(()) => {
                for entry in batch {
                    self.books.account().record(entry.degraded);
                }
                // After the rows, so that it covers them.
                self.note();
                self.resumed(Pause::Refused);
            }
            Err(cause) => {
                self.refused(&cause);
                self.books.account().lose(Loss::Disk, rows);
            }
        }
    }

    /// Begins another segment where rows come to mean something else. `false`: the disk refuses to
    /// end the one that is open.
    fn follow(&mut self, terms: &Arc<Terms>) -> bool {
        if Arc::ptr_eq(terms, &self.setup.terms) {
            return true;
        }
        let before = std::mem::replace(&mut self.setup.terms, Arc::clone(terms));
        if self.open.is_some() {
            let segments = self.setup.names.next;
            self.close(false);
            if self.open.is_some() && self.setup.names.next == segments {
                self.setup.terms = before;
                return false;
            }
        }
        true
    }

    fn append<'a>(&mut self, frames: impl Iterator<Item = &'a Frame>, rows: u64) -> io::Result<()> {
        match &mut self.open {
            Some(open) => open.append(frames, rows),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    fn put(&mut self, note: &Note) -> io::Result<()> {
        let frame = spool::note(note)?;
        self.append(std::iter::once(&frame), 0)
    }

    fn note(&mut self) {
        let note = Note {
            ledger: self.books.open(),
            anchor: self.recorder.clock().reading(),
            closed: false,
        };
        self.noted = Instant::now();
        // Without room for a note the one before stands.
        if let Err(cause) = self.put(&note) {
            self.refused(&cause);
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
        if let Err(cause) = self.put(&note) {
            self.refused(&cause);
            if !last {
                return;
            }
        }
        self.books = next;
        if let Some(mut open) = self.open.take()
            && let Err(cause) = open.sync()
        {
            self.refused(&cause);
        }
        self.status.opened(None);
        if !last && let Err(cause) = self.open_next() {
            self.refused(&cause);
        }
    }

    fn open_next(&mut self) -> io::Result<()> {
        let path = self.setup.names.path();
        let head = Head {
            opened: self.recorder.clock().anchor(),
            terms: Terms::clone(&self.setup.terms),
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            columns: spool::columns().to_vec(),
        };
        // Told before it exists: the sealer must never take it for one that a crash left.
        self.status.opened(Some(path.clone()));
        let opened = self.disk.create(&path);
        let opened = opened.and_then(|file| Open::begin(file, self.setup.keys.writing(), &head));
        self.setup.names.next += 1;
        match opened {
            Ok(open) => {
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
}

/// Takes what has queued up meanwhile, within bounds. Where that was little, it waits for more: rows
/// that come one by one would cost a wake of this thread and two writes each.
fn batch(first: Entry, rows: &Receiver<Entry>) -> Vec<Entry> {
    let mut bytes = first.frame.bytes();
    let mut batch = vec![first];
    for pause in [None, Some(limits::GATHER_FOR)] {
        if let Some(pause) = pause {
            std::thread::sleep(pause);
        }
        while let Ok(next) = rows.try_recv() {
            bytes += next.frame.bytes();
            batch.push(next);
            if batch.len() >= limits::BATCH_ROWS_MAX || bytes >= limits::BATCH_BYTES_MAX {
                return batch;
            }
        }
    }
    batch
}

#[cfg(test)]
mod tests;
