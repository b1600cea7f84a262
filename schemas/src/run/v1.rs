//! The columns of run/1.

use crate::column::{Column, Kind};

const fn r(name: &'static str, kind: Kind, doc: &'static str) -> Column {
    Column::required(name, kind, doc)
}

const fn o(name: &'static str, kind: Kind, doc: &'static str) -> Column {
    Column::optional(name, kind, doc)
}

/// `turns.parquet`: one row a dispatch, in the order in which they ended; what was not sent
/// comes last. Rows are written while a run goes on.
///
/// `due_us`, `ready_us` and `sent_us` count from schedule zero, the other offsets from the moment the
/// request was fully sent (D2), which is `request_end_us` after `sent_us`.
pub const COLUMNS: &[Column] = &[
    r("turn_id", Kind::Int64, "the set's turn"),
    r("session", Kind::Text, "its session"),
    r("turn", Kind::Int32, "depth in its session"),
    r("due_us", Kind::Int64, "when the plan wanted it sent"),
    o(
        "ready_us",
        Kind::Int64,
        "`max(due, end of dependency + think time)`: the earliest it may be sent (R3)",
    ),
    o(
        "sent_us",
        Kind::Int64,
        "when it was released: its exchange started; NULL when it was not sent",
    ),
    o(
        "lateness_us",
        Kind::Int64,
        "ours: `sent - ready`; never negative (R2)",
    ),
    o(
        "session_delay_us",
        Kind::Int64,
        "the session's: `ready - due`",
    ),
    o("not_sent_reason", Kind::Text, "why it was not sent"),
    o(
        "connect_us",
        Kind::Int64,
        "handed to a connection, since `sent_us`: connecting, where none was open; NULL when there was none",
    ),
    o(
        "request_end_us",
        Kind::Int64,
        "last byte of the request was written, since `sent_us`; the offsets below count from there",
    ),
    o(
        "first_byte_us",
        Kind::Int64,
        "first byte of the response body",
    ),
    o("first_token_us", Kind::Int64, "TTFT (D2)"),
    o(
        "first_output_us",
        Kind::Int64,
        "time to the first non-reasoning token event",
    ),
    o("last_token_us", Kind::Int64, "E2EL (D3)"),
    o("end_us", Kind::Int64, "end of the body"),
    o(
        "token_event_offsets_us",
        Kind::Int64List,
        "when each token event was complete (D1)",
    ),
    o(
        "token_event_choices",
        Kind::Int32List,
        "its choice; NULL when all are choice 0",
    ),
    o(
        "input_tokens_asked",
        Kind::Int64,
        "prompt tokens of the set",
    ),
    o(
        "input_tokens",
        Kind::Int64,
        "prompt tokens the server reported",
    ),
    o(
        "output_tokens_asked",
        Kind::Int64,
        "output tokens of the set",
    ),
    o(
        "output_tokens",
        Kind::Int64,
        "output tokens the server reported (D5)",
    ),
    o(
        "cached_tokens",
        Kind::Int64,
        "cached tokens the server reported",
    ),
    o(
        "reasoning_tokens",
        Kind::Int64,
        "reasoning tokens the server reported",
    ),
    r(
        "enforcement",
        Kind::Text,
        "how the output length was controlled: `enforce`, `cap`, `as_recorded`, `none`",
    ),
    o(
        "length_miss",
        Kind::Text,
        "why a controlled length was not met: `eos`, `limit`, `refused_parameter`, `cancel`, `failure`, `unknown`; NULL when it was, or was not controlled",
    ),
    o("status", Kind::Int32, "HTTP status"),
    o(
        "outcome",
        Kind::Text,
        "as in capture/1; NULL when it was not sent",
    ),
    o(
        "error_code",
        Kind::Text,
        "code of the error body or in-band error event",
    ),
    o("finish_reasons", Kind::TextList, "per choice"),
    o("request_bytes", Kind::Int64, "length of the request body"),
    o("response_bytes", Kind::Int64, "length of the response body"),
    o(
        "conn_reused",
        Kind::Bool,
        "whether the connection had carried an exchange before",
    ),
];

/// `metrics.parquet`: one row a sample of the target's own metrics, in the order of reading.
pub const METRIC_COLUMNS: &[Column] = &[
    r(
        "scrape",
        Kind::Int64,
        "which reading it is of, from 0; all samples of a reading have one",
    ),
    r("at", Kind::TimestampUs, "when the reading was asked for"),
    r("phase", Kind::Text, "`before`, `during`, `after` the run"),
    r(
        "name",
        Kind::Text,
        "as the target names it, as in `vllm:num_requests_running`",
    ),
    r(
        "labels",
        Kind::Text,
        "as the target wrote them, without the braces; empty without any",
    ),
    r(
        "kind",
        Kind::Text,
        "`counter`, `gauge`, `histogram`, `summary`, `unknown`",
    ),
    r("value", Kind::Float64, "the value"),
];
