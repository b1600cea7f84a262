//! The serving path's end of recording. Nothing here waits: a record is queued or counted as lost.

use crate::account::{Account, Exclusion, Loss};
use crate::budget::{Budget, Held, Purpose};
use crate::clock::Clock;
use crate::limits;
use crate::pack;
use crate::tape::{Arrival, Record, Tape};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

/// What the serving path hands over.
#[derive(Debug)]
pub enum Offer {
    /// An exchange that is over.
    Record(Box<Record>),
    /// A piece of a long body, to be packed while its exchange lasts.
    Piece(Box<pack::Job>),
}

/// Takes exchanges from the serving path.
#[derive(Debug)]
pub struct Recorder {
    clock: Clock,
    budget: Arc<Budget>,
    account: Arc<Account>,
    queue: SyncSender<Offer>,
    inflight: AtomicI64,
    cutting: AtomicBool,
    off: AtomicBool,
    last_offer_us: AtomicI64,
}

impl Recorder {
    /// A recorder with a bounded queue, whose other end is for [`crate::observe`].
    ///
    /// The queue's reader polls it: a reader that slept on it would have to be woken from the
    /// serving path, which is a system call for each exchange.
    pub fn new(memory_budget: usize, queue_records: usize) -> (Arc<Self>, Receiver<Offer>) {
        let (queue, records) = sync_channel(queue_records);
        let recorder = Self {
            clock: Clock::start(),
            budget: Budget::new(memory_budget),
            account: Arc::new(Account::default()),
            queue,
            inflight: AtomicI64::new(0),
            cutting: AtomicBool::new(false),
            off: AtomicBool::new(false),
            last_offer_us: AtomicI64::new(0),
        };
        (Arc::new(recorder), records)
    }

    /// The proxy's clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The memory for capture.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// The ledger while it is kept.
    pub fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// Exchanges that are to be rows and are happening now.
    pub fn inflight(&self) -> i64 {
        self.inflight.load(Relaxed)
    }

    /// When a record was last offered, on the proxy's clock.
    pub fn last_offer_us(&self) -> i64 {
        self.last_offer_us.load(Relaxed)
    }

    /// A request arrived that is not to be a row.
    pub fn skip(&self, reason: Exclusion) {
        self.account.offer();
        self.account.exclude(reason);
    }

    /// Switches capture off or on for what arrives from now on. What is happening is recorded to its
    /// end.
    pub fn switch_off(&self, off: bool) {
        self.off.store(off, Relaxed);
    }

    /// Whether an operator switched capture off.
    pub fn is_off(&self) -> bool {
        self.off.load(Relaxed)
    }

    /// A request arrived that is to be a row. `None`: capture is off, or no memory is left even for
    /// its arrival.
    pub fn begin(self: &Arc<Self>, arrival: impl FnOnce(i32) -> Arrival) -> Option<Arc<Tape>> {
        self.account.offer();
        if self.is_off() {
            self.account.exclude(Exclusion::CaptureOff);
            return None;
        }
        let mut held = Held::nothing(&self.budget);
        if !held.grow(limits::RECORD_BASE_BYTES, Purpose::Facts) {
            self.account.lose(Loss::Memory, 1);
            return None;
        }
        let inflight = self.inflight.fetch_add(1, Relaxed);
        let arrival = arrival(i32::try_from(inflight).unwrap_or(i32::MAX));
        let more = arrival
            .headers
            .bytes()
            .saturating_sub(limits::RECORD_BASE_BYTES / 2);
        // Headers are facts too; the rare large ones that do not fit are carried unaccounted,
        // bounded by `HEADER_TEXT_BYTES_MAX` for each exchange in flight.
        held.grow(more, Purpose::Facts);
        Some(Arc::new(Tape::new(Arc::clone(self), arrival, held)))
    }

    /// Takes a piece of a body, or says that there is no room for it.
    pub fn pack(&self, job: pack::Job) -> bool {
        self.queue.try_send(Offer::Piece(Box::new(job))).is_ok()
    }

    /// From now on, what ends without its own end was cut by this process.
    pub fn cut(&self) {
        self.cutting.store(true, Relaxed);
    }

    /// Whether exchanges are being cut.
    pub fn is_cutting(&self) -> bool {
        self.cutting.load(Relaxed)
    }

    pub(crate) fn exclude(&self, reason: Exclusion) {
        self.inflight.fetch_sub(1, Relaxed);
        self.account.exclude(reason);
    }

    pub(crate) fn offer(&self, record: Record) {
        self.inflight.fetch_sub(1, Relaxed);
        self.last_offer_us.store(record.end_us, Relaxed);
        match self.queue.try_send(Offer::Record(Box::new(record))) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => self.account.lose(Loss::QueueFull, 1),
            Err(TrySendError::Disconnected(_)) => self.account.lose(Loss::Shutdown, 1),
        }
    }
}

#[cfg(test)]
mod tests;
