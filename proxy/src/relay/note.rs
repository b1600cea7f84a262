//! What the recorder is told of the heads of an exchange.

use crate::account::Exclusion;
use crate::connection::Connection;
use crate::fields::Fields as _;
use crate::redact::{self, Credentials, HeaderText};
use crate::relay::head::Request;
use crate::tape::{Arrival, Tape};
use http::Method;
use std::sync::Arc;
use truetape_schemas::wire::session::PROBE_HEADER;

/// Counts a request, and starts its tape when it is to be a row.
pub fn arrival(
    connection: &Connection,
    sequence: i32,
    arrival_us: i64,
    request: &Request<'_>,
) -> Option<Arc<Tape>> {
    let recorder = &connection.shared.recorder;
    if request.method != Method::POST.as_str() {
        recorder.skip(Exclusion::NotInference);
        return None;
    }
    let fields = request.head.fields;
    if fields.field(PROBE_HEADER).is_some() {
        recorder.skip(Exclusion::ReplayProbe);
        return None;
    }
    recorder.begin(|inflight| {
        let (path, query) = redact::target_as_sent(request.target);
        Arrival {
            conn_id: connection.id,
            conn_seq: sequence,
            upstream: Arc::clone(&connection.destination.authority),
            arrival_us,
            inflight,
            method: request.method.to_owned(),
            path,
            headers: HeaderText::of(fields, &connection.shared.plans.get().kept_headers),
            content_encoding: redact::coding(fields).1,
            credentials: Credentials::of(fields, query),
        }
    })
}
