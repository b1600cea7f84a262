//! Renews what TLS is made of: on request, and when a file has changed.

use super::files::Stamp;
use super::{Inbound, Outbound};
use crate::error::Error;
use crate::metrics::{Metric, Metrics};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// What a reload found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed {
    /// Files that were another version than at the reload before.
    pub files: usize,
}

/// All of TLS in one process.
#[derive(Debug)]
pub struct Keeper {
    inbound: Vec<Arc<Inbound>>,
    outbound: Vec<Arc<Outbound>>,
    metrics: Arc<Metrics>,
    /// What was in force was read from; held while it is replaced, so that of two reloads the later
    /// one stays.
    seen: Mutex<Vec<(PathBuf, Stamp)>>,
}

impl Keeper {
    /// Takes charge of what was just loaded.
    pub fn new(
        inbound: Vec<Arc<Inbound>>,
        outbound: Vec<Arc<Outbound>>,
        metrics: Arc<Metrics>,
    ) -> Result<Self, Error> {
        let keeper = Self {
            inbound,
            outbound,
            metrics,
            seen: Mutex::default(),
        };
        // Read once more, after the look: or a change since they were loaded would stay unseen.
        keeper.renew_noted().1?;
        Ok(keeper)
    }

    /// Reads every file again. Only when all of them hold is any put in force; connections that are
    /// open keep what they began with.
    pub fn reload(&self) -> Result<Changed, Error> {
        let (files, renewed) = self.renew_noted();
        let (metric, result) = match renewed {
            Ok(()) => (Metric::TlsReloads, Ok(Changed { files })),
            Err(error) => (Metric::TlsReloadFailures, Err(error)),
        };
        self.metrics.count(metric);
        result
    }

    /// Looks at the files until `stop`, and reloads when one has changed.
    pub async fn watch(self: Arc<Self>, every: Duration, stop: CancellationToken) {
        // Files may be on a disk that does not answer, which must not hold a thread that serves.
        let looks = TaskTracker::new();
        loop {
            let pause = tokio::time::sleep(every);
            if stop.run_until_cancelled(pause).await.is_none() {
                return;
            }
            let keeper = Arc::clone(&self);
            let look = looks.spawn_blocking(move || keeper.look());
            if stop.run_until_cancelled(look).await.is_none() {
                return;
            }
        }
    }

    /// Reloads when a file has changed.
    fn look(&self) {
        let stamps = self.stamps();
        let changed = *self.seen.lock().unwrap_or_else(PoisonError::into_inner) != stamps;
        if !changed {
            return;
        }
        match self.reload() {
            Ok(Changed { files }) => tracing::info!(files, "certificates were renewed"),
            Err(error) => {
                tracing::error!(%error, "certificates have changed, and cannot be used; the ones before stay in force");
            }
        }
    }

    fn renew(&self) -> Result<(), Error> {
        let inbound: Vec<_> = self
            .inbound
            .iter()
            .map(|side| side.renewed())
            .collect::<Result<_, _>>()?;
        let outbound: Vec<_> = self
            .outbound
            .iter()
            .map(|side| side.renewed())
            .collect::<Result<_, _>>()?;
        for (side, config) in self.inbound.iter().zip(inbound) {
            side.set(config);
        }
        for (side, configs) in self.outbound.iter().zip(outbound) {
            side.set(configs);
        }
        Ok(())
    }

    fn stamps(&self) -> Vec<(PathBuf, Stamp)> {
        let inbound = self.inbound.iter().flat_map(|side| side.paths());
        let outbound = self.outbound.iter().flat_map(|side| side.paths());
        inbound
            .chain(outbound)
            .map(|path| (path.to_owned(), Stamp::of(path)))
            .collect()
    }

    /// Renews, and remembers what from; gives how many files differ from before.
    fn renew_noted(&self) -> (usize, Result<(), Error>) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        // Looked at before they are read: a change in between is seen by the next look.
        let stamps = self.stamps();
        let differ = stamps
            .iter()
            .zip(seen.iter())
            .filter(|(now, before)| now != before)
            .count();
        *seen = stamps;
        (differ, self.renew())
    }
}
