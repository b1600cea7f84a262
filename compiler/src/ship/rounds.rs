//! All segments, again and again, through outages.

use super::pace::Backoff;
use super::scan::{Segment, scan};
use super::upload::{Halt, Shipped, Shipper};
use crate::error::Error;
use crate::objects::Fault;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Rounds in a row that `--once` lets a store fail: about fifteen seconds of pauses.
pub(super) const ONCE_TRIES_MAX: u32 = 5;

/// A segment that could not be shipped for a reason of its own is looked at again after this long:
/// an operator may have moved the other object away.
const HELD_FOR: Duration = Duration::from_secs(600);

/// How often to look while leaving: the recorder is sealing its last segment.
const LEAVE_EVERY: Duration = Duration::from_millis(200);

/// How the work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Nothing was cut: all is shipped, or we were asked to stop and the current parts ended.
    Done,
    /// So many segments were cut by the deadline after a stop.
    Cut(usize),
}

/// Why a segment is not tried for a while.
#[derive(Debug)]
struct Held {
    until: Option<Instant>,
    why: Option<Problem>,
}

/// What is wrong with a segment, in a sentence, and whose it is.
#[derive(Debug)]
struct Problem {
    name: String,
    text: String,
    of_the_machine: bool,
}

/// Ships round after round.
#[derive(Debug)]
pub(super) struct Rounds {
    shipper: Arc<Shipper>,
    /// Asks to end once everything is shipped.
    leave: CancellationToken,
    concurrency: usize,
    grace: Duration,
    held: BTreeMap<String, Held>,
}

/// What came of a round.
#[derive(Debug, Default)]
struct Round {
    sent: u64,
    bytes: u64,
    trouble: Option<object_store::Error>,
    cut: usize,
}

impl Rounds {
    /// Starts with nothing held.
    pub(super) fn new(
        shipper: Shipper,
        leave: CancellationToken,
        concurrency: usize,
        grace: Duration,
    ) -> Self {
        Self {
            shipper: Arc::new(shipper),
            leave,
            concurrency,
            grace,
            held: BTreeMap::new(),
        }
    }

    /// Goes on until stopped, or once with so many tries.
    pub(super) async fn run(mut self, once: Option<u32>, every: Duration) -> Result<End, Error> {
        let stop = self.shipper.stop.clone();
        let mut backoff = Backoff::new(u64::from(std::process::id()));
        loop {
            // Before the look: what is sealed after it belongs to another round.
            let leaving = self.leave.is_cancelled();
            let (todo, all_sealed) = self.todo(once.is_some())?;
            let idle = todo.is_empty();
            let round = self.round(todo).await;
            if round.cut > 0 {
                return Ok(End::Cut(round.cut));
            }
            let pause = match &round.trouble {
                Some(cause) => self.trouble(cause, once, &mut backoff)?,
                None if stop.is_cancelled() => return Ok(End::Done),
                None if once.is_some() => return self.complaints(),
                None if leaving && idle && all_sealed => return Ok(End::Done),
                None => {
                    if backoff.tries() > 0 {
                        tracing::info!(tries = backoff.tries(), "the store is back");
                    }
                    backoff.reset();
                    if leaving { LEAVE_EVERY } else { every }
                }
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = stop.cancelled() => return Ok(End::Done),
                () = self.leave.cancelled(), if !leaving => {}
            }
        }
    }

    /// The segments to try now, and whether the recorder has none left to seal. A directory that
    /// cannot be read is said, and looked at again.
    fn todo(&mut self, once: bool) -> Result<(Vec<Segment>, bool), Error> {
        let dir = &self.shipper.dir;
        let scan = match scan(dir) {
            Ok(scan) => scan,
            Err(cause) if once => return Err(Error::io(dir, cause)),
            Err(cause) => {
                tracing::warn!(%cause, "the directory cannot be read; trying again");
                return Ok((Vec::new(), false));
            }
        };
        let tally = &self.shipper.tally;
        tally.unsettled.store(scan.unsettled, Relaxed);
        let all_sealed = scan.spools == 0;
        let now = Instant::now();
        self.held.retain(|name, held| {
            let still = held.until.is_none_or(|until| until > now);
            still && scan.ready.iter().any(|segment| segment.name == *name)
        });
        let ready = scan.ready.into_iter();
        let todo: Vec<_> = ready
            .filter(|segment| !self.held.contains_key(&segment.name))
            .collect();
        tally.waiting.store(todo.len() as u64, Relaxed);
        tally
            .waiting_bytes
            .store(todo.iter().map(|segment| segment.bytes).sum(), Relaxed);
        Ok((todo, all_sealed))
    }

    /// Ships some at a time. The store's trouble is every segment's, so no further one is begun.
    async fn round(&mut self, todo: Vec<Segment>) -> Round {
        let mut round = Round::default();
        let mut tasks = JoinSet::new();
        let mut queue = todo.into_iter();
        let stop = self.shipper.stop.clone();
        let mut deadline = None;
        loop {
            while tasks.len() < self.concurrency
                && round.trouble.is_none()
                && !stop.is_cancelled()
                && let Some(segment) = queue.next()
            {
                let shipper = Arc::clone(&self.shipper);
                tasks.spawn(async move {
                    let shipped = shipper.ship(&segment).await;
                    (segment, shipped)
                });
            }
            tokio::select! {
                ended = tasks.join_next() => match ended {
                    None => break,
                    Some(Ok((segment, shipped))) => self.book(&segment, shipped, &mut round),
                    Some(Err(cause)) => tracing::error!(%cause, "a segment was not shipped"),
                },
                () = stop.cancelled(), if deadline.is_none() => {
                    deadline = Some(Instant::now() + self.grace);
                }
                () = sleep_until(deadline) => {
                    round.cut = tasks.len();
                    tasks.abort_all();
                    break;
                }
            }
        }
        if round.sent > 0 {
            let waiting = self.shipper.tally.waiting.load(Relaxed);
            tracing::info!(
                segments = round.sent,
                bytes = round.bytes,
                waiting,
                "shipped"
            );
        }
        round
    }

    fn book(&mut self, segment: &Segment, shipped: Result<Shipped, Halt>, round: &mut Round) {
        let tally = &self.shipper.tally;
        match shipped {
            Ok(Shipped::Sent) => {
                tracing::debug!(segment = segment.name, bytes = segment.bytes, "sent");
                tally.shipped(segment.bytes);
                round.sent += 1;
                round.bytes += segment.bytes;
            }
            Ok(Shipped::There) => {
                tracing::debug!(segment = segment.name, "was there already");
                tally.already_there.fetch_add(1, Relaxed);
            }
            Ok(Shipped::Gone) => tracing::debug!(segment = segment.name, "has gone"),
            Err(Halt::Stopped) => return,
            Err(Halt::Store(cause)) => {
                round.trouble.get_or_insert(cause);
                return;
            }
            Err(Halt::Conflict(text)) => {
                tally.conflicts.fetch_add(1, Relaxed);
                self.hold(segment, text, false);
            }
            Err(Halt::Refused(text)) => {
                tally.refused.fetch_add(1, Relaxed);
                self.hold(segment, text, false);
            }
            Err(Halt::Local(cause)) => {
                tally.stuck.fetch_add(1, Relaxed);
                self.hold(segment, cause.to_string(), true);
            }
        }
        self.shipper.tally.left(segment.bytes);
        if shipped_and_kept(&self.shipper, &self.held, segment) {
            let kept = Held {
                until: None,
                why: None,
            };
            self.held.insert(segment.name.clone(), kept);
        }
    }

    fn hold(&mut self, segment: &Segment, text: String, of_the_machine: bool) {
        tracing::error!(
            segment = segment.name,
            problem = text,
            "kept here, not shipped"
        );
        let why = Problem {
            name: segment.name.clone(),
            text,
            of_the_machine,
        };
        let held = Held {
            until: Some(Instant::now() + HELD_FOR),
            why: Some(why),
        };
        self.held.insert(segment.name.clone(), held);
    }

    /// Says what the store's trouble is, now and then; gives the pause before the next try.
    fn trouble(
        &self,
        cause: &object_store::Error,
        once: Option<u32>,
        backoff: &mut Backoff,
    ) -> Result<Duration, Error> {
        self.shipper.tally.store_failures.fetch_add(1, Relaxed);
        let pause = backoff.failed();
        let tries = backoff.tries();
        let error = self.shipper.objects.error(cause);
        if once.is_some_and(|max| tries >= max || !Fault::of(cause).passes()) {
            return Err(error);
        }
        if tries.is_power_of_two() {
            let kind = Fault::of(cause).name();
            tracing::warn!(kind, tries, pause_ms = pause.as_millis(), "{error}");
        }
        Ok(pause)
    }

    /// What `--once` could not ship although the store was there.
    fn complaints(&self) -> Result<End, Error> {
        let problems: Vec<&Problem> = self
            .held
            .values()
            .filter_map(|held| held.why.as_ref())
            .collect();
        let Some(first) = problems.first() else {
            return Ok(End::Done);
        };
        let more = match problems.len() - 1 {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        let problem = format!("kept, not shipped: {}{more}", first.text);
        Err(if problems.iter().any(|problem| problem.of_the_machine) {
            Error::io(first.name.as_ref(), std::io::Error::other(problem))
        } else {
            Error::data(&first.name, problem)
        })
    }
}

/// With `--keep-local` a segment stays, and is done all the same.
fn shipped_and_kept(shipper: &Shipper, held: &BTreeMap<String, Held>, segment: &Segment) -> bool {
    shipper.keep_local && !held.contains_key(&segment.name)
}

/// Never, when there is no deadline yet.
async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
