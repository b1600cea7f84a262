//! Connections whose bytes pass both ways, looked at by nobody, and counted: upgraded ones, and those
//! that do not speak HTTP.

use crate::metrics::Metric;
use crate::route::Destination;
use crate::server::Shared;
use crate::sniff::{self, Spoken};
use crate::tls::Offer;
use bytes::{Bytes, BytesMut};
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// Bytes of a first word.
const WORD_BYTES: usize = 4 * 1024;

/// Joins a client that does not speak HTTP with its upstream. `first`: what it has said.
pub async fn opaque<I>(io: I, first: Bytes, shared: &Shared, destination: &Destination)
where
    I: AsyncRead + AsyncWrite + Unpin,
{
    shared.metrics.count(Metric::Opaque);
    let joined = async {
        let upstream = match destination.connect(Offer::Http1).await {
            Ok(upstream) => upstream,
            Err(cause) => return shared.unreachable(&destination.authority, &cause),
        };
        told(copy(io, upstream, &[], &first).await);
    };
    shared.cut.run_until_cancelled(joined).await;
}

/// Waits for whoever speaks first: a client that says nothing may wait for its server to. Where that
/// is the server, both are joined to the end.
pub async fn silent<I>(
    io: &mut I,
    seen: &mut BytesMut,
    shared: &Shared,
    destination: &Destination,
) -> io::Result<Option<Spoken>>
where
    I: AsyncRead + AsyncWrite + Unpin,
{
    // Nothing is under way: a drain does not wait for a connection that may take minutes.
    let connecting = destination.connect(Offer::Http1);
    let Some(connected) = shared.drain.run_until_cancelled(connecting).await else {
        return Ok(None);
    };
    let Ok(mut upstream) = connected else {
        // Its request, should one come, will be told.
        let reading = sniff::read(io, seen);
        let drained = shared.drain.run_until_cancelled(reading).await;
        return drained.unwrap_or(Ok(None));
    };
    let mut word = BytesMut::with_capacity(WORD_BYTES);
    let said = tokio::select! {
        biased;
        () = shared.drain.cancelled() => return Ok(None),
        spoken = sniff::read(io, seen) => return spoken,
        said = upstream.read_buf(&mut word) => said?,
    };
    if said > 0 {
        shared.metrics.count(Metric::Opaque);
        let joined = copy(io, upstream, &word, seen);
        if let Some(copied) = shared.cut.run_until_cancelled(joined).await {
            told(copied);
        }
    }
    Ok(None)
}

/// Passes on what was read, then what comes, until both sides have ended.
pub async fn copy<I, U>(
    mut client: I,
    mut upstream: U,
    down: &[u8],
    up: &[u8],
) -> io::Result<(u64, u64)>
where
    I: AsyncRead + AsyncWrite + Unpin,
    U: AsyncRead + AsyncWrite + Unpin,
{
    upstream.write_all(up).await?;
    upstream.flush().await?;
    client.write_all(down).await?;
    client.flush().await?;
    tokio::io::copy_bidirectional(&mut client, &mut upstream).await
}

/// Notes how a tunnel ended.
pub fn told(copied: io::Result<(u64, u64)>) {
    let error = copied.err().map(|cause| cause.to_string());
    tracing::debug!(error, "a tunnel ended");
}
