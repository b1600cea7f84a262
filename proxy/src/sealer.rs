//! The sealer: a thread that turns every spool of the directory that nobody writes into a segment.
//!
//! It looks at the directory rather than keeping a list, so that spools of an earlier process,
//! spools just closed, and spools that could not be sealed before are one case.

use crate::capture::Status;
use crate::limits;
use crate::metrics::{Metric, Metrics};
use crate::seal;
use crate::spool;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};
use truetape_schemas::file::key::Keyring;

/// Tells the sealer that there is something to do. Never waits: one reminder is enough.
#[derive(Clone, Debug)]
pub struct Poke(SyncSender<()>);

impl Poke {
    /// For a writer without a sealer.
    #[cfg(test)]
    pub(crate) fn to_nobody() -> Self {
        Self(sync_channel(1).0)
    }

    /// A spool was closed.
    pub fn closed(&self) {
        // Full: it has been told already. Gone: it has ended with an error that it told.
        self.0.try_send(()).ok();
    }
}

/// The running sealer.
#[derive(Debug)]
pub struct Handle {
    poke: Poke,
    thread: JoinHandle<u64>,
}

impl Handle {
    /// For the writer.
    pub fn poke(&self) -> Poke {
        self.poke.clone()
    }

    /// Waits until all is sealed that can be; says how many spools are left. All other pokes must
    /// be gone.
    pub fn finish(self) -> u64 {
        drop(self.poke);
        self.thread.join().unwrap_or(1)
    }
}

/// Starts it. Its first look seals what an earlier process left.
pub fn start(
    directory: PathBuf,
    keys: Keyring,
    status: &Arc<Status>,
    metrics: &Arc<Metrics>,
) -> io::Result<Handle> {
    let (poke, pokes) = sync_channel(1);
    let (status, metrics) = (Arc::clone(status), Arc::clone(metrics));
    let mut sealer = Sealer {
        directory,
        keys,
        status,
        metrics,
        complained: false,
    };
    let thread = Builder::new()
        .name("truetape-seal".to_owned())
        .spawn(move || {
            crate::capture::yield_to_traffic();
            sealer.run(&pokes)
        })?;
    Ok(Handle {
        poke: Poke(poke),
        thread,
    })
}

struct Sealer {
    directory: PathBuf,
    keys: Keyring,
    status: Arc<Status>,
    metrics: Arc<Metrics>,
    complained: bool,
}

impl Sealer {
    fn run(&mut self, pokes: &Receiver<()>) -> u64 {
        self.seal_all();
        loop {
            match pokes.recv_timeout(limits::SEAL_RETRY_AFTER) {
                Ok(()) | Err(RecvTimeoutError::Timeout) => self.seal_all(),
                Err(RecvTimeoutError::Disconnected) => return self.seal_all(),
            };
        }
    }

    /// Says how many are left.
    fn seal_all(&mut self) -> u64 {
        let spools = match spools(&self.directory) {
            Ok(spools) => spools,
            Err(cause) => {
                self.complain(&self.directory.clone(), &cause.to_string());
                return 1;
            }
        };
        let mut left = 0;
        for spool in spools {
            // Asked for each, after it was listed: a spool is announced before it exists.
            if self.status.segment().as_ref() != Some(&spool) {
                left += u64::from(!self.seal(&spool));
            }
        }
        left
    }

    fn seal(&mut self, spool: &Path) -> bool {
        let sealed = match seal::seal(spool, &self.keys) {
            Ok(sealed) => sealed,
            Err(cause) => {
                self.metrics.count(Metric::SealFailures);
                self.complain(spool, &cause.to_string());
                return false;
            }
        };
        self.complained = false;
        let rows = sealed.ledger.rows();
        self.metrics.add(Metric::TornBytes, sealed.torn_bytes);
        if !sealed.closed {
            self.metrics.add(Metric::RowsRecovered, rows);
            let (spool, torn_bytes) = (spool.display(), sealed.torn_bytes);
            let killed = sealed.ledger.dropped.get("killed").copied().unwrap_or(0);
            tracing::warn!(%spool, rows, killed, torn_bytes, "recovered the spool of a process that was killed");
        }
        if let Some(path) = sealed.path {
            self.metrics.count(Metric::SegmentsSealed);
            tracing::debug!(path = %path.display(), rows, "sealed a segment");
        }
        true
    }

    /// Said once until something is sealed again: the spools are kept, nothing is lost.
    fn complain(&mut self, path: &Path, cause: &str) {
        if !std::mem::replace(&mut self.complained, true) {
            let path = path.display();
            tracing::warn!(%path, cause, "could not seal; it is tried again");
        }
    }
}

/// The spools of a directory, the oldest name first.
fn spools(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path
            .file_name()
            .is_some_and(|name| name.to_string_lossy().ends_with(spool::SUFFIX))
        {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
