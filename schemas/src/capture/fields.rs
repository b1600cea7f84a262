//! Which column is which field of a row: one table, for reading columns and for making them.

use super::blob::Blob;
use super::{Exchange, Header, LengthSource, Outcome, ParseStatus, Segment};
use arrow_array::types::{ArrowPrimitiveType, Float64Type, Int32Type, Int64Type, UInt64Type};
use serde::Deserialize;

/// A field of a row, and the column that holds it.
pub(super) struct Field<F> {
    pub(super) name: &'static str,
    pub(super) get: fn(&Exchange) -> &F,
    pub(super) get_mut: fn(&mut Exchange) -> &mut F,
}

macro_rules! at {
    ($field:ident) => {
        Field {
            name: stringify!($field),
            get: |row| &row.$field,
            get_mut: |row| &mut row.$field,
        }
    };
}

/// A word of a fixed list.
pub(super) trait Word: Copy + for<'de> Deserialize<'de> {
    /// The word in the column, which is what serde reads.
    fn name(self) -> &'static str;
}

impl Word for Outcome {
    fn name(self) -> &'static str {
        Outcome::name(self)
    }
}

impl Word for LengthSource {
    fn name(self) -> &'static str {
        match self {
            Self::Usage => "usage",
            Self::Exact => "exact",
            Self::Absent => "absent",
        }
    }
}

impl Word for ParseStatus {
    fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Partial => "partial",
            Self::Failed => "failed",
            Self::NotApplicable => "not_applicable",
        }
    }
}

/// What goes through the columns one after the other. None ends it: serde must do this batch.
pub(super) trait Columns {
    fn text(&mut self, at: Field<Option<String>>) -> Option<()>;
    fn required_text(&mut self, at: Field<String>) -> Option<()>;
    fn number<T: ArrowPrimitiveType>(&mut self, at: Field<Option<T::Native>>) -> Option<()>;
    fn required_number<T: ArrowPrimitiveType>(&mut self, at: Field<T::Native>) -> Option<()>;
    fn instant(&mut self, at: Field<i64>) -> Option<()>;
    fn numbers<T: ArrowPrimitiveType>(&mut self, at: Field<Option<Vec<T::Native>>>) -> Option<()>;
    fn texts(&mut self, at: Field<Option<Vec<String>>>) -> Option<()>;
    fn flag(&mut self, at: Field<Option<bool>>) -> Option<()>;
    fn bytes(&mut self, at: Field<Option<Vec<u8>>>) -> Option<()>;
    fn word<W: Word>(&mut self, at: Field<W>) -> Option<()>;
    fn headers(&mut self, at: Field<Vec<Header>>) -> Option<()>;
    fn blobs(&mut self, at: Field<Option<Vec<Blob>>>) -> Option<()>;
    fn segments(&mut self, at: Field<Option<Vec<Segment>>>) -> Option<()>;
}

/// Goes through all columns, in the order of [`super::v1::COLUMNS`].
pub(super) fn all(to: &mut impl Columns) -> Option<()> {
    identity(to)?;
    times(to)?;
    request(to)?;
    response(to)?;
    lengths(to)?;
    prefix(to)?;
    session(to)
}

fn identity(to: &mut impl Columns) -> Option<()> {
    to.required_text(at!(exchange_id))?;
    to.required_text(at!(proxy_id))?;
    to.number::<Int64Type>(at!(proxy_epoch_us))?;
    to.required_number::<Int64Type>(at!(conn_id))?;
    to.required_number::<Int32Type>(at!(conn_seq))?;
    to.required_text(at!(upstream))
}

fn times(to: &mut impl Columns) -> Option<()> {
    to.instant(at!(arrival))?;
    to.required_number::<Int64Type>(at!(arrival_mono_us))?;
    to.number::<Int32Type>(at!(arrival_rest_ns))?;
    to.number::<Int64Type>(at!(request_end_us))?;
    to.number::<Int64Type>(at!(response_head_us))?;
    to.number::<Int64Type>(at!(first_byte_us))?;
    to.number::<Int64Type>(at!(first_token_us))?;
    to.number::<Int64Type>(at!(first_output_us))?;
    to.number::<Int64Type>(at!(last_token_us))?;
    to.number::<Int64Type>(at!(end_us))?;
    to.number::<Int32Type>(at!(inflight))?;
    to.number::<Int64Type>(at!(client_stall_us))
}

fn request(to: &mut impl Columns) -> Option<()> {
    to.required_text(at!(method))?;
    to.required_text(at!(path))?;
    to.required_text(at!(dialect))?;
    to.text(at!(model))?;
    to.flag(at!(stream))?;
    to.headers(at!(request_headers))?;
    to.bytes(at!(request_body))?;
    to.number::<Int64Type>(at!(request_bytes))?;
    to.text(at!(request_encoding))?;
    to.blobs(at!(request_blobs))?;
    to.number::<Int64Type>(at!(max_tokens))?;
    to.number::<Int64Type>(at!(min_tokens))?;
    to.number::<Float64Type>(at!(temperature))?;
    to.number::<Float64Type>(at!(top_p))?;
    to.number::<Int32Type>(at!(n))?;
    to.texts(at!(stop))?;
    to.flag(at!(ignore_eos))?;
    to.number::<Int64Type>(at!(seed))?;
    to.text(at!(response_format))?;
    to.number::<Int32Type>(at!(tool_count))
}

fn response(to: &mut impl Columns) -> Option<()> {
    to.number::<Int32Type>(at!(status))?;
    to.headers(at!(response_headers))?;
    to.bytes(at!(response_body))?;
    to.number::<Int64Type>(at!(response_bytes))?;
    to.text(at!(response_encoding))?;
    to.texts(at!(finish_reasons))?;
    to.text(at!(error_code))?;
    to.text(at!(error_type))
}

fn lengths(to: &mut impl Columns) -> Option<()> {
    to.number::<Int64Type>(at!(input_tokens))?;
    to.word(at!(input_tokens_source))?;
    to.number::<Int64Type>(at!(output_tokens))?;
    to.word(at!(output_tokens_source))?;
    to.number::<Int64Type>(at!(cached_tokens))?;
    to.word(at!(cached_tokens_source))?;
    to.number::<Int64Type>(at!(reasoning_tokens))?;
    to.word(at!(reasoning_tokens_source))?;
    to.numbers::<Int64Type>(at!(frame_offsets_us))?;
    to.numbers::<Int64Type>(at!(frame_bytes))?;
    to.numbers::<Int64Type>(at!(token_event_offsets_us))?;
    to.numbers::<Int32Type>(at!(token_event_choices))
}

fn prefix(to: &mut impl Columns) -> Option<()> {
    to.number::<Int32Type>(at!(block_tokens))?;
    to.numbers::<UInt64Type>(at!(block_hashes))?;
    to.segments(at!(segments))?;
    to.numbers::<UInt64Type>(at!(segment_hashes))?;
    to.number::<Int32Type>(at!(text_block_bytes))?;
    to.numbers::<UInt64Type>(at!(text_block_hashes))?;
    to.number::<UInt64Type>(at!(answer_hash))
}

fn session(to: &mut impl Columns) -> Option<()> {
    to.text(at!(session_key))?;
    to.text(at!(session_rule))?;
    to.text(at!(parent_session_key))?;
    to.text(at!(previous_response_id))?;
    to.text(at!(response_id))?;
    to.text(at!(trace_id))?;
    to.text(at!(client_key))?;
    to.text(at!(replay_run))?;
    to.word(at!(outcome))?;
    to.word(at!(parse_status))?;
    to.texts(at!(degraded))
}
