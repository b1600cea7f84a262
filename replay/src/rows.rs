//! Rows on their way to disk, while the run goes on: a run that lasts for days needs no more memory
//! for what came back than one of a minute.
//!
//! A thread of its own packs and writes, so that neither takes time of the tasks that measure. It
//! yields to them: what it does not get done now, it does when the run is over.

use crate::error::Error;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use tokio::sync::mpsc;
use truetape_fidelity::latency::Gaps;
use truetape_schemas::file::{self, Reader, Sealed, Writer};
use truetape_schemas::run::{self, Dispatch};

/// Rows handed to the writer at once, at most.
const BATCH_ROWS_MAX: usize = 1_024;

/// Token events in such a batch, about: 12 bytes each, so that a batch of long answers is 1 MiB.
const BATCH_EVENTS: usize = 80_000;

/// Batches that wait for the writer at most: 4 MiB. A disk that stands still makes exchanges wait
/// that have been measured, and nothing else.
const BATCHES_WAITING_MAX: usize = 4;

/// The writer's place behind everybody else.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 10;

/// `turns.parquet` of a run that goes on.
#[derive(Debug)]
pub struct Rows {
    path: PathBuf,
    waiting: Vec<Dispatch>,
    events: usize,
    batches: Option<mpsc::Sender<Vec<Dispatch>>>,
    thread: Option<JoinHandle<Result<Sealed, file::Error>>>,
}

/// What is on disk, without the token events.
#[derive(Debug, Default)]
pub struct ReadBack {
    /// The rows, ordered by turn.
    pub rows: Vec<Dispatch>,
    /// The gaps between the events that were left on disk.
    pub gaps: Gaps,
}

impl Rows {
    /// Begins the file in a run's directory.
    pub fn create(out: &Path, footer: &[(String, String)]) -> Result<Self, Error> {
        let path = out.join(run::TURNS);
        let writer = Writer::<Dispatch>::create(&path)?;
        let footer = footer.to_vec();
        let (batches, received) = mpsc::channel(BATCHES_WAITING_MAX);
        let thread = std::thread::Builder::new()
            .name("rows".to_owned())
            .spawn(move || write(writer, received, &footer))
            .map_err(|cause| Error::Host {
                what: "the thread that writes rows".to_owned(),
                cause,
            })?;
        Ok(Self {
            path,
            waiting: Vec::new(),
            events: 0,
            batches: Some(batches),
            thread: Some(thread),
        })
    }

    /// Takes a row.
    pub async fn push(&mut self, row: Dispatch) -> Result<(), Error> {
        self.events += row.token_event_offsets_us.as_ref().map_or(0, Vec::len);
        self.waiting.push(row);
        if self.waiting.len() < BATCH_ROWS_MAX && self.events < BATCH_EVENTS {
            return Ok(());
        }
        self.hand_over().await
    }

    async fn hand_over(&mut self) -> Result<(), Error> {
        self.events = 0;
        let batch = std::mem::take(&mut self.waiting);
        let Some(batches) = &self.batches else {
            return Ok(());
        };
        if batches.send(batch).await.is_err() {
            // Only a writer that has failed lets go of its end.
            self.sealed()?;
        }
        Ok(())
    }

    /// Ends the file, and reads it again: the numbers of a run are those of its rows on disk.
    pub async fn finish(mut self) -> Result<ReadBack, Error> {
        self.hand_over().await?;
        self.sealed()?;
        read_back(&self.path)
    }

    fn sealed(&mut self) -> Result<(), Error> {
        self.batches = None;
        let Some(thread) = self.thread.take() else {
            return Ok(());
        };
        let ended = thread.join().map_err(|_| Error::Bug {
            subject: self.path.display().to_string(),
            problem: "the thread that writes rows panicked".to_owned(),
        })?;
        ended?;
        Ok(())
    }
}

fn write(
    mut writer: Writer<Dispatch>,
    mut batches: mpsc::Receiver<Vec<Dispatch>>,
    footer: &[(String, String)],
) -> Result<Sealed, file::Error> {
    step_back();
    while let Some(batch) = batches.blocking_recv() {
        writer.write_owned(batch)?;
    }
    writer.finish(footer)
}

/// Lets the threads that measure go first.
fn step_back() {
    #[cfg(target_os = "linux")]
    {
        // Without it the run is only a little later, and its lateness is measured anyway.
        let own = Some(rustix::thread::gettid());
        if let Err(cause) = rustix::process::setpriority_process(own, NICENESS) {
            tracing::debug!(%cause, "could not lower the writer's priority");
        }
    }
}

fn read_back(path: &Path) -> Result<ReadBack, Error> {
    let mut read = ReadBack::default();
    for batch in Reader::<Dispatch>::open(path)? {
        for row in batch? {
            read.gaps.add(&row);
            read.rows.push(Dispatch {
                token_event_offsets_us: None,
                token_event_choices: None,
                ..row
            });
        }
    }
    read.rows.sort_by_key(|row| row.turn_id);
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use truetape_schemas::capture::Outcome;

    fn answer(turn_id: i64, events: usize) -> Dispatch {
        Dispatch {
            turn_id,
            sent_us: Some(turn_id),
            outcome: Some(Outcome::Complete),
            token_event_offsets_us: Some((0..events as i64).map(|i| i * 1_000).collect()),
            ..Dispatch::default()
        }
    }

    #[tokio::test]
    async fn rows_are_written_as_they_end_and_read_in_the_order_of_turns() {
        let scratch = tempfile::tempdir().unwrap();
        let mut rows = Rows::create(scratch.path(), &[]).unwrap();
        for turn_id in (0..3_000).rev() {
            rows.push(answer(turn_id, 3)).await.unwrap();
            assert!(rows.waiting.len() < BATCH_ROWS_MAX);
        }
        // Nothing that pretends to be a run before its end.
        assert!(!scratch.path().join(run::TURNS).try_exists().unwrap());
        let read = rows.finish().await.unwrap();
        let ids: Vec<i64> = read.rows.iter().map(|row| row.turn_id).collect();
        assert_eq!(ids, (0..3_000).collect::<Vec<i64>>());
        assert_eq!(read.gaps.stats().count, 6_000);
        assert!(
            read.rows
                .iter()
                .all(|row| row.token_event_offsets_us.is_none())
        );
        let whole = run::dispatches(scratch.path()).unwrap();
        assert_eq!(whole[7], answer(7, 3));
    }

    #[tokio::test]
    async fn long_answers_do_not_wait_for_many_rows() {
        let scratch = tempfile::tempdir().unwrap();
        let mut rows = Rows::create(scratch.path(), &[]).unwrap();
        rows.push(answer(0, BATCH_EVENTS)).await.unwrap();
        assert!(rows.waiting.is_empty());
        assert_eq!(rows.finish().await.unwrap().rows.len(), 1);
    }

    #[tokio::test]
    async fn a_run_that_cannot_be_written_says_why() {
        let scratch = tempfile::tempdir().unwrap();
        let out = scratch.path().join("run");
        std::fs::create_dir(&out).unwrap();
        let mut rows = Rows::create(&out, &[]).unwrap();
        rows.push(answer(0, 1)).await.unwrap();
        std::fs::remove_dir_all(&out).unwrap();
        let error = rows.finish().await.unwrap_err();
        assert!(error.to_string().contains("turns.parquet"), "{error}");
    }
}
