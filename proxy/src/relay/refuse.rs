//! The one answer that is ours.

use crate::forward::{self, ERROR_HEADER};
use crate::limits;
use crate::metrics::Metric;
use crate::relay::exchange::{Ended, Exchange, pass_head};
use crate::relay::flow::Flow;
use crate::relay::lane::Lane;
use crate::tape::Fate;
use crate::track::TrackEnd;
use bytes::Bytes;
use httparse::Header;
use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite};

impl Exchange<'_> {
    /// The one answer that is ours, marked as such: the upstream cannot be reached.
    pub async fn refuse<I>(mut self, client: &mut Lane<I>, why: &'static str) -> Ended
    where
        I: AsyncRead + AsyncWrite + Unpin,
    {
        let shared = &self.connection.shared;
        if let Some((length, _)) = self.ahead.take() {
            // Its body is read, so that the row has it: what could not be served is traffic too.
            drop(pass_head(&mut self.up, &mut client.read, length, None));
            let reading =
                poll_fn(|cx| read_off(&mut self.up, client, shared.config.body_bytes_max, cx));
            if !self.asked.expects {
                drop(tokio::time::timeout(limits::READ_OFF_WITHIN, reading).await);
            }
        }
        let text = format!("truetape: {why} failed\n");
        shared.metrics.count(Metric::UpstreamUnreachable);
        if let Some(tape) = &self.tape {
            let field = |name, value| Header { name, value };
            let fields = [
                field(ERROR_HEADER, why.as_bytes()),
                field("content-type", b"text/plain"),
            ];
            tape.fate(Fate::Unreachable);
            tape.head(forward::head(shared, tape, 502, &fields[..]));
        }
        self.tell(Ended::Whole);
        let whole = self.up.is_over();
        let last = !whole || self.asked.last || shared.drain.is_cancelled();
        let close = if last { "connection: close\r\n" } else { "" };
        let body = if self.asked.to_head { "" } else { &text };
        let length = text.len();
        let answer = format!(
            "HTTP/1.1 502 Bad Gateway\r\n{ERROR_HEADER}: {why}\r\ncontent-type: text/plain\r\n\
             content-length: {length}\r\n{close}\r\n{body}"
        );
        client.put(Bytes::from(answer));
        match poll_fn(|cx| client.poll_write(cx)).await {
            Ok(()) if !last => Ended::Whole,
            Ok(()) => Ended::Last { unread: !whole },
            Err(_) => Ended::Left,
        }
    }
}

/// Reads a body that goes nowhere, as far as it may be remembered.
fn read_off<I>(
    up: &mut Flow,
    client: &mut Lane<I>,
    mut left: usize,
    cx: &mut Context<'_>,
) -> Poll<()>
where
    I: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        if up.is_over() {
            return Poll::Ready(());
        }
        if client.read.is_empty() {
            match ready!(client.poll_read(cx)) {
                Ok(1..) => {}
                Ok(0) | Err(_) => {
                    up.end(TrackEnd::Failed);
                    return Poll::Ready(());
                }
            }
        }
        match left.checked_sub(up.take(&mut client.read, 0).len()) {
            Some(rest) => left = rest,
            None => return Poll::Ready(()),
        }
    }
}
