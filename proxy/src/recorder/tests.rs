use super::{Offer, Recorder};
use crate::budget::Held;
use crate::limits::{RECORD_BASE_BYTES, TERMINAL_SHARE};
use crate::redact::{Credentials, HeaderText};
use crate::tape::{Arrival, Record, Tape};
use crate::track::{Track, TrackEnd};
use bytes::Bytes;
use http::HeaderMap;
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

const BUDGET: usize = 64 << 10;

/// Arrivals that the reserved part of the budget has room for, whatever bodies take.
const RESERVED: usize = BUDGET / TERMINAL_SHARE / RECORD_BASE_BYTES;

const QUEUE: usize = 12;

/// What happens to a proxy, each at a random moment.
#[derive(Clone, Debug)]
enum Event {
    Arrive,
    /// A frame of the response of one of the exchanges that are open.
    Frame(usize, usize),
    /// One of them ends.
    End(usize),
    /// The thread that makes rows takes so many offers.
    Read(usize),
    /// What it made is written.
    Write,
}

fn event() -> impl Strategy<Value = Event> {
    let length = prop_oneof![4 => 1usize..300, 2 => 1000usize..20_000, 1 => 60_000usize..90_000];
    prop_oneof![
        3 => Just(Event::Arrive),
        8 => (0usize..50, length).prop_map(|(which, length)| Event::Frame(which, length)),
        2 => (0usize..50).prop_map(Event::End),
        2 => (0usize..6).prop_map(Event::Read),
        1 => Just(Event::Write),
    ]
}

struct Stage {
    recorder: Arc<Recorder>,
    offers: Receiver<Offer>,
    open: Vec<(Arc<Tape>, Track)>,
    /// Offers in the queue.
    queued: usize,
    /// Records read off, whose rows are not written yet.
    read: Vec<Held>,
    lost: u64,
}

fn arrival(inflight: i32) -> Arrival {
    let headers = HeaderMap::new();
    Arrival {
        conn_id: 0,
        conn_seq: 0,
        upstream: "u".into(),
        arrival_us: 7,
        inflight,
        method: "POST".to_owned(),
        path: "/v1/completions".to_owned(),
        headers: HeaderText::of(&headers, &[]),
        content_encoding: None,
        credentials: Credentials::of(&headers, ""),
    }
}

impl Stage {
    fn new() -> Self {
        let (recorder, offers) = Recorder::new(BUDGET, QUEUE);
        Self {
            recorder,
            offers,
            open: Vec::new(),
            queued: 0,
            read: Vec::new(),
            lost: 0,
        }
    }

    fn alive(&self) -> usize {
        // Some of what is queued are pieces of bodies: at most as many are records.
        self.open.len() + self.queued + self.read.len()
    }

    fn act(&mut self, event: &Event) {
        match event {
            Event::Arrive => self.arrive(),
            Event::Frame(which, length) => {
                let n = self.open.len().max(1);
                if let Some((_, track)) = self.open.get_mut(which % n) {
                    track.push(8, &Bytes::from(vec![b'x'; *length]));
                }
            }
            Event::End(which) if !self.open.is_empty() => {
                let (tape, mut track) = self.open.swap_remove(which % self.open.len());
                track.finish(9, TrackEnd::Clean);
                tape.response(track, 0);
            }
            Event::End(_) => {}
            Event::Read(n) => (0..*n).for_each(|_| self.read_one()),
            Event::Write => self.read.clear(),
        }
    }

    fn arrive(&mut self) {
        let roomy = self.alive() < RESERVED;
        match self.recorder.begin(arrival) {
            Some(tape) => {
                let track = Track::new(&self.recorder, 1 << 20, true);
                self.open.push((tape, track));
            }
            None => {
                assert!(!roomy, "{} alive, {RESERVED} reserved", self.alive());
                self.lost += 1;
            }
        }
    }

    fn read_one(&mut self) {
        match self.offers.try_recv() {
            Ok(Offer::Piece(job)) => job.run(self.recorder.budget()),
            Ok(Offer::Record(record)) => self.make(*record),
            Err(_) => {}
        }
    }

    /// What the row needs of the facts is there, whatever was given up.
    fn make(&mut self, record: Record) {
        let Record {
            arrival,
            response,
            mut held,
            ..
        } = record;
        assert_eq!(arrival.arrival_us, 7);
        let track = response.unwrap();
        assert_eq!((track.end, track.end_us), (TrackEnd::Clean, Some(9)));
        let (bytes, lost_marks) = (track.bytes, track.lost_marks());
        let (body, body_held) = track.into_body();
        if let Some(body) = &body {
            assert_eq!(body.len() as u64, bytes, "a body is whole or not there");
        }
        held.absorb(body_held);
        self.read.push(held);
        self.recorder.account().record(body.is_none() || lost_marks);
    }
}

proptest! {
    /// Bodies and timelines take what they like: an arrival that finds room in the part kept for it
    /// is never lost, the bound holds at every moment, and the account adds up.
    #[test]
    fn pressure_costs_bodies_before_facts_and_every_exchange_is_accounted_for(
        events in proptest::collection::vec(event(), 0..300),
    ) {
        let mut stage = Stage::new();
        for event in &events {
            stage.act(event);
            let account = stage.recorder.account().snapshot();
            stage.queued = usize::try_from(
                account.offered - account.accounted() - stage.open.len() as u64,
            ).unwrap();
            prop_assert!(stage.recorder.budget().used() <= BUDGET);
        }
        while !stage.open.is_empty() {
            stage.act(&Event::End(0));
            stage.act(&Event::Read(QUEUE));
        }
        stage.act(&Event::Read(QUEUE));
        stage.act(&Event::Write);
        let account = stage.recorder.account().snapshot();
        prop_assert!(account.balances(), "{account:?}");
        prop_assert_eq!(account.dropped.get("memory").copied().unwrap_or(0), stage.lost);
        prop_assert_eq!(stage.recorder.inflight(), 0);
        prop_assert_eq!(stage.recorder.budget().used(), 0, "all of it came back");
    }
}
