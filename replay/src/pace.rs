//! The thread that walks the schedule in real time.
//!
//! It owns the [`Schedule`] and sleeps until the next deadline or the next piece of news, whichever
//! is first. Never a timer of the runtime: those count whole milliseconds and round up. A condition
//! variable's timeout is a kernel timer on the monotonic clock, as accurate as a sleep to an
//! absolute time (p50 55 us, p90 90 us, measured side by side), and unlike a sleep it can be woken
//! by a dependency that has just ended.

use crate::clock::Clock;
use crate::schedule::{Release, Schedule, Unsent};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Spinning before a deadline at most: a spinner that outstays its slice is put behind sleepers.
pub const SPIN_MAX: Duration = Duration::from_micros(100);

/// What the pacing thread is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum News {
    Ended { index: u32, end_us: i64 },
    Failed { index: u32, end_us: i64 },
    Stop,
}

/// Carries news to the pacing thread.
///
/// It needs no bound of its own: each dispatch ends once, so that it never holds more than what is
/// in flight.
#[derive(Debug, Default)]
pub struct Inbox {
    news: Mutex<Vec<News>>,
    arrived: Condvar,
}

impl Inbox {
    /// Says that a dispatch has ended.
    pub fn ended(&self, index: u32, end_us: i64) {
        self.tell(News::Ended { index, end_us });
    }

    /// Says that a dispatch has ended and failed.
    pub fn failed(&self, index: u32, end_us: i64) {
        self.tell(News::Failed { index, end_us });
    }

    /// Asks to send nothing more.
    pub fn stop(&self) {
        self.tell(News::Stop);
    }

    fn tell(&self, news: News) {
        self.news
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(news);
        self.arrived.notify_one();
    }

    /// Waits for news, until `deadline` at most.
    fn wait(&self, deadline: Option<Instant>) -> Vec<News> {
        let mut news = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        while news.is_empty() {
            news = match deadline {
                None => self
                    .arrived
                    .wait(news)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        break;
                    }
                    let waited = self.arrived.wait_timeout(news, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        std::mem::take(&mut *news)
    }
}

/// What the pacing thread calls.
pub trait Sender {
    /// Starts a dispatch, and returns.
    fn release(&mut self, release: Release);

    /// Takes in when dispatches may be sent, as soon as that is known, and takes the list empty or
    /// full: it is called before each sleep, when what is due has been started.
    fn foresee(&mut self, known: &mut Vec<(i64, u32)>) {
        known.clear();
    }
}

impl<F: FnMut(Release)> Sender for F {
    fn release(&mut self, release: Release) {
        self(release);
    }
}

/// Walks a schedule to its end: has `sender` release each dispatch at its time, in order, and
/// returns those that were not sent.
///
/// It starts a request and returns. A slow target makes answers late; it must never make
/// arrivals late, or the run would measure the replayer.
pub fn walk(
    mut schedule: Schedule,
    clock: Clock,
    inbox: &Inbox,
    spin: Duration,
    mut sender: impl Sender,
) -> Unsent {
    sharpen_timers();
    let mut releases = Vec::new();
    let mut known = Vec::new();
    loop {
        schedule.take_due(clock.now_us(), &mut releases);
        for due in releases.drain(..) {
            sender.release(due);
        }
        if schedule.is_done() {
            return schedule.into_unsent();
        }
        schedule.take_known(&mut known);
        sender.foresee(&mut known);
        let deadline = schedule
            .next_deadline_us()
            .map(|due_us| clock.instant(due_us));
        let news = inbox.wait(deadline.map(|at| at.checked_sub(spin).unwrap_or(at)));
        for item in &news {
            match *item {
                News::Ended { index, end_us } => schedule.ended(index, end_us),
                News::Failed { index, end_us } => schedule.failed(index, end_us),
                News::Stop => return schedule.into_unsent(),
            }
        }
        if let (true, Some(deadline)) = (news.is_empty() && !spin.is_zero(), deadline) {
            while Instant::now() < deadline {
                std::hint::spin_loop();
            }
        }
    }
}

/// Starts [`walk`] on a thread of its own.
pub fn start(
    schedule: Schedule,
    clock: Clock,
    inbox: Arc<Inbox>,
    spin: Duration,
    sender: impl Sender + Send + 'static,
) -> std::io::Result<std::thread::JoinHandle<Unsent>> {
    let spin = spin.min(SPIN_MAX);
    std::thread::Builder::new()
        .name("pace".to_owned())
        .spawn(move || walk(schedule, clock, &inbox, spin, sender))
}

/// Asks the kernel not to gather this thread's timers: by default they may be 50 us late for that.
fn sharpen_timers() {
    #[cfg(target_os = "linux")]
    {
        // Without it the run is only a little later, and its lateness is measured anyway.
        let asked = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        if let Err(cause) = asked {
            tracing::debug!(%cause, "could not set the timer slack");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Pacing;
    use crate::schedule::Node;

    /// Walks nodes in real time; each ends `service_us` after it was sent, told by another thread.
    fn walked(nodes: Vec<Node>, spin: Duration) -> Vec<(Release, i64)> {
        let clock = Clock::starting_at(Instant::now() + Duration::from_millis(20));
        let inbox = Inbox::default();
        let mut sent = Vec::new();
        let schedule = Schedule::new(nodes, Pacing::Hybrid, usize::MAX);
        std::thread::scope(|scope| {
            let inbox = &inbox;
            let withdrawn = walk(schedule, clock, inbox, spin, |release: Release| {
                let sent_us = clock.now_us();
                sent.push((release, sent_us));
                scope.spawn(move || inbox.ended(release.index, sent_us));
            });
            assert_eq!(withdrawn, Unsent::default());
        });
        sent
    }

    #[test]
    fn nothing_is_early_and_bursts_keep_their_order() {
        let node = |ms: i64| Node {
            due_us: ms * 1_000,
            ..Node::default()
        };
        let dues = [0, 0, 0, 3, 3, 7];
        let sent = walked(dues.map(node).to_vec(), Duration::ZERO);
        let order: Vec<u32> = sent.iter().map(|(release, _)| release.index).collect();
        assert_eq!(order, [0, 1, 2, 3, 4, 5]);
        for (release, sent_us) in sent {
            assert!(release.ready_us <= sent_us);
        }
    }

    #[test]
    fn an_end_wakes_the_thread_before_its_next_deadline() {
        let nodes = vec![
            Node {
                due_us: 0,
                ..Node::default()
            },
            Node {
                due_us: 0,
                depends_on: vec![0],
                think_us: Some(5_000),
                ..Node::default()
            },
            Node {
                due_us: 600_000,
                ..Node::default()
            },
        ];
        for spin in [Duration::ZERO, SPIN_MAX] {
            let sent = walked(nodes.clone(), spin);
            let order: Vec<u32> = sent.iter().map(|(release, _)| release.index).collect();
            assert_eq!(order, [0, 1, 2]);
            assert!(sent[1].1 < 600_000, "{sent:?}");
        }
    }

    #[test]
    fn a_stop_withdraws_the_rest_at_once() {
        let far = Node {
            due_us: 3_600_000_000,
            ..Node::default()
        };
        let schedule = Schedule::new(vec![far.clone(), far], Pacing::Hybrid, usize::MAX);
        let inbox = Inbox::default();
        let clock = Clock::starting_at(Instant::now());
        let withdrawn = std::thread::scope(|scope| {
            let walker = scope.spawn(|| {
                walk(schedule, clock, &inbox, Duration::ZERO, |_: Release| {
                    panic!("sent")
                })
            });
            inbox.stop();
            walker.join().unwrap()
        });
        assert_eq!(withdrawn.withdrawn, [0, 1]);
    }

    #[test]
    fn half_of_a_thousand_a_second_leave_within_half_a_millisecond() {
        // The tail belongs to whoever else uses this machine, so only the median is asserted.
        let nodes = (0..300)
            .map(|i| Node {
                due_us: i * 1_000,
                ..Node::default()
            })
            .collect();
        let sent = walked(nodes, Duration::ZERO);
        let mut late_us: Vec<i64> = sent
            .iter()
            .map(|(release, sent_us)| sent_us - release.ready_us)
            .collect();
        late_us.sort_unstable();
        let median_us = late_us[late_us.len() / 2];
        assert!(median_us < 500, "median lateness {median_us} us");
    }
}
