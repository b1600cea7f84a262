//! One client connection, as its exchanges see it.

use crate::interim::Interim;
use crate::io::Traffic;
use crate::pair::Pair;
use crate::protocol::{Client, Wanted};
use crate::pump::Cause;
use crate::route::Destination;
use crate::server::Shared;
use std::sync::Arc;
use tokio_util::sync::{CancellationToken, DropGuard};

/// One client connection.
#[derive(Debug)]
pub struct Connection {
    /// What all connections share.
    pub shared: Arc<Shared>,
    /// What passes over this one.
    pub traffic: Arc<Traffic>,
    /// Its connections to the upstream.
    pub pair: Arc<Pair>,
    /// What it speaks, and how that came.
    pub client: Client,
    /// Where its requests go.
    pub destination: Destination,
    /// What it asks of its connections to the upstream.
    pub wanted: Wanted,
    /// Ends with it: what goes on for it in tasks of their own.
    pub alive: CancellationToken,
    /// Its number.
    pub id: i64,
}

impl Connection {
    /// A connection whose protocol is known.
    pub fn new(
        shared: &Arc<Shared>,
        traffic: &Arc<Traffic>,
        destination: Destination,
        client: Client,
        id: i64,
    ) -> Self {
        let setting = shared.config.upstream_protocol;
        let wanted = Wanted::of(setting, client, destination.is_tls());
        Self {
            shared: Arc::clone(shared),
            traffic: Arc::clone(traffic),
            pair: Arc::new(Pair::new(client.protocol)),
            client,
            destination,
            wanted,
            alive: CancellationToken::new(),
            id,
        }
    }

    /// Ends what goes on for it once this is dropped.
    pub fn guard(&self) -> DropGuard {
        self.alive.clone().drop_guard()
    }

    /// Runs a task for it: until it ends by itself, with the connection, or with the process.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let (alive, cut) = (self.alive.clone(), self.shared.cut.clone());
        drop(self.shared.tasks.spawn(async move {
            tokio::select! {
                biased;
                () = cut.cancelled() => {}
                () = alive.cancelled() => {}
                () = task => {}
            }
        }));
    }
}

/// The client's side of one exchange.
#[derive(Clone, Debug)]
pub struct Side {
    /// Where interim responses go.
    pub interim: Arc<Interim>,
    /// Why the client gives the exchange up.
    pub cause: Arc<Cause>,
    /// How long it lets its response wait.
    pub stall: Arc<Traffic>,
}
