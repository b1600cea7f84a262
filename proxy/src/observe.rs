//! From what passed by to a row. It runs on a thread of its own: bodies are read, and secrets
//! removed, off the serving path.

mod row;

use crate::account::Loss;
use crate::config::{Config, Content, Sampling};
use crate::digest::{self, DigestKey};
use crate::error::Error;
use crate::limits;
use crate::metrics::{Metric, Metrics};
use crate::recorder::{Offer, Recorder};
use crate::redact::CallerKey;
use crate::redact::policy::Kept;
use crate::sample::Sampler;
use crate::spool::{self, Terms};
use crate::swap::Swap;
use crate::tape::{Record, ResponseHead};
use crate::track::Mark;
use crate::writer::Entry;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError};
use truetape_schemas::capture::ParseStatus;
use truetape_schemas::wire::{self, BodyEnd, Dialect, RequestFacts, ResponseFacts};

use row::Made;

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
    pub digest_key: Option<DigestKey>,
    pub keep_blobs: bool,
    pub kept: Kept,
    pub sampling: Option<Sampling>,
    pub kept_headers: Vec<String>,
    pub terms: Arc<Terms>,
    pub readers: Readers,
}

/// What reads bodies. Tests put in readers that panic.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "one for each direction")]
pub struct Readers {
    pub request: fn(Dialect, &[u8]) -> RequestFacts,
    pub response: fn(Dialect, &ResponseHead, &[Mark], &[u8], BodyEnd) -> ResponseFacts,
}

impl Default for Readers {
    fn default() -> Self {
        Self {
            request: wire::read_request,
            response: row::response::read,
        }
    }
}

impl Plan {
    /// As set.
    pub fn of(config: &Config) -> Self {
        Self {
            proxy_id: config.proxy_id.clone(),
            content: config.content,
            session_headers: config.session_headers.clone(),
            caller_key: CallerKey::random(),
            digest_key: None,
            keep_blobs: config.keeping.blobs,
            kept: Kept {
                models: config.keeping.models.clone(),
                headers: config.keeping.headers.clone(),
            },
            sampling: config.keeping.sampling.clone(),
            kept_headers: config.kept_headers(),
            terms: Arc::default(),
            readers: Readers::default(),
        }
    }

    /// Goes on as `before` in what must not change while a proxy runs: one caller stays one caller.
    pub fn after(self, before: &Self) -> Self {
        Self {
            caller_key: before.caller_key,
            readers: before.readers,
            ..self
        }
    }

    /// Takes the key of what stands for text, where text is not kept: the one that was set, or one
    /// of the directory. From then on it says what rows mean that are made by it.
    pub fn keyed(mut self, config: &Config) -> Result<Self, Error> {
        if self.content != Content::Full {
            self.digest_key = Some(digest_key(config)?);
        }
        let key = self.digest_key.as_ref();
        self.terms = Arc::new(Terms {
            config_digest: config.digest(),
            redaction_profile: self.content.profile().to_owned(),
            digest_key_fingerprint: key.map(|key| key.fingerprint().to_owned()),
            sampling_rate: self.sampling.as_ref().map(|sampling| sampling.rate),
            sampling_salt: self.sampling.as_ref().map(|sampling| sampling.salt.clone()),
        });
        Ok(self)
    }

    /// Whether hashes stand in for text.
    pub fn hashes(&self) -> bool {
        self.content == Content::Digest
    }
}

fn digest_key(config: &Config) -> Result<DigestKey, Error> {
    match &config.keeping.digest_key_file {
        Some(path) => DigestKey::read(path).map_err(|cause| {
            Error::config("digest_key_file", format!("{}: {cause}", path.display()))
        }),
        None => DigestKey::of_directory(&config.out).map_err(|cause| Error::Disk {
            path: config.out.join(digest::KEY_FILE),
            cause,
        }),
    }
}

/// What became of a record.
enum Passed {
    Row(Entry),
    SampledOut,
}

/// Makes rows of records.
#[derive(Debug)]
pub struct Observer {
    sampler: Option<Sampler>,
    plans: Arc<Swap<Plan>>,
    plan: Arc<Plan>,
    recorder: Arc<Recorder>,
    metrics: Arc<Metrics>,
}

impl Observer {
    /// One that is ready to run.
    pub fn new(plans: Arc<Swap<Plan>>, recorder: Arc<Recorder>, metrics: Arc<Metrics>) -> Self {
        let plan = plans.get();
        Self {
            sampler: Sampler::of(plan.sampling.as_ref()),
            plans,
            plan,
            recorder,
            metrics,
        }
    }

    /// Goes on by the plan that a reload put in force. Each row carries the terms it was made by, so
    /// that a segment holds rows of one plan.
    fn follow(&mut self) {
        let plan = self.plans.get();
        if Arc::ptr_eq(&plan, &self.plan) {
            return;
        }
        if plan.sampling != self.plan.sampling {
            self.sampler = Sampler::of(plan.sampling.as_ref());
        }
        self.plan = plan;
    }

    /// Makes rows until it is stopped and the queue is empty.
    pub fn run(mut self, offers: &Receiver<Offer>, rows: &SyncSender<Entry>, stop: &AtomicBool) {
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
    fn pass(&mut self, record: Record, rows: &SyncSender<Entry>) {
        // A bug in what reads must cost one record, not the thread.
        let made = catch_unwind(AssertUnwindSafe(|| self.entry(record)));
        let lost = match made {
            Ok(Some(Passed::Row(entry))) => rows.send(entry).err().map(|_| Loss::Shutdown),
            Ok(Some(Passed::SampledOut)) => {
                self.recorder.account().sample_out();
                None
            }
            Ok(None) | Err(_) => Some(Loss::Bug),
        };
        if let Some(reason) = lost {
            self.recorder.account().lose(reason, 1);
        }
    }

    fn entry(&mut self, record: Record) -> Option<Passed> {
        self.follow();
        let made = row::of(&self.plan, self.recorder.clock(), record);
        if self
            .sampler
            .as_mut()
            .is_some_and(|sampler| !sampler.takes(made.seen()))
        {
            return Some(Passed::SampledOut);
        }
        let Made { exchange, held, .. } = made;
        if exchange.parse_status == ParseStatus::Failed {
            self.metrics.count(Metric::ParseFailures);
        }
        let degraded = exchange.degraded.is_some();
        let frame = spool::row(exchange).ok()?;
        Some(Passed::Row(Entry {
            frame,
            degraded,
            held,
            terms: Arc::clone(&self.plan.terms),
        }))
    }
}
