//! The columns of set/1.

use crate::column::{Column, Kind};

const fn r(name: &'static str, kind: Kind, doc: &'static str) -> Column {
    Column::required(name, kind, doc)
}

const fn o(name: &'static str, kind: Kind, doc: &'static str) -> Column {
    Column::optional(name, kind, doc)
}

/// `turns.parquet`: one row a turn, ordered by `start_us`, then as captured.
pub const TURN_COLUMNS: &[Column] = &[
    r(
        "turn_id",
        Kind::Int64,
        "row of the turn in this file, from 0",
    ),
    r("session", Kind::Text, "its session"),
    r(
        "turn",
        Kind::Int32,
        "depth in the session's tree, from 1; a retry has the depth of what it repeats, a sub-agent begins at 1",
    ),
    o(
        "parent",
        Kind::Int64,
        "`turn_id` of the turn whose history this one continues",
    ),
    r(
        "depends_on",
        Kind::Int64List,
        "`turn_id`s that must have ended before it is sent",
    ),
    r(
        "start_us",
        Kind::Int64,
        "arrival, since the start of the set",
    ),
    o(
        "gap_us",
        Kind::Int64,
        "think time: arrival minus the end of the latest dependency; NULL without one, or when that end is unknown",
    ),
    r("kind", Kind::Text, "`turn`, `retry`, `probe`, `utility`"),
    o("retry_of", Kind::Int64, "`turn_id` that this one repeats"),
    r("method", Kind::Text, "HTTP method"),
    r("path", Kind::Text, "path to send to"),
    r(
        "dialect",
        Kind::Text,
        "`openai_chat`, `openai_completions`, ...",
    ),
    o("model", Kind::Text, "the model production asked for"),
    o("stream", Kind::Bool, "whether a stream was asked for"),
    o(
        "input_tokens",
        Kind::Int64,
        "prompt tokens, history included (cumulative)",
    ),
    o(
        "output_tokens",
        Kind::Int64,
        "generated tokens; NULL where none was observed whole",
    ),
    o(
        "cached_tokens",
        Kind::Int64,
        "prompt tokens production took from its cache",
    ),
    o(
        "reasoning_tokens",
        Kind::Int64,
        "the reasoning part of `output_tokens`",
    ),
    o("max_tokens", Kind::Int64, "as production asked"),
    o("min_tokens", Kind::Int64, "as production asked"),
    o("temperature", Kind::Float64, "as production asked"),
    o("top_p", Kind::Float64, "as production asked"),
    o("n", Kind::Int32, "as production asked"),
    o("stop", Kind::TextList, "as production asked"),
    o("ignore_eos", Kind::Bool, "as production asked"),
    o("seed", Kind::Int64, "as production asked"),
    o("response_format", Kind::Text, "as production asked"),
    o("tool_count", Kind::Int32, "tools offered"),
    o(
        "block_tokens",
        Kind::Int32,
        "tokens in a block of `block_hashes`",
    ),
    o(
        "block_hashes",
        Kind::UInt64List,
        "chained prefix block hashes of the prompt",
    ),
    o(
        "template",
        Kind::Text,
        "content part that holds the rest of the request body",
    ),
    r(
        "content",
        Kind::TextList,
        "content parts of the prompt, in order; empty for length-only turns",
    ),
    r("recorded_outcome", Kind::Text, "how it ended in production"),
    o("recorded_status", Kind::Int32, "HTTP status in production"),
    o(
        "recorded_ttft_us",
        Kind::Int64,
        "time to first token in production",
    ),
    o(
        "recorded_e2el_us",
        Kind::Int64,
        "end-to-end latency in production",
    ),
    o(
        "recorded_end_us",
        Kind::Int64,
        "end of the exchange, since its arrival",
    ),
    o(
        "recorded_inflight",
        Kind::Int32,
        "exchanges in flight at arrival",
    ),
    o(
        "recorded_finish_reasons",
        Kind::TextList,
        "finish reasons in production",
    ),
    o(
        "recorded_token_events",
        Kind::Int32,
        "token events that had come when production's client went away; NULL when it stayed, or nobody counted",
    ),
    o(
        "recorded_conn",
        Kind::Int64,
        "the client connection it came over, numbered from 0 in the order of the set; NULL where that is unknown",
    ),
    o(
        "recorded_conn_seq",
        Kind::Int32,
        "exchanges that this connection had carried before, those outside the set included",
    ),
    r("exchange_id", Kind::Text, "the exchange it comes from"),
    r("proxy_id", Kind::Text, "the recorder that saw it"),
    r("upstream", Kind::Text, "the replica that served it"),
    r(
        "session_rule",
        Kind::Text,
        "which rule put it in its session",
    ),
    o("link_evidence", Kind::Text, "what ties it to its parent"),
    o(
        "link_confidence",
        Kind::Float64,
        "how sure that tie is, 0 to 1",
    ),
    o(
        "spawned_by",
        Kind::Int64,
        "`turn_id` of the turn that started this conversation inside its session: a sub-agent",
    ),
];

/// `content.parquet`: content-addressed parts, ordered by `content_id`.
pub const CONTENT_COLUMNS: &[Column] = &[
    r(
        "content_id",
        Kind::Text,
        "first 32 hexadecimal digits of the BLAKE3 of `body`",
    ),
    r("kind", Kind::Text, "`message`, `text`, `template`"),
    o(
        "tokens",
        Kind::Int64,
        "its length under the set's tokenizer",
    ),
    r("body", Kind::Bytes, "the part"),
];
