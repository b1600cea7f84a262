//! The ledger while it is being kept: counters that the serving path and the writer both add to.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use truetape_schemas::ledger::Ledger;

/// Why an exchange is not a row, by rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exclusion {
    /// A probe, a listing, or another request that carries no inference: not a POST.
    NotInference,
    /// An upgraded connection: it is tunnelled, and its bytes are nobody's business.
    Upgrade,
    /// What our replayer asks a target before a run: no arrival of the set that it replays.
    ReplayProbe,
    /// A flight recorder kept it for its time, and nobody asked for it.
    FlightExpired,
    /// A flight recorder let it go earlier: newer rows needed its memory.
    FlightDisplaced,
    /// An operator had switched capture off.
    CaptureOff,
}

impl Exclusion {
    /// All of them, in the order of their counters.
    pub const ALL: [Self; 6] = [
        Self::NotInference,
        Self::Upgrade,
        Self::ReplayProbe,
        Self::FlightExpired,
        Self::FlightDisplaced,
        Self::CaptureOff,
    ];

    /// The reason in the ledger.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotInference => "not_inference",
            Self::Upgrade => "upgrade",
            Self::ReplayProbe => "replay_probe",
            Self::FlightExpired => "flight_expired",
            Self::FlightDisplaced => "flight_displaced",
            Self::CaptureOff => "capture_off",
        }
    }
}

/// Why an exchange that should be a row was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// No memory was left even for its arrival.
    Memory,
    /// The reader of records did not keep up.
    QueueFull,
    /// The disk refused it.
    Disk,
    /// The directory held as much as it may (`--disk-quota`).
    DiskQuota,
    /// The file system was nearly full (`--disk-free-min`).
    DiskLow,
    /// It could not be made into a row.
    Bug,
    /// The process was killed before it was written.
    Killed,
    /// The process ended before it was written.
    Shutdown,
}

impl Loss {
    /// All of them, in the order of their counters.
    pub const ALL: [Self; 8] = [
        Self::Memory,
        Self::QueueFull,
        Self::Disk,
        Self::DiskQuota,
        Self::DiskLow,
        Self::Bug,
        Self::Killed,
        Self::Shutdown,
    ];

    /// The reason in the ledger.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::QueueFull => "queue_full",
            Self::Disk => "disk",
            Self::DiskQuota => "disk_quota",
            Self::DiskLow => "disk_low",
            Self::Bug => "bug",
            Self::Killed => "killed",
            Self::Shutdown => "shutdown",
        }
    }
}

/// Counts since the process started. An exchange is offered when it arrives, and is recorded,
/// degraded, excluded or dropped once later: what is between is in progress.
#[derive(Debug, Default)]
pub struct Account {
    offered: AtomicU64,
    recorded: AtomicU64,
    degraded: AtomicU64,
    sampled_out: AtomicU64,
    excluded: [AtomicU64; Exclusion::ALL.len()],
    dropped: [AtomicU64; Loss::ALL.len()],
}

impl Account {
    /// An exchange arrived.
    pub fn offer(&self) {
        self.offered.fetch_add(1, Relaxed);
    }

    /// An exchange is a row in the spool.
    pub fn record(&self, degraded: bool) {
        let counter = if degraded {
            &self.degraded
        } else {
            &self.recorded
        };
        counter.fetch_add(1, Relaxed);
    }

    /// An exchange belongs to a session that is not in the sample.
    pub fn sample_out(&self) {
        self.sampled_out.fetch_add(1, Relaxed);
    }

    /// An exchange is left out by a rule.
    pub fn exclude(&self, reason: Exclusion) {
        self.exclude_many(reason, 1);
    }

    /// Exchanges are left out by a rule.
    pub fn exclude_many(&self, reason: Exclusion, exchanges: u64) {
        if let Some(counter) = self.excluded.get(reason as usize) {
            counter.fetch_add(exchanges, Relaxed);
        }
    }

    /// Exchanges are lost.
    pub fn lose(&self, reason: Loss, exchanges: u64) {
        if let Some(counter) = self.dropped.get(reason as usize) {
            counter.fetch_add(exchanges, Relaxed);
        }
    }

    /// What was lost so far, for all reasons.
    pub fn lost(&self) -> u64 {
        self.dropped
            .iter()
            .map(|counter| counter.load(Relaxed))
            .sum()
    }

    /// The counts now. `offered` is read last, so that it covers all that is accounted for.
    pub fn snapshot(&self) -> Ledger {
        let named = |names: &[&str], counters: &[AtomicU64]| -> BTreeMap<String, u64> {
            let counts = counters.iter().map(|counter| counter.load(Relaxed));
            names
                .iter()
                .map(|name| (*name).to_owned())
                .zip(counts)
                .filter(|(_, n)| *n > 0)
                .collect()
        };
        Ledger {
            recorded: self.recorded.load(Relaxed),
            degraded: self.degraded.load(Relaxed),
            sampled_out: self.sampled_out.load(Relaxed),
            excluded: named(&Exclusion::ALL.map(Exclusion::name), &self.excluded),
            dropped: named(&Loss::ALL.map(Loss::name), &self.dropped),
            offered: self.offered.load(Relaxed),
        }
    }
}

/// What a ledger gained since an earlier reading of the same counters, `offered` left out: which
/// offers belong to a segment is for [`crate::spool`] to say.
pub fn since(now: &Ledger, before: &Ledger) -> Ledger {
    let gained = |now: &BTreeMap<String, u64>, before: &BTreeMap<String, u64>| {
        let gain = |(reason, n): (&String, &u64)| {
            let gain = n - before.get(reason).copied().unwrap_or(0).min(*n);
            (gain > 0).then(|| (reason.clone(), gain))
        };
        now.iter().filter_map(gain).collect()
    };
    Ledger {
        offered: 0,
        recorded: now.recorded.saturating_sub(before.recorded),
        degraded: now.degraded.saturating_sub(before.degraded),
        sampled_out: now.sampled_out.saturating_sub(before.sampled_out),
        excluded: gained(&now.excluded, &before.excluded),
        dropped: gained(&now.dropped, &before.dropped),
    }
}
