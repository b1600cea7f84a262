//! What is due although no row comes: syncs, rotation, room on the disk, expiry.

use super::{Paused, Writer};
use crate::account::Exclusion;
use crate::limits;
use crate::metrics::Metric;
use crate::room::{OnQuota, Pause, Room};
use std::io;
use std::time::{Duration, Instant};

impl Writer {
    /// Time until something is due.
    pub(super) fn until_due(&self) -> Duration {
        let Some(open) = &self.open else {
            return limits::DISK_RETRY_AFTER;
        };
        let fsync_every = self.setup.rotation.fsync_every;
        // A tick at least as often as a sync keeps the noted ledger fresh.
        let tick = fsync_every.clamp(limits::OBSERVE_TICK, limits::FLUSH_TICK);
        let due = match (open.unsynced, open.rows) {
            (true, _) => open.synced + fsync_every,
            // An empty segment does not end, however old it is.
            (false, 0) => return tick,
            (false, _) => open.opened + self.setup.rotation.every,
        };
        due.saturating_duration_since(Instant::now())
            .clamp(Duration::from_millis(1), tick)
    }

    /// Nothing was written for a while, but there may be something to tell: exchanges in flight,
    /// probes, losses.
    pub(super) fn note_quiet(&mut self) {
        // Where no rows are written, notes alone must not fill the disk: 700 bytes each.
        let every = match (self.paused, &self.flight) {
            (None, None) => self.setup.rotation.fsync_every.min(limits::CLOCK_TICK),
            _ => limits::IDLE_NOTE_EVERY,
        };
        let refused = self.pausing() == Some(Pause::Refused);
        if !refused
            && self.open.is_some()
            && self.noted.elapsed() >= every
            && self.status.offers_since_note(self.books.account())
        {
            self.note();
        }
    }

    pub(super) fn keep_house(&mut self) {
        let now = Instant::now();
        self.look_for_room(now);
        if let Some(flight) = &mut self.flight {
            let rows = flight.expire(now);
            self.books
                .account()
                .exclude_many(Exclusion::FlightExpired, rows);
        }
        if self.status.take_flush() {
            self.flush();
        }
        let refused = self.pausing() == Some(Pause::Refused);
        let rotation = self.setup.rotation;
        let Some(open) = &mut self.open else {
            if !refused && self.open_next().is_ok() {
                self.resumed(Pause::Refused);
            }
            return;
        };
        if open.unsynced && now >= open.synced + rotation.fsync_every {
            open.synced = now;
            if let Err(cause) = open.sync() {
                self.refused(&cause);
            }
        }
        let full = self
            .open
            .as_ref()
            .is_some_and(|open| open.is_full(&rotation, now));
        if full && self.pausing() != Some(Pause::Refused) {
            self.close(false);
        }
    }

    /// Why rows are not written now, if they are not. After a refusal it is tried again in a while.
    pub(super) fn pausing(&self) -> Option<Pause> {
        let paused = self.paused?;
        paused.lasts().then_some(paused.why)
    }

    /// Pauses capture for want of room, and ends such a pause.
    fn look_for_room(&mut self, now: Instant) {
        if self
            .looked
            .is_some_and(|looked| now < looked + limits::ROOM_CHECK_EVERY)
        {
            return;
        }
        self.looked = Some(now);
        let mut judged = self.judge(self.paused.map(|paused| paused.why));
        while judged == Some(Pause::Quota)
            && self.setup.room.on_quota == OnQuota::DropOldest
            && self.drop_oldest()
        {
            // Room is made down to where a pause would end.
            judged = self.judge(Some(Pause::Quota));
        }
        match judged {
            Some(why) if self.paused.map(|paused| paused.why) == Some(why) => {}
            Some(why) => {
                self.pause(why, None);
                tracing::warn!(
                    directory = %self.setup.names.directory.display(),
                    reason = why.loss().name(),
                    "capture pauses until there is room on the disk; traffic goes on"
                );
                // Sealed, what was written takes less room, and can be shipped.
                if self.open.as_ref().is_some_and(|open| open.rows > 0) {
                    self.close(false);
                }
            }
            None => {
                self.resumed(Pause::Quota);
                self.resumed(Pause::Low);
            }
        }
    }

    /// What cannot be looked at does not pause anything: the disk says itself what it refuses.
    fn judge(&mut self, paused: Option<Pause>) -> Option<Pause> {
        let room = self.look().ok()?;
        self.setup.room.judge(room, paused)
    }

    fn look(&mut self) -> io::Result<Room> {
        let counted = self.setup.room.quota.is_some();
        self.disk.room(&self.setup.names.directory, counted)
    }

    fn drop_oldest(&mut self) -> bool {
        match self.disk.remove_oldest(&self.setup.names.directory) {
            Ok(Some(path)) => {
                self.metrics.count(Metric::SegmentsRemoved);
                tracing::info!(path = %path.display(), "removed the oldest segment for its room");
                true
            }
            Ok(None) => false,
            Err(cause) => {
                self.refused(&cause);
                false
            }
        }
    }

    /// The disk refuses: tried again in a while, said once in a while.
    pub(super) fn refused(&mut self, cause: &io::Error) {
        self.metrics.count(Metric::DiskErrors);
        self.pause(
            Pause::Refused,
            Some(Instant::now() + limits::DISK_RETRY_AFTER),
        );
        let due = self
            .complained
            .is_none_or(|at| at.elapsed() >= limits::LOSS_LOG_EVERY);
        if due {
            let lost = self.books.account().lost();
            self.complained = Some(Instant::now());
            let directory = self.setup.names.directory.display();
            tracing::error!(%directory, %cause, lost, "disk refuses the capture; traffic goes on");
        }
    }

    fn pause(&mut self, why: Pause, until: Option<Instant>) {
        self.paused = Some(Paused { why, until });
        self.status.paused(Some(why));
    }

    /// A pause of this kind is over.
    pub(super) fn resumed(&mut self, why: Pause) {
        if self.paused.is_none_or(|paused| paused.why != why) {
            return;
        }
        self.paused = None;
        self.status.paused(None);
        let lost = self.books.account().lost();
        tracing::info!(lost, "disk takes the capture again");
    }
}
