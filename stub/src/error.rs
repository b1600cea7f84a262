//! What can go wrong with a stub as a process.

use std::net::SocketAddr;
use truetape_schemas::blame::{Blame, Blamed};

/// Why a stub did not start, or ended otherwise than well.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message is its documentation")]
pub enum Error {
    #[error("{subject}: {problem}")]
    Config {
        subject: &'static str,
        problem: String,
    },
    #[error("{address}: cannot listen: {cause}; choose another --listen")]
    Listen {
        address: SocketAddr,
        cause: std::io::Error,
    },
    #[error("runtime: {cause}")]
    Runtime { cause: std::io::Error },
    #[error("drain: {connections} connections were cut by the deadline; raise --drain-timeout")]
    DrainCut { connections: u64 },
}

impl Blamed for Error {
    fn blame(&self) -> Blame {
        match self {
            Self::Config { .. } => Blame::Config,
            Self::Listen { .. } | Self::Runtime { .. } => Blame::Host,
            Self::DrainCut { .. } => Blame::Drain,
        }
    }
}
