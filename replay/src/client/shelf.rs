//! Connections that wait for their next exchange, by the policy of `--connections`.

use super::link::Link;
use std::collections::HashMap;

/// Which connection carries which request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reuse {
    /// Whichever is idle, the latest first, as HTTP clients do.
    #[default]
    Pool,
    /// None is used twice.
    Fresh,
    /// The one that has taken the place of the recorded request's connection.
    Recorded,
}

/// Where a request was on a connection of production.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carrier {
    /// Which connection.
    pub conn: i64,
    /// Whether it was the first exchange on it: it opened the connection.
    pub is_first: bool,
}

/// Idle connections.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    reuse: Reuse,
    /// Those that stand for no recorded one.
    pool: Vec<Link>,
    recorded: HashMap<i64, Place>,
}

/// What has taken the place of a recorded connection. There are several where a target slower than
/// production's has not answered one request when the next is due.
#[derive(Debug, Default)]
struct Place {
    idle: Vec<Link>,
    /// Requests that have not ended on it; after the last it is closed.
    left: usize,
}

impl Shelf {
    pub(super) fn new(reuse: Reuse) -> Self {
        Self {
            reuse,
            ..Self::default()
        }
    }

    /// Says how many requests each recorded connection is to carry.
    pub(super) fn expect(&mut self, requests: HashMap<i64, usize>) {
        for (conn, left) in requests {
            self.recorded.entry(conn).or_default().left = left;
        }
    }

    /// A connection for a request; none where it is to open one.
    pub(super) fn take(&mut self, carrier: Option<Carrier>) -> Option<Link> {
        match (self.reuse, carrier) {
            (Reuse::Fresh, _) => None,
            (Reuse::Recorded, Some(carrier)) if carrier.is_first => None,
            (Reuse::Recorded, Some(carrier)) => {
                let place = self.recorded.get_mut(&carrier.conn)?;
                // It was open before the set began: one that is open here takes its place.
                place.idle.pop().or_else(|| self.pool.pop())
            }
            (Reuse::Pool, _) | (Reuse::Recorded, None) => {
                // All below the latest have been idle for longer still.
                let latest = self.pool.pop().filter(Link::is_fresh);
                if latest.is_none() {
                    self.pool.clear();
                }
                latest
            }
        }
    }

    /// Keeps a connection whose exchange is over, or drops it.
    pub(super) fn put(&mut self, carrier: Option<Carrier>, link: Link) {
        match (self.reuse, carrier) {
            (Reuse::Fresh, _) => {}
            (Reuse::Recorded, Some(carrier)) => {
                if let Some(place) = self.recorded.get_mut(&carrier.conn) {
                    place.idle.push(link);
                }
            }
            (Reuse::Pool, _) | (Reuse::Recorded, None) => self.pool.push(link),
        }
    }

    /// Takes note that a request has ended, however it did.
    pub(super) fn ended(&mut self, carrier: Option<Carrier>) {
        let Some(carrier) = carrier else { return };
        if let Some(place) = self.recorded.get_mut(&carrier.conn) {
            place.left = place.left.saturating_sub(1);
            if place.left == 0 {
                self.recorded.remove(&carrier.conn);
            }
        }
    }
}
