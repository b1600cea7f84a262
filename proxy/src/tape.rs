//! One exchange while it happens. Both bodies and the forwarding code hold it; when the last of
//! them lets go, it is offered to the recorder, whatever the reason they ended for.

use crate::account::Exclusion;
use crate::budget::Held;
use crate::recorder::Recorder;
use crate::redact::{Credentials, HeaderText};
use crate::track::Track;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// What is known when a request arrives.
#[derive(Debug)]
#[expect(missing_docs, reason = "the fields are columns of capture/1")]
pub struct Arrival {
    pub conn_id: i64,
    pub conn_seq: i32,
    pub upstream: Arc<str>,
    pub arrival_us: i64,
    pub inflight: i32,
    pub method: String,
    pub path: String,
    pub headers: HeaderText,
    pub content_encoding: Option<String>,
    pub credentials: Credentials,
}

/// What is known when the head of a response arrives.
#[derive(Debug)]
#[expect(missing_docs, reason = "the fields are columns of capture/1")]
pub struct ResponseHead {
    pub at_us: i64,
    pub status: u16,
    pub headers: HeaderText,
    pub content_type: Option<String>,
    pub content_encoding: Option<String>,
}

/// What the forwarding code knows about an end that the bodies do not show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fate {
    /// Nothing out of the ordinary, or the client went away.
    #[default]
    Ordinary,
    /// The upstream could not be reached: the client got our 502.
    Unreachable,
    /// The upstream went away before its response began.
    Broken,
    /// The connection became a tunnel.
    Upgraded,
}

impl Fate {
    fn of(code: u8) -> Self {
        [
            Self::Ordinary,
            Self::Unreachable,
            Self::Broken,
            Self::Upgraded,
        ]
        .into_iter()
        .find(|fate| *fate as u8 == code)
        .unwrap_or_default()
    }
}

/// An exchange that is over, on its way to become a row.
#[derive(Debug)]
pub struct Record {
    /// The request's head.
    pub arrival: Arrival,
    /// The request's body.
    pub request: Option<Track>,
    /// The response's head, where one came.
    pub head: Option<ResponseHead>,
    /// The response's body.
    pub response: Option<Track>,
    /// Time the response waited for a client that read slowly.
    pub client_stall_us: i64,
    /// What the bodies do not show.
    pub fate: Fate,
    /// The process cut it short.
    pub cut: bool,
    /// When it ended.
    pub end_us: i64,
    /// What it holds of the budget beside its bodies.
    pub held: Held,
}

/// An exchange while it happens.
#[derive(Debug)]
pub struct Tape {
    recorder: Arc<Recorder>,
    arrival: Option<Arrival>,
    request: OnceLock<Track>,
    head: OnceLock<ResponseHead>,
    response: OnceLock<(Track, i64)>,
    fate: AtomicU8,
    held: Option<Held>,
}

impl Tape {
    /// Starts one. Only [`Recorder::begin`] does, which has counted it.
    pub(crate) fn new(recorder: Arc<Recorder>, arrival: Arrival, held: Held) -> Self {
        Self {
            recorder,
            arrival: Some(arrival),
            request: OnceLock::new(),
            head: OnceLock::new(),
            response: OnceLock::new(),
            fate: AtomicU8::new(Fate::Ordinary as u8),
            held: Some(held),
        }
    }

    /// The recorder it will be offered to.
    pub fn recorder(&self) -> &Arc<Recorder> {
        &self.recorder
    }

    /// The head of the response came.
    pub fn head(&self, head: ResponseHead) {
        // Each of these is set by one owner, once.
        drop(self.head.set(head));
    }

    /// The request's body is over.
    pub fn request(&self, track: Track) {
        drop(self.request.set(track));
    }

    /// The response's body is over; it waited so long for the client.
    pub fn response(&self, track: Track, client_stall_us: i64) {
        drop(self.response.set((track, client_stall_us)));
    }

    /// It ends otherwise than the bodies show.
    pub fn fate(&self, fate: Fate) {
        self.fate.store(fate as u8, Relaxed);
    }
}

impl Drop for Tape {
    fn drop(&mut self) {
        let fate = Fate::of(self.fate.load(Relaxed));
        let (Some(arrival), Some(held)) = (self.arrival.take(), self.held.take()) else {
            return;
        };
        if fate == Fate::Upgraded {
            self.recorder.exclude(Exclusion::Upgrade);
            return;
        }
        let (response, client_stall_us) = self.response.take().unzip();
        self.recorder.offer(Record {
            arrival,
            request: self.request.take(),
            head: self.head.take(),
            response,
            client_stall_us: client_stall_us.unwrap_or(0),
            fate,
            cut: self.recorder.is_cutting(),
            end_us: self.recorder.clock().now_us(),
            held,
        });
    }
}
