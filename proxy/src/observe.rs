//! From what passed by to a row. It runs on a thread of its own: bodies are read, and secrets
//! removed, off the serving path.

mod row;

use crate::account::Loss;
use crate::config::{Config, Content};
use crate::limits;
use crate::metrics::{Metric, Metrics};
use crate::recorder::{Offer, Recorder};
use crate::redact::CallerKey;
use crate::spool;
use crate::tape::Record;
use crate::writer::Entry;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError};
use truetape_schemas::capture::ParseStatus;

/// What rows are made by.
#[derive(Clone, Debug)]
#[expect(
    missing_docs,
    reason = "the fields are settings, or columns of capture/1"
)]
pub struct Plan {
    pub proxy_id: String,
    pub content: Content,
    pub session_headers: Vec<String>,
    pub caller_key: CallerKey,
}

impl Plan {
    /// As set.
    pub fn of(config: &Config) -> Self {
        Self {
            proxy_id: config.proxy_id.clone(),
            content: config.content,
            session_headers: config.session_headers.clone(),
            caller_key: CallerKey::random(),
        }
    }
}

/// Makes rows of records.
#[derive(Debug)]
pub struct Observer {
    plan: Plan,
    recorder: Arc<Recorder>,
    metrics: Arc<Metrics>,
}

impl Observer {
    /// One that is ready to run.
    pub fn new(plan: Plan, recorder: Arc<Recorder>, metrics: Arc<Metrics>) -> Self {
        Self {
            plan,
            recorder,
            metrics,
        }
    }

    /// Makes rows until it is stopped and the queue is empty.
    pub fn run(self, offers: &Receiver<Offer>, rows: &SyncSender<Entry>, stop: &AtomicBool) {
        loop {
            // Read before the queue: what was offered before the stop is still found.
            let stopped = stop.load(Relaxed);
            match offers.try_recv() {
                Ok(Offer::Record(record)) => self.pass(*record, rows),
                Ok(Offer::Piece(job)) => job.run(self.recorder.budget()),
                Err(TryRecvError::Disconnected) => return,
                Err(TryRecvError::Empty) if stopped => return,
                Err(TryRecvError::Empty) => std::thread::park_timeout(limits::OBSERVE_TICK),
            }
        }
    }

    /// The queue behind waits for a disk that is slow. Meanwhile records pile up in the one before,
    /// against the budget: capture degrades, traffic does not notice.
    fn pass(&self, record: Record, rows: &SyncSender<Entry>) {
        // A bug in what reads must cost one record, not the thread.
        let made = catch_unwind(AssertUnwindSafe(|| self.entry(record)));
        let lost = match made {
            Ok(Some(entry)) => rows.send(entry).err().map(|_| Loss::Shutdown),
            Ok(None) | Err(_) => Some(Loss::Bug),
        };
        if let Some(reason) = lost {
            self.recorder.account().lose(reason, 1);
        }
    }

    fn entry(&self, record: Record) -> Option<Entry> {
        let (exchange, held) = row::of(&self.plan, self.recorder.clock(), record);
        if exchange.parse_status == ParseStatus::Failed {
            self.metrics.count(Metric::ParseFailures);
        }
        let degraded = exchange.degraded.is_some();
        let frame = spool::row(exchange).ok()?;
        Some(Entry {
            frame,
            degraded,
            held,
        })
    }
}
