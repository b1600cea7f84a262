//! Wakes a task from outside of it, and not from within.
//!
//! A link is polled by the task that uses it. What hyper's two halves tell each other while that
//! task polls both of them is seen in the same poll, and does not need another; a wake would bring
//! one, and often a second thread to run it. So wakes that come while the task polls are noted
//! first, and passed on only when they are still news at its end.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// Rounds of one poll. hyper yields by waking itself; then the task must really be woken.
const ROUNDS_MAX: usize = 2;

/// The waker of one link.
#[derive(Debug, Default)]
struct Nudge {
    polling: AtomicBool,
    nudged: AtomicBool,
    task: Mutex<Option<Waker>>,
}

impl Wake for Nudge {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Noted before the look: whoever ends polling looks after it has said so.
        self.nudged.store(true, SeqCst);
        if !self.polling.load(SeqCst) {
            self.pass_on();
        }
    }
}

impl Nudge {
    fn pass_on(&self) {
        let task = self
            .task
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        if let Some(task) = task {
            task.wake();
        }
    }

    fn aim(&self, waker: &Waker) {
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if !task.as_ref().is_some_and(|known| known.will_wake(waker)) {
            *task = Some(waker.clone());
        }
    }
}

/// Polls with a waker of its own.
#[derive(Debug)]
pub struct Poller {
    nudge: Arc<Nudge>,
    waker: Waker,
}

impl Default for Poller {
    fn default() -> Self {
        let nudge = Arc::new(Nudge::default());
        let waker = Waker::from(Arc::clone(&nudge));
        Self { nudge, waker }
    }
}

impl Poller {
    /// Polls, and polls again when what happened within asks for it.
    ///
    /// Once it is ready, the caller must poll again before it waits for anything else: a wake that
    /// came meanwhile is not passed on.
    pub fn poll<T>(
        &self,
        cx: &mut Context<'_>,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.nudge.aim(cx.waker());
        self.nudge.polling.store(true, SeqCst);
        let mut within = Context::from_waker(&self.waker);
        let mut polled = Poll::Pending;
        for _ in 0..ROUNDS_MAX {
            self.nudge.nudged.store(false, SeqCst);
            polled = poll(&mut within);
            if polled.is_ready() || !self.nudge.nudged.load(SeqCst) {
                break;
            }
        }
        self.nudge.polling.store(false, SeqCst);
        if polled.is_pending() && self.nudge.nudged.load(SeqCst) {
            cx.waker().wake_by_ref();
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::{Poller, ROUNDS_MAX};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::task::{Context, Poll, Wake, Waker};

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    /// Polls once; gives the result, the rounds, the wakes of the task, and the inner waker.
    fn run(
        poller: &Poller,
        mut each: impl FnMut(usize, &Waker) -> Poll<()>,
    ) -> (Poll<()>, usize, Arc<Count>, Waker) {
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        let (mut rounds, mut kept) = (0, Waker::noop().clone());
        let polled = poller.poll(&mut Context::from_waker(&waker), |cx| {
            rounds += 1;
            kept = cx.waker().clone();
            each(rounds, cx.waker())
        });
        (polled, rounds, count, kept)
    }

    #[test]
    fn a_wake_from_within_is_answered_within() {
        let (polled, rounds, task, _) = run(&Poller::default(), |round, waker| {
            if round == 1 {
                waker.wake_by_ref();
            }
            Poll::Pending
        });
        assert_eq!((polled, rounds, task.0.load(SeqCst)), (Poll::Pending, 2, 0));
    }

    #[test]
    fn a_yield_is_passed_on() {
        let (_, rounds, task, _) = run(&Poller::default(), |_, waker| {
            waker.wake_by_ref();
            Poll::Pending
        });
        assert_eq!((rounds, task.0.load(SeqCst)), (ROUNDS_MAX, 1));
    }

    #[test]
    fn a_wake_from_outside_reaches_the_task_that_polled_last() {
        let poller = Poller::default();
        let (_, _, first, _) = run(&poller, |_, _| Poll::Pending);
        let (_, _, second, kept) = run(&poller, |_, _| Poll::Pending);
        kept.wake_by_ref();
        assert_eq!((first.0.load(SeqCst), second.0.load(SeqCst)), (0, 1));
    }

    #[test]
    fn a_wake_from_another_thread_while_polling_is_not_lost() {
        let (polled, rounds, task, _) = run(&Poller::default(), |round, waker| {
            if round == ROUNDS_MAX {
                let waker = waker.clone();
                std::thread::spawn(move || waker.wake()).join().unwrap();
            } else {
                waker.wake_by_ref();
            }
            Poll::Pending
        });
        assert_eq!(
            (polled, rounds, task.0.load(SeqCst)),
            (Poll::Pending, ROUNDS_MAX, 1)
        );
    }

    #[test]
    fn what_is_ready_is_not_polled_again() {
        let (polled, rounds, task, _) = run(&Poller::default(), |_, waker| {
            waker.wake_by_ref();
            Poll::Ready(())
        });
        assert_eq!(
            (polled, rounds, task.0.load(SeqCst)),
            (Poll::Ready(()), 1, 0)
        );
    }
}
