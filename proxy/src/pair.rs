//! The upstream link of a client connection: opened at its first request, used for the next ones,
//! closed with it.
//!
//! A pool shared by all clients would hand one client's stale link to another, which would see a
//! failure that its own fresh connection cannot have.

use crate::io::Traffic;
use crate::link::Link;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// What is paired with one client connection.
#[derive(Debug, Default)]
pub struct Pair {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    idle: Option<Link>,
    /// The upstream has closed the latest link.
    over: bool,
    /// Who waits for that.
    waiting: Option<Waker>,
}

impl Pair {
    /// The link, when it is idle and, as far as can be seen, still open.
    pub fn take(&self) -> Option<Link> {
        let mut link = self.state().idle.take()?;
        if !link.is_idle() {
            return None;
        }
        link.reuse();
        Some(link)
    }

    /// Keeps a link when another request can go over it; else closes it.
    pub fn give(&self, mut link: Link) {
        let idle = link.is_idle();
        let mut state = self.state();
        if idle {
            state.idle = Some(link);
        } else {
            state.over |= link.is_over();
        }
    }

    /// The same, from another task than the connection's own, which must be told.
    pub fn give_from_outside(&self, link: Link) {
        self.give(link);
        let waiting = self.state().waiting.take();
        if let Some(waiting) = waiting {
            waiting.wake();
        }
    }

    /// Waits until the upstream has closed the link while no request was under way. The client is
    /// told once it has taken all of the response before: the end of its connection must not cut it.
    pub async fn over(&self, traffic: &Arc<Traffic>) {
        poll_fn(|cx| {
            let mut state = self.state();
            let closed = state
                .idle
                .as_mut()
                .is_some_and(|link| link.poll_over(cx).is_ready());
            if closed {
                state.idle = None;
                state.over = true;
            }
            // A stalled socket wakes this task once it has taken more.
            if state.over && !traffic.is_stalled() {
                return Poll::Ready(());
            }
            if !state
                .waiting
                .as_ref()
                .is_some_and(|known| known.will_wake(cx.waker()))
            {
                state.waiting = Some(cx.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
