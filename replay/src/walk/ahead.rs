//! Requests that are built before they are due, so that at the deadline only the write is left.
//!
//! The pacing thread says which ([`Window`]); tasks of the runtime build them; the exchange takes its
//! own. One that is not there when its time has come is built then, as if nobody had tried.

use super::Shared;
use super::window::Window;
use crate::client::{Prepared, Request};
use crate::pace::Sender;
use crate::plan::Planned;
use crate::schedule::{Release, Schedule};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;
use truetape_schemas::run::Dispatch;
use truetape_schemas::wire::Dialect;
use truetape_schemas::wire::session::RUN_HEADER;

/// The version of its API that every client of Anthropic's names.
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// Requests that are wanted built: `None` while nobody has.
#[derive(Debug, Default)]
pub(super) struct Ahead(Mutex<HashMap<u32, Option<Prepared>>>);

impl Ahead {
    fn slots(&self) -> MutexGuard<'_, HashMap<u32, Option<Prepared>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn want(&self, index: u32) {
        self.slots().insert(index, None);
    }

    fn drop(&self, index: u32) {
        self.slots().remove(&index);
    }

    /// The request of a dispatch whose time has come, if it was built.
    pub(super) fn take(&self, index: u32) -> Option<Prepared> {
        self.slots().remove(&index).flatten()
    }

    /// Builds a request, unless nobody wants it any more.
    fn build(&self, index: u32, build: impl FnOnce() -> Option<Prepared>) {
        if !self.slots().contains_key(&index) {
            return;
        }
        let built = build();
        if let Some(slot) = self.slots().get_mut(&index) {
            *slot = built;
        }
    }
}

impl Shared {
    /// Builds the request of a dispatch, which continues the answer of this name.
    pub(super) fn prepare(&self, planned: &Planned, continued: Option<&str>) -> Prepared {
        let manner = &self.manner;
        let mut headers = manner.headers.clone();
        if let Ok(session) = http::HeaderValue::from_str(&planned.session) {
            headers.insert(&manner.session_header, session);
        }
        if let Ok(run) = http::HeaderValue::from_str(&manner.run_id) {
            headers.insert(RUN_HEADER, run);
        }
        if planned.dialect == Dialect::AnthropicMessages {
            let version = http::HeaderValue::from_static(ANTHROPIC_VERSION);
            headers.insert("anthropic-version", version);
        }
        self.client.prepare(Request {
            method: http::Method::POST,
            path: self.client.target().path(&planned.path),
            headers,
            body: planned.body.bytes_after(&self.plan.library, continued),
            dialect: planned.dialect,
            timeout: manner.timeout,
            idle_timeout: manner.idle_timeout,
            cancel: planned.cancel,
            carrier: planned.carrier,
        })
    }

    /// The same before its time; none where the answer that it continues has no name yet.
    fn build_ahead(&self, index: u32) {
        let Some(planned) = self.plan.dispatches.get(index as usize) else {
            return;
        };
        self.ahead.build(index, || {
            let name = self.answers.name_for(planned);
            let known = planned.continues.is_none() || name.is_some();
            known.then(|| self.prepare(planned, name.as_deref()))
        });
    }
}

/// What the pacing thread calls: it starts exchanges on the runtime, and has the next ones built.
pub(super) struct Starter {
    shared: Arc<Shared>,
    window: Window,
    /// Whether the schedule wants to know the end, per dispatch.
    awaited: Vec<bool>,
    runtime: tokio::runtime::Handle,
    tracker: TaskTracker,
    done: mpsc::Sender<Dispatch>,
}

impl Starter {
    pub(super) fn new(
        schedule: &Schedule,
        shared: Arc<Shared>,
        tracker: &TaskTracker,
        done: mpsc::Sender<Dispatch>,
    ) -> Self {
        let indices = 0..u32::try_from(shared.plan.dispatches.len()).unwrap_or(u32::MAX);
        Self {
            shared,
            window: Window::default(),
            awaited: indices.map(|index| schedule.awaits(index)).collect(),
            runtime: tokio::runtime::Handle::current(),
            tracker: tracker.clone(),
            done,
        }
    }
}

impl Sender for Starter {
    fn release(&mut self, release: Release) {
        let awaited = self.awaited.get(release.index as usize);
        let awaited = awaited.copied().unwrap_or(false);
        let shared = Arc::clone(&self.shared);
        let exchange = super::exchange(shared, release, awaited, self.done.clone());
        self.tracker.spawn_on(exchange, &self.runtime);
        self.window.sent((release.ready_us, release.index));
    }

    fn foresee(&mut self, known: &mut Vec<(i64, u32)>) {
        for key in known.drain(..) {
            self.window.foresee(key);
        }
        let dispatches = &self.shared.plan.dispatches;
        let library = &self.shared.plan.library;
        let change = self.window.fill(|index| {
            let planned = dispatches.get(index as usize);
            planned.map_or(0, |planned| planned.body.len_bound(library))
        });
        for index in change.drop {
            self.shared.ahead.drop(index);
        }
        if change.build.is_empty() {
            return;
        }
        for index in &change.build {
            self.shared.ahead.want(*index);
        }
        let shared = Arc::clone(&self.shared);
        let build = async move {
            for index in change.build {
                shared.build_ahead(index);
                tokio::task::yield_now().await;
            }
        };
        self.tracker.spawn_on(build, &self.runtime);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{Client, Target};

    fn prepared() -> Option<Prepared> {
        let client = Client::new(Target::resolve("http://127.0.0.1:1").unwrap());
        Some(client.prepare(Request::default()))
    }

    #[test]
    fn what_was_built_is_taken_once() {
        let ahead = Ahead::default();
        ahead.want(3);
        assert!(ahead.take(3).is_none());
        ahead.want(4);
        ahead.build(4, prepared);
        assert!(ahead.take(4).is_some());
        assert!(ahead.take(4).is_none());
    }

    #[test]
    fn what_nobody_wants_any_more_is_not_kept() {
        let ahead = Ahead::default();
        ahead.want(1);
        ahead.drop(1);
        ahead.build(1, || panic!("nobody wants it"));
        ahead.want(2);
        // It is taken while it is being built.
        ahead.build(2, || {
            assert!(ahead.take(2).is_none());
            prepared()
        });
        assert!(ahead.slots().is_empty());
    }
}
