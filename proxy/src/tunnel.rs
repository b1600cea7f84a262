//! Upgraded connections: bytes pass both ways, nobody looks at them, they are counted.

use crate::answer::Answer;
use crate::forward::ResponseBody;
use crate::headers;
use crate::io::Busy;
use crate::link::Link;
use crate::metrics::Metric;
use crate::server::Shared;
use crate::tap::Tap;
use http::Response;
use hyper::body::Incoming;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use std::sync::Arc;

/// Answers an upgrade that the upstream accepted, and joins both sides.
pub async fn open(
    shared: &Arc<Shared>,
    mut response: Response<Incoming>,
    link: Link,
    client_side: OnUpgrade,
    busy: Busy,
) -> Response<ResponseBody> {
    shared.metrics.count(Metric::Tunnels);
    let upstream_side = hyper::upgrade::on(&mut response);
    link.finish().await;
    let task = join(client_side, upstream_side);
    let cut = shared.cut.clone();
    drop(
        shared
            .tasks
            .spawn(async move { cut.run_until_cancelled(task).await }),
    );
    let (mut parts, _) = response.into_parts();
    headers::strip(&mut parts.headers, true);
    Response::from_parts(parts, Tap::new(Answer::own("", busy), None))
}

async fn join(client_side: OnUpgrade, upstream_side: OnUpgrade) {
    let (client, upstream): (Upgraded, Upgraded) =
        match tokio::try_join!(client_side, upstream_side) {
            Ok(both) => both,
            Err(cause) => {
                tracing::debug!(%cause, "an upgrade was not completed");
                return;
            }
        };
    let (mut client, mut upstream) = (TokioIo::new(client), TokioIo::new(upstream));
    let copied = tokio::io::copy_bidirectional(&mut client, &mut upstream).await;
    tracing::debug!(
        error = copied.err().map(|e| e.to_string()),
        "a tunnel ended"
    );
}
