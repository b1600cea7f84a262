//! The thread that steps the model and sleeps through its steps.
//!
//! It is a thread and not a task: the runtime's timers tick in whole milliseconds, which is more
//! than the differences that a replay is to measure.

use super::config::Config;
use std::collections::HashMap;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot, watch};
use truetape_fidelity::engine::{Counters, Emission, Engine, Id, Job, Load};

/// Commands that wait for the end of a step; a request that finds the queue full waits for a place.
const QUEUE_COMMANDS_MAX: usize = 4_096;

/// How far the schedule may fall behind before it starts anew. Up to there late steps are made up
/// for, so that the schedule does not drift; beyond, the host was away, and a burst of steps
/// without any time between them would be no engine's.
const LAG_MAX: Duration = Duration::from_millis(50);

/// How an answer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finish {
    /// The model came to its end.
    Stop,
    /// It was cut at the length asked for.
    Length,
}

/// The newest state of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// Tokens said.
    pub(super) said: u64,
    /// Tokens of the prompt that were cached.
    pub(super) cached_tokens: u64,
    /// Whether that was all.
    pub(super) done: bool,
}

/// What the counters say, at the end of the newest step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Snapshot {
    pub(super) counters: Counters,
    pub(super) load: Load,
    /// Answers that came to their own end.
    pub(super) stopped: u64,
    /// Answers that were cut at the length asked for.
    pub(super) cut_at_length: u64,
    /// Requests whose client left.
    pub(super) aborted: u64,
    /// Times that the schedule started anew because the host was away.
    pub(super) schedule_resets: u64,
}

/// What is asked of the driver.
#[derive(Debug)]
pub(super) enum Command {
    /// Serve a request. When nobody looks at its progress any more, it is cancelled.
    Serve {
        job: Job,
        finish: Finish,
        progress: watch::Sender<Progress>,
    },
    /// Empty the prefix cache, and say whether that was possible.
    Reset(oneshot::Sender<bool>),
}

/// The other end of a driver.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) commands: mpsc::Sender<Command>,
    pub(super) snapshot: watch::Receiver<Snapshot>,
}

/// What is left to do about the time of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pace {
    sleep: Duration,
    /// When the next step starts: the end of this one on the schedule, however late it became.
    next_starts: Instant,
    /// Whether the schedule starts anew.
    is_reset: bool,
}

impl Pace {
    fn of(end_of_step: Instant, now: Instant) -> Self {
        let is_reset = now.saturating_duration_since(end_of_step) > LAG_MAX;
        let next_starts = if is_reset { now } else { end_of_step };
        Self {
            sleep: end_of_step.saturating_duration_since(now),
            next_starts,
            is_reset,
        }
    }
}

/// The model, its schedule and those who wait for it.
#[derive(Debug)]
pub(super) struct Driver {
    engine: Engine,
    speed: f64,
    commands: mpsc::Receiver<Command>,
    answers: HashMap<Id, (Finish, watch::Sender<Progress>)>,
    snapshot: Snapshot,
    published: watch::Sender<Snapshot>,
}

impl Driver {
    pub(super) fn new(config: &Config) -> (Self, Client) {
        let engine = Engine::new(config.engine.clone());
        let first = Snapshot {
            load: engine.load(),
            ..Snapshot::default()
        };
        let (sender, commands) = mpsc::channel(QUEUE_COMMANDS_MAX);
        let (published, snapshot) = watch::channel(first);
        let driver = Self {
            engine,
            speed: config.speed,
            commands,
            answers: HashMap::new(),
            snapshot: first,
            published,
        };
        (
            driver,
            Client {
                commands: sender,
                snapshot,
            },
        )
    }

    /// Steps until the last client is gone and nothing is left to do.
    pub(super) fn run(mut self) {
        let mut end_of_step = Instant::now();
        loop {
            if self.engine.is_idle() {
                let Some(command) = self.commands.blocking_recv() else {
                    return;
                };
                self.take(command);
                end_of_step = Instant::now();
            }
            while let Ok(command) = self.commands.try_recv() {
                self.take(command);
            }
            self.cancel_abandoned();
            self.publish();
            let step = self.engine.step();
            let lasts = Duration::from_nanos((step.duration_ns as f64 / self.speed) as u64);
            let pace = Pace::of(end_of_step + lasts, Instant::now());
            std::thread::sleep(pace.sleep);
            self.snapshot.schedule_resets += u64::from(pace.is_reset);
            end_of_step = pace.next_starts;
            self.tell(&step.outputs);
        }
    }

    fn take(&mut self, command: Command) {
        match command {
            Command::Serve {
                job,
                finish,
                progress,
            } => match self.engine.submit(job) {
                Ok(id) => {
                    self.answers.insert(id, (finish, progress));
                }
                // Requests are checked before they come here. Dropping the cell tells its reader.
                Err(refused) => tracing::error!(%refused, "the engine refused a checked request"),
            },
            Command::Reset(answer) => {
                let done = self.engine.reset_prefix_cache();
                if answer.send(done).is_err() {
                    tracing::debug!("nobody waits for the reset of the cache any more");
                }
            }
        }
    }

    fn cancel_abandoned(&mut self) {
        let Self {
            engine,
            answers,
            snapshot,
            ..
        } = self;
        answers.retain(|id, (_, progress)| {
            let is_abandoned = progress.is_closed();
            if is_abandoned && engine.cancel(*id) {
                snapshot.aborted += 1;
            }
            !is_abandoned
        });
    }

    /// The counters come first: who has read the end of an answer finds it counted.
    fn tell(&mut self, outputs: &[(Id, Emission)]) {
        for (id, _) in outputs.iter().filter(|(_, said)| said.last) {
            match self.answers.get(id) {
                Some((Finish::Stop, _)) => self.snapshot.stopped += 1,
                Some((Finish::Length, _)) => self.snapshot.cut_at_length += 1,
                None => {}
            }
        }
        self.publish();
        for (id, said) in outputs {
            let news = Progress {
                said: said.index + 1,
                cached_tokens: said.cached_tokens,
                done: said.last,
            };
            if let Some((_, progress)) = self.answers.get(id) {
                progress.send_replace(news);
            }
            if said.last {
                self.answers.remove(id);
            }
        }
    }

    fn publish(&mut self) {
        self.snapshot.counters = self.engine.counters();
        self.snapshot.load = self.engine.load();
        self.published.send_replace(self.snapshot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_step_is_made_up_for_until_the_host_was_away() {
        let end = Instant::now();
        let ms = Duration::from_millis;
        let pace = |now| Pace::of(end, now);
        let on = |sleep| Pace {
            sleep,
            next_starts: end,
            is_reset: false,
        };
        // Early: sleep. Late: the next step still starts where this one should have ended.
        assert_eq!(pace(end - ms(3)), on(ms(3)));
        assert_eq!(pace(end), on(ms(0)));
        assert_eq!(pace(end + ms(3)), on(ms(0)));
        assert_eq!(pace(end + LAG_MAX), on(ms(0)));
        let away = end + LAG_MAX + ms(1);
        assert_eq!(
            pace(away),
            Pace {
                sleep: ms(0),
                next_starts: away,
                is_reset: true
            }
        );
    }
}
