//! Bodies that wait for `100 Continue`.
//!
//! hyper tells a client to continue once somebody asks for the body. So nobody asks before the
//! upstream has told us, and one that refuses by its final answer is never sent the body.

use crate::limits;
use http::HeaderMap;
use http::header::EXPECT;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

/// Holds a body back.
pub struct Gate {
    told: CancellationToken,
    opening: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gate")
            .field("told", &self.told)
            .finish_non_exhaustive()
    }
}

impl Gate {
    /// The gate of a request that is expected to be continued.
    ///
    /// It opens when the upstream says so; when the client has begun to send, which it may do
    /// unasked; and after a while, for an upstream that says nothing.
    pub fn of(headers: &HeaderMap, stream: &Arc<TcpStream>) -> Option<Self> {
        let expected = headers.get(EXPECT)?.as_bytes();
        if !expected.eq_ignore_ascii_case(b"100-continue") {
            return None;
        }
        let told = CancellationToken::new();
        let (heard, stream) = (told.clone(), Arc::clone(stream));
        let opening = Box::pin(async move {
            let mut byte = [0];
            tokio::select! {
                () = heard.cancelled() => {}
                // The end of the connection is for whoever reads the body.
                _ = stream.peek(&mut byte) => {}
                () = tokio::time::sleep(limits::EXPECT_WITHIN) => {}
            }
        });
        Some(Self { told, opening })
    }

    /// Opens it.
    pub fn key(&self) -> CancellationToken {
        self.told.clone()
    }

    /// Waits until it is open.
    pub fn poll_open(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.opening.as_mut().poll(cx)
    }
}
