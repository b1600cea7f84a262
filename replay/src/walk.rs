//! The run itself: send, measure, collect, stop.
//!
//! One thread paces, one task carries each exchange, one task collects. The exchange tasks are
//! started by the pacing thread itself: a queue between them would only add a wake-up.

use crate::answers::Answers;
use crate::breaker::{Breaker, Trip};
use crate::client::{Client, Failure};
use crate::clock::Clock;
use crate::error::Error;
use crate::lengths::Enforcement;
use crate::misses;
use crate::pace::{self, Inbox};
use crate::plan::{Plan, reason};
use crate::progress::Progress;
use crate::row;
use crate::rows::{ReadBack, Rows};
use crate::schedule::{Release, Schedule};
use crate::shard;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use truetape_fidelity::latency::Gaps;
use truetape_schemas::capture::Outcome;
use truetape_schemas::run::Dispatch;

mod ahead;
mod ending;
mod findings;
mod window;

use ahead::{Ahead, Starter};
use ending::Ending;

/// Time between the start of the pacing thread and schedule zero: enough for a thread to start.
const LEAD: Duration = Duration::from_millis(20);

/// Rows that wait for the collector at most. An exchange that finds the queue full has already been
/// measured, so that its waiting changes nothing.
const ROWS_WAITING_MAX: usize = 1_024;

/// Two offsets that were rounded down: added, so that a dependent turn never leaves before the true
/// end of what it depends on.
const ROUNDED_DOWN_US: i64 = 2;

/// Ends a run early: first politely, then at once.
#[derive(Clone, Debug, Default)]
pub struct Halt {
    /// Nothing more is sent; what is in flight is awaited.
    pub stop: CancellationToken,
    /// What is in flight is cut.
    pub cut: CancellationToken,
}

/// How a plan is walked.
#[derive(Clone, Debug)]
pub struct Manner {
    /// What decides when a turn is sent.
    pub pacing: crate::cli::Pacing,
    /// Exchanges in flight at most.
    pub in_flight_max: usize,
    /// Time an exchange may take.
    pub timeout: Option<Duration>,
    /// Time in which nothing of it comes or goes.
    pub idle_timeout: Option<Duration>,
    /// After a stop, time that exchanges in flight may take.
    pub grace: Duration,
    /// Whether what depends on a failed turn is not sent.
    pub skips_after_failure: bool,
    /// Schedule zero on the wall clock; as soon as possible without.
    pub start_at_us: Option<i64>,
    /// Spinning before a deadline.
    pub spin: Duration,
    /// Share of failures at which the run is stopped.
    pub error_rate_max: f64,
    /// Tokens at most.
    pub token_budget: Option<u64>,
    /// Value of `x-truetape-run`.
    pub run_id: String,
    /// Header that carries the session.
    pub session_header: http::HeaderName,
    /// Header fields of every request.
    pub headers: http::HeaderMap,
    /// Whether lengths were to be enforced, whatever the target takes.
    pub enforce: bool,
}

/// What a walk came to.
#[derive(Debug)]
pub struct Walked {
    /// One row for each turn of the plan, sent or not, ordered by turn; without token events, which
    /// are on disk only.
    pub rows: Vec<Dispatch>,
    /// The gaps between those events.
    pub gaps: Gaps,
    /// Schedule zero on the wall clock.
    pub zero_us: i64,
    /// From schedule zero to the end of the last exchange.
    pub duration_us: i64,
    /// Why it was stopped, if it was.
    pub stopped: Option<Trip>,
    /// Things a user should know.
    pub findings: Vec<String>,
}

/// What every exchange task shares.
struct Shared {
    plan: Arc<Plan>,
    client: Arc<Client>,
    manner: Manner,
    clock: Clock,
    inbox: Arc<Inbox>,
    cut: CancellationToken,
    answers: Answers,
    ahead: Ahead,
    /// Answers that ended before production's client had gone away.
    stayed: AtomicU64,
    begun: Arc<AtomicUsize>,
}

/// Sends a plan to its end, or until it is stopped.
pub async fn walk(
    plan: Arc<Plan>,
    client: Arc<Client>,
    manner: Manner,
    halt: Halt,
    mut progress: Progress,
    mut kept: Rows,
) -> Result<Walked, Error> {
    let nodes = plan
        .dispatches
        .iter()
        .map(|planned| planned.node.clone())
        .collect();
    let schedule = Schedule::new(nodes, manner.pacing, manner.in_flight_max)
        .skipping_after_failure(manner.skips_after_failure);
    let clock = Clock::starting_at(zero(manner.start_at_us)?);
    let zero_us = truetape_schemas::time::wall_now_us() - clock.now_us();
    let inbox = Arc::new(Inbox::default());
    let breaker = Breaker::new(manner.error_rate_max, manner.token_budget);
    let (done, rows) = mpsc::channel(ROWS_WAITING_MAX);
    let tracker = TaskTracker::new();
    let shared = Arc::new(Shared {
        plan: Arc::clone(&plan),
        client,
        manner: manner.clone(),
        clock,
        inbox: Arc::clone(&inbox),
        cut: halt.cut.clone(),
        answers: Answers::of(&plan),
        ahead: Ahead::default(),
        stayed: AtomicU64::new(0),
        begun: progress.begun(),
    });
    let starter = Starter::new(&schedule, Arc::clone(&shared), &tracker, done);
    let pacer = pace::start(schedule, clock, Arc::clone(&inbox), manner.spin, starter).map_err(
        |cause| Error::Host {
            what: "the pacing thread".to_owned(),
            cause,
        },
    )?;
    let _guard = StopOnDrop(Arc::clone(&inbox));
    // A trip stops as a user does, and is told apart from one.
    let tripped = CancellationToken::new();
    let collector = Collector {
        breaker,
        by_user: halt.stop.clone(),
        tripped: tripped.clone(),
        trip: None,
        failed: None,
    };
    let stopper = stop_politely(halt.clone(), tripped, Arc::clone(&inbox), manner.grace);
    let collected = tokio::select! {
        collected = collector.collect(rows, clock, &mut progress, &mut kept) => collected,
        never = stopper => match never {},
    };
    tracker.close();
    tracker.wait().await;
    let unsent = pacer.join().map_err(|_| Error::Bug {
        subject: "the pacing thread".to_owned(),
        problem: "it panicked".to_owned(),
    })?;
    progress.finish();
    let trip = collected?;
    let by_user = || Trip {
        reason: reason::STOPPED,
        problem: "it was interrupted".to_owned(),
    };
    // A stop that came when everything had been sent and answered changed nothing.
    let changed = !unsent.withdrawn.is_empty() || halt.cut.is_cancelled();
    let stopped = trip.or_else(|| (halt.stop.is_cancelled() && changed).then(by_user));
    let why = stopped.as_ref().map_or(reason::STOPPED, |trip| trip.reason);
    let not_sent = [
        (unsent.withdrawn, why),
        (unsent.skipped, reason::DEPENDENCY_FAILED),
    ];
    for (indices, why) in not_sent {
        let planned = indices
            .iter()
            .filter_map(|at| plan.dispatches.get(*at as usize));
        for planned in planned {
            kept.push(row::withdrawn(planned, why)).await?;
        }
    }
    for unsent in &plan.unsent {
        kept.push(row::unsent(unsent)).await?;
    }
    let planned = plan.dispatches.len() + plan.unsent.len();
    let ReadBack { rows, gaps } = kept.finish().await?;
    if rows.len() != planned {
        let problem = format!(
            "{} rows of {planned} turns: an exchange panicked",
            rows.len()
        );
        return Err(Error::Bug {
            subject: "the run".to_owned(),
            problem,
        });
    }
    let duration_us = rows.iter().filter_map(end_us).max().unwrap_or(0);
    Ok(Walked {
        rows,
        gaps,
        zero_us,
        duration_us,
        stopped,
        findings: shared.findings(),
    })
}

/// Schedule zero on the monotonic clock.
fn zero(start_at_us: Option<i64>) -> Result<Instant, Error> {
    let left = start_at_us.map_or(Ok(LEAD), shard::left_until)?;
    Ok(Instant::now() + left)
}

fn end_us(row: &Dispatch) -> Option<i64> {
    Some(row.sent_us? + row.request_end_us.unwrap_or(0) + row.end_us?)
}

async fn exchange(
    shared: Arc<Shared>,
    release: Release,
    awaited: bool,
    done: mpsc::Sender<Dispatch>,
) {
    let released = Instant::now();
    let Some(planned) = shared.plan.dispatches.get(release.index as usize) else {
        return;
    };
    shared.begun.fetch_add(1, Ordering::Relaxed);
    let prepared = shared.ahead.take(release.index).unwrap_or_else(|| {
        let continued = shared.answers.continued_by(planned);
        shared.prepare(planned, continued.as_deref())
    });
    let request_bytes = i64::try_from(prepared.body_bytes).ok();
    let ending = Ending {
        shared: &shared,
        index: release.index,
        awaited,
    };
    let exchanged = shared.client.send_until(prepared, &shared.cut).await;
    let name = exchanged.facts.response_id.as_deref();
    shared.answers.keep(planned.turn_id, name);
    let end_us = shared.clock.at_us(exchanged.handed) + exchanged.end_us + ROUNDED_DOWN_US;
    // Who left as production's client did has not failed.
    let left = exchanged.failure == Some(Failure::RecordedCancel);
    let whole = exchanged.facts.outcome == Outcome::Complete;
    let stayed = planned.cancel.is_some() && whole;
    shared
        .stayed
        .fetch_add(u64::from(stayed), Ordering::Relaxed);
    ending.at(end_us, left || whole);
    let row = row::sent(planned, release, released, exchanged, shared.clock);
    let refused = shared.manner.enforce && planned.enforcement == Enforcement::Cap;
    let row = Dispatch {
        request_bytes,
        length_miss: misses::miss(&row, refused).map(str::to_owned),
        ..row
    };
    // The collector outlives every exchange; if it has panicked, the walk ends in an error.
    if done.send(row).await.is_err() {
        tracing::debug!("a row had no collector");
    }
}

/// Takes rows, and decides whether the target failed too often.
struct Collector {
    breaker: Breaker,
    by_user: CancellationToken,
    tripped: CancellationToken,
    trip: Option<Trip>,
    /// Why rows can no longer be written.
    failed: Option<Error>,
}

impl Collector {
    /// Takes rows until every exchange is over and the pacing thread has let go of its sender.
    async fn collect(
        mut self,
        mut done: mpsc::Receiver<Dispatch>,
        clock: Clock,
        progress: &mut Progress,
        kept: &mut Rows,
    ) -> Result<Option<Trip>, Error> {
        let period = progress.period();
        let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + period, period);
        loop {
            tokio::select! {
                row = done.recv() => {
                    let Some(row) = row else {
                        return self.failed.map_or(Ok(self.trip), Err);
                    };
                    progress.ended(&row, clock.now_us());
                    self.ended(&row);
                    self.keep(row, kept).await;
                }
                _ = ticks.tick() => progress.show(clock.now_us()),
            }
        }
    }

    /// A run that cannot be written any more is stopped, and its rows are let go.
    async fn keep(&mut self, row: Dispatch, kept: &mut Rows) {
        if self.failed.is_some() {
            return;
        }
        if let Err(cause) = kept.push(row).await {
            self.failed = Some(cause);
            self.tripped.cancel();
        }
    }

    /// The first reason to stop stays the reason: after a trip, and after the user has stopped the
    /// run, the breaker is not asked.
    fn ended(&mut self, row: &Dispatch) {
        if self.trip.is_some() || self.by_user.is_cancelled() {
            return;
        }
        self.trip = self.breaker.ended(row);
        if self.trip.is_some() {
            self.tripped.cancel();
        }
    }
}

/// A walk that is given up must not leave a thread behind that goes on sending.
struct StopOnDrop(Arc<Inbox>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Turns a stop into a withdrawal, and a stop that lasts too long into a cut.
async fn stop_politely(
    halt: Halt,
    tripped: CancellationToken,
    inbox: Arc<Inbox>,
    grace: Duration,
) -> std::convert::Infallible {
    tokio::select! {
        () = halt.stop.cancelled() => {}
        () = tripped.cancelled() => {}
    }
    inbox.stop();
    tokio::time::sleep(grace).await;
    halt.cut.cancel();
    std::future::pending().await
}
