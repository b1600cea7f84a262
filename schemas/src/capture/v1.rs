//! The columns of capture/1.

use crate::column::{Column, Kind};

const fn r(name: &'static str, kind: Kind, doc: &'static str) -> Column {
    Column::required(name, kind, doc)
}

const fn o(name: &'static str, kind: Kind, doc: &'static str) -> Column {
    Column::optional(name, kind, doc)
}

/// One row an exchange. Offsets are microseconds since `arrival`. Unknown is NULL, never 0.
pub const COLUMNS: &[Column] = &[
    r(
        "exchange_id",
        Kind::Text,
        "UUIDv7, ours; the key of the row",
    ),
    r(
        "proxy_id",
        Kind::Text,
        "which recorder saw it; `import:<format>` for imported traces",
    ),
    o(
        "proxy_epoch_us",
        Kind::Int64,
        "wall time of the recorder process's epoch, in microseconds since 1970; NULL for imported traces",
    ),
    r(
        "conn_id",
        Kind::Int64,
        "client connection, counted from 0 for each recorder process; -1 when imported",
    ),
    r(
        "conn_seq",
        Kind::Int32,
        "exchange on that connection, from 0",
    ),
    r(
        "upstream",
        Kind::Text,
        "where it was forwarded to, `host:port`",
    ),
    r(
        "arrival",
        Kind::TimestampUs,
        "when the first byte of the request was read",
    ),
    r(
        "arrival_mono_us",
        Kind::Int64,
        "the same on the recorder's monotonic clock, since its epoch; the order of truth within one recorder process",
    ),
    o(
        "arrival_rest_ns",
        Kind::Int32,
        "what `arrival` leaves out, 0 to 999 nanoseconds; NULL where the source's clock is no finer than a microsecond",
    ),
    o(
        "request_end_us",
        Kind::Int64,
        "request fully sent upstream; TTFT and E2EL count from here (D2)",
    ),
    o("response_head_us", Kind::Int64, "response head received"),
    o(
        "first_byte_us",
        Kind::Int64,
        "first byte of the response body",
    ),
    o(
        "first_token_us",
        Kind::Int64,
        "the read that completes the first token event (D1, D2)",
    ),
    o(
        "first_output_us",
        Kind::Int64,
        "the same for the first non-reasoning token event",
    ),
    o("last_token_us", Kind::Int64, "the last token event (D3)"),
    o(
        "end_us",
        Kind::Int64,
        "end of the exchange: last byte, or the abort",
    ),
    o(
        "inflight",
        Kind::Int32,
        "exchanges in flight at arrival, this one not included",
    ),
    o(
        "client_stall_us",
        Kind::Int64,
        "time the response waited for a client that read slowly",
    ),
    r("method", Kind::Text, "HTTP method"),
    r("path", Kind::Text, "path and query, secrets scrubbed"),
    r(
        "dialect",
        Kind::Text,
        "`openai_chat`, `openai_completions`, ...; `unknown` where none fits, `trace` for imported length traces",
    ),
    o("model", Kind::Text, "the model asked for"),
    o("stream", Kind::Bool, "whether a stream was asked for"),
    r(
        "request_headers",
        Kind::Headers,
        "allow-listed request headers, in wire order",
    ),
    o(
        "request_body",
        Kind::Bytes,
        "bytes as sent; where `request_blobs` is not NULL, with a reference in the place of each blob",
    ),
    o(
        "request_bytes",
        Kind::Int64,
        "length of the request body, also where the body was given up",
    ),
    o("request_encoding", Kind::Text, "its content-encoding"),
    o(
        "request_blobs",
        Kind::Blobs,
        "what was taken out of `request_body`, in order; NULL when nothing was",
    ),
    o(
        "max_tokens",
        Kind::Int64,
        "`max_tokens` or `max_completion_tokens`",
    ),
    o("min_tokens", Kind::Int64, "`min_tokens`"),
    o("temperature", Kind::Float64, "`temperature`"),
    o("top_p", Kind::Float64, "`top_p`"),
    o("n", Kind::Int32, "choices asked for"),
    o("stop", Kind::TextList, "stop strings"),
    o("ignore_eos", Kind::Bool, "`ignore_eos`"),
    o("seed", Kind::Int64, "`seed`"),
    o("response_format", Kind::Text, "`response_format.type`"),
    o("tool_count", Kind::Int32, "tools offered"),
    o(
        "status",
        Kind::Int32,
        "HTTP status; NULL when no response came",
    ),
    r(
        "response_headers",
        Kind::Headers,
        "allow-listed response headers, in wire order",
    ),
    o("response_body", Kind::Bytes, "bytes as received"),
    o(
        "response_bytes",
        Kind::Int64,
        "length of the response body, also where the body was given up",
    ),
    o("response_encoding", Kind::Text, "its content-encoding"),
    o(
        "finish_reasons",
        Kind::TextList,
        "per choice; an empty text where a choice never said",
    ),
    o(
        "error_code",
        Kind::Text,
        "code of the error body or in-band error event",
    ),
    o("error_type", Kind::Text, "its type"),
    o(
        "input_tokens",
        Kind::Int64,
        "prompt tokens, cached ones included",
    ),
    r(
        "input_tokens_source",
        Kind::Text,
        "`usage`, `exact` or `absent`",
    ),
    o(
        "output_tokens",
        Kind::Int64,
        "generated tokens, reasoning included, all choices; the last known value where the outcome is not `complete`",
    ),
    r(
        "output_tokens_source",
        Kind::Text,
        "`usage`, `exact` or `absent`",
    ),
    o(
        "cached_tokens",
        Kind::Int64,
        "prompt tokens the server took from its prefix cache",
    ),
    r(
        "cached_tokens_source",
        Kind::Text,
        "`usage`, `exact` or `absent`",
    ),
    o(
        "reasoning_tokens",
        Kind::Int64,
        "the reasoning part of `output_tokens`",
    ),
    r(
        "reasoning_tokens_source",
        Kind::Text,
        "`usage`, `exact` or `absent`",
    ),
    o(
        "frame_offsets_us",
        Kind::Int64List,
        "when each body frame was read",
    ),
    o("frame_bytes", Kind::Int64List, "its length"),
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
        "block_tokens",
        Kind::Int32,
        "tokens in a block of `block_hashes`",
    ),
    o(
        "block_hashes",
        Kind::UInt64List,
        "chained prefix block hashes, from the start of the prompt; the last may cover a partial block",
    ),
    o(
        "segments",
        Kind::Segments,
        "stands in for text under the content policy `digest`: role, length and chain hash of each message",
    ),
    o(
        "segment_hashes",
        Kind::UInt64List,
        "keyed hash of the identity of each of `segments` by itself: equal where two are the same message",
    ),
    o(
        "text_block_bytes",
        Kind::Int32,
        "bytes in a block of `text_block_hashes`",
    ),
    o(
        "text_block_hashes",
        Kind::UInt64List,
        "keyed chain hashes of the text of `segments` by blocks of bytes; the last may be partial",
    ),
    o(
        "answer_hash",
        Kind::UInt64,
        "keyed hash of the identity of the answer, as a client appends it to its history",
    ),
    o(
        "session_key",
        Kind::Text,
        "explicit session, by the rule that fired",
    ),
    o("session_rule", Kind::Text, "which rule fired"),
    o(
        "parent_session_key",
        Kind::Text,
        "session that spawned this one",
    ),
    o(
        "previous_response_id",
        Kind::Text,
        "response that this request continues",
    ),
    o(
        "response_id",
        Kind::Text,
        "the provider's id of the response",
    ),
    o("trace_id", Kind::Text, "W3C trace id"),
    o(
        "client_key",
        Kind::Text,
        "keyed hash of the caller's credentials, comparable within one recorder process; ties retries and sessions together; NULL for a caller without any",
    ),
    o(
        "replay_run",
        Kind::Text,
        "our run marker: this is replayed traffic, not production",
    ),
    r(
        "outcome",
        Kind::Text,
        "`complete`, `error`, `truncated`, `client_aborted`, `timeout`, `proxy_shutdown`",
    ),
    r(
        "parse_status",
        Kind::Text,
        "`ok`, `partial`, `failed`, `not_applicable`",
    ),
    o(
        "degraded",
        Kind::TextList,
        "what was given up: `body`, `timeline`; NULL when nothing",
    ),
];
