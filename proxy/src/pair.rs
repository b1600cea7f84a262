//! The connections to the upstream of one client connection: opened by its requests, used for the
//! next ones, closed with it.
//!
//! A client of HTTP/1 has one link. A client of HTTP/2 has one trunk, or a few links where the
//! upstream speaks HTTP/1.
//!
//! A pool shared by all clients would hand one client's stale link to another, which would see a
//! failure that its own fresh connection cannot have.

use crate::io::Traffic;
use crate::limits;
use crate::link::Link;
use crate::protocol::Protocol;
use crate::route::Unreached;
use crate::trunk::Trunk;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

/// What is paired with one client connection.
#[derive(Debug)]
pub struct Pair {
    client: Protocol,
    state: Mutex<State>,
    /// Held by the stream that opens the trunk; the others wait for it. Why the last one could not.
    opening: tokio::sync::Mutex<Option<Unreached>>,
}

#[derive(Debug, Default)]
struct State {
    idle: Vec<Idle>,
    trunk: Option<Trunk>,
    /// The upstream chose HTTP/1.1: there is no trunk to wait for.
    only_links: bool,
    /// How often the trunk could not be opened.
    failures: u64,
    /// The upstream has closed the connection that mirrors the client's.
    over: bool,
    /// Who waits for that.
    waiting: Option<Waker>,
}

#[derive(Debug)]
struct Idle {
    link: Link,
    since: Instant,
}

impl Pair {
    /// For a client that has no connection yet.
    pub fn new(client: Protocol) -> Self {
        Self {
            client,
            state: Mutex::default(),
            opening: tokio::sync::Mutex::default(),
        }
    }

    /// A link that is idle and, as far as can be seen, still open.
    pub fn take(&self) -> Option<Link> {
        loop {
            let mut idle = self.state().idle.pop()?;
            // A client of HTTP/2 does not know these links, so it cannot know when they are stale.
            let stale =
                self.client == Protocol::Http2 && idle.since.elapsed() > limits::LINK_IDLE_MAX;
            if !stale && idle.link.is_idle() {
                idle.link.reuse();
                return Some(idle.link);
            }
        }
    }

    /// Keeps a link when another request can go over it; else closes it.
    pub fn give(&self, mut link: Link) {
        let usable = link.is_idle();
        let mut state = self.state();
        if usable && state.idle.len() < limits::LINKS_IDLE_MAX {
            let since = Instant::now();
            state.idle.push(Idle { link, since });
        } else {
            state.over |= self.client == Protocol::Http1 && link.is_over();
        }
    }

    /// The same, from another task than the connection's own, which must be told.
    pub fn give_from_outside(&self, link: Link) {
        self.give(link);
        self.tell();
    }

    /// The trunk, when it is still open.
    pub fn trunk(&self) -> Option<Trunk> {
        self.state().trunk.clone().filter(|trunk| !trunk.is_over())
    }

    /// Keeps a trunk that was just opened.
    pub fn plant(&self, trunk: &Trunk) {
        let mut state = self.state();
        state.trunk = Some(trunk.clone());
        state.only_links = false;
    }

    /// A trunk takes no more streams: the next one opens another.
    pub fn fell(&self, trunk: &Trunk) {
        let mut state = self.state();
        if state.trunk.as_ref().is_some_and(|kept| kept.is(trunk)) {
            state.trunk = None;
        }
    }

    /// The connection of a trunk has ended.
    pub fn ended(&self, trunk: &Trunk) {
        trunk.end();
        let mut state = self.state();
        // One that was replaced ended long ago, as the client sees it.
        if state.trunk.as_ref().is_some_and(|kept| kept.is(trunk)) {
            state.trunk = None;
            state.over = true;
        }
        drop(state);
        self.tell();
    }

    /// Whether the upstream has ended the connection that mirrors the client's.
    pub fn has_ended(&self) -> bool {
        self.state().over
    }

    /// The upstream chose HTTP/1.1: from now on each stream opens a link of its own, at once.
    pub fn only_links(&self) {
        self.state().only_links = true;
    }

    /// Waits for one's turn to open the trunk. `None`: there is none to be had, and no turn needed.
    ///
    /// An attempt that fails meanwhile fails for all who waited for it: were each to try in its turn,
    /// the last would be told after as many times the longest wait.
    pub async fn turn(&self) -> Result<Option<Turn<'_>>, Unreached> {
        let failures = {
            let state = self.state();
            if state.only_links {
                return Ok(None);
            }
            state.failures
        };
        let last = self.opening.lock().await;
        let state = self.state();
        match last.as_ref().filter(|_| state.failures != failures) {
            Some(cause) => Err(cause.again()),
            None if state.only_links => Ok(None),
            None => {
                drop(state);
                Ok(Some(Turn { pair: self, last }))
            }
        }
    }

    /// Waits until the upstream has closed what mirrors the client's connection while no request was
    /// under way. The client is told once it has taken all of the response before: the end of its
    /// connection must not cut it.
    pub async fn over(&self, traffic: &Arc<Traffic>) {
        poll_fn(|cx| {
            let mut state = self.state();
            let closed = state.watch(cx);
            state.over |= closed && self.client == Protocol::Http1;
            // A stalled socket wakes this task once it has taken more.
            if state.over && !traffic.is_stalled() {
                return Poll::Ready(());
            }
            let known = state.waiting.as_ref();
            if !known.is_some_and(|known| known.will_wake(cx.waker())) {
                state.waiting = Some(cx.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }

    fn tell(&self) {
        let waiting = self.state().waiting.take();
        if let Some(waiting) = waiting {
            waiting.wake();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Held while a trunk is opened.
#[derive(Debug)]
pub struct Turn<'a> {
    pair: &'a Pair,
    last: tokio::sync::MutexGuard<'a, Option<Unreached>>,
}

impl Turn<'_> {
    /// Tells those who wait why it could not be opened.
    pub fn failed(mut self, cause: Unreached) -> Unreached {
        self.pair.state().failures += 1;
        *self.last = Some(cause.again());
        cause
    }
}

impl State {
    /// Lets go of idle links that the upstream has closed. Says whether there were any.
    fn watch(&mut self, cx: &mut Context<'_>) -> bool {
        let before = self.idle.len();
        self.idle
            .retain_mut(|idle| idle.link.poll_over(cx).is_pending());
        self.idle.len() < before
    }
}

#[cfg(test)]
mod tests {
    use super::{Pair, Turn};
    use crate::protocol::Protocol;
    use crate::route::Unreached;
    use std::io;
    use std::pin::pin;
    use tokio::time::{Duration, timeout};

    fn timed_out() -> Unreached {
        Unreached::Tcp(io::ErrorKind::TimedOut.into())
    }

    fn is_over(waited: &Result<Option<Turn<'_>>, Unreached>) -> bool {
        matches!(waited, Err(Unreached::Tcp(cause)) if cause.kind() == io::ErrorKind::TimedOut)
    }

    #[tokio::test]
    async fn a_failed_attempt_fails_for_those_who_wait_and_not_for_those_who_come_later() {
        let pair = Pair::new(Protocol::Http2);
        let turn = pair.turn().await.unwrap().unwrap();
        let (mut one, mut other) = (pin!(pair.turn()), pin!(pair.turn()));
        tokio::select! {
            biased;
            _ = &mut one => panic!("did not wait"),
            _ = &mut other => panic!("did not wait"),
            () = std::future::ready(()) => {}
        }
        turn.failed(timed_out());
        // One that got the turn would keep the other waiting.
        let waited = one.await;
        assert!(is_over(&waited), "{waited:?}");
        let waited = other.await;
        assert!(is_over(&waited), "{waited:?}");
        assert!(pair.turn().await.unwrap().is_some());
    }

    #[tokio::test]
    async fn nobody_waits_for_a_trunk_that_the_upstream_does_not_speak() {
        let pair = Pair::new(Protocol::Http2);
        let turn = pair.turn().await.unwrap().unwrap();
        let mut waiting = pin!(pair.turn());
        let waited = timeout(Duration::ZERO, &mut waiting).await;
        assert!(waited.is_err());
        pair.only_links();
        // Whoever comes now does not even wait for the one that found out.
        let at_once = timeout(Duration::from_secs(10), pair.turn()).await.unwrap();
        assert!(at_once.unwrap().is_none());
        drop(turn);
        assert!(waiting.await.unwrap().is_none());
    }
}
