//! Rows of a capture from their columns, one column after the other.
//!
//! What serde does row by row, naming each of ninety fields each time, is most of what reading a
//! capture of millions of rows costs. A column without any value is not touched here. A file whose
//! columns are of other types than ours (another tool wrote it) is left to serde, which says what is
//! wrong.

use super::{Exchange, Header, Segment};
use arrow_array::types::{
    ArrowPrimitiveType, Float64Type, Int32Type, Int64Type, TimestampMicrosecondType, UInt64Type,
};
use arrow_array::{Array, BinaryArray, BooleanArray, ListArray, PrimitiveArray, RecordBatch};
use arrow_array::{StringArray, StructArray};
use serde::Deserialize;
use serde::de::IntoDeserializer;

/// Makes rows; none where serde must look.
pub(super) fn rows(batch: &RecordBatch) -> Option<Vec<Exchange>> {
    // Blobs are rare, and deep.
    if batch
        .column_by_name("request_blobs")
        .is_some_and(|blobs| blobs.null_count() < blobs.len())
    {
        return None;
    }
    let mut rows = Vec::new();
    rows.resize_with(batch.num_rows(), Exchange::default);
    let mut columns = Columns {
        batch,
        rows: &mut rows,
    };
    columns.identity()?;
    columns.times()?;
    columns.request()?;
    columns.response()?;
    columns.lengths()?;
    columns.prefix()?;
    columns.session()?;
    Some(rows)
}

/// The columns of a batch, and the rows that they fill.
struct Columns<'a> {
    batch: &'a RecordBatch,
    rows: &'a mut [Exchange],
}

impl Columns<'_> {
    /// Fills a field from the values of a column that are not null.
    fn optional<A: Array + 'static>(
        &mut self,
        name: &str,
        mut set: impl FnMut(&mut Exchange, &A, usize) -> Option<()>,
    ) -> Option<()> {
        let Some(column) = self.batch.column_by_name(name) else {
            return Some(());
        };
        if column.null_count() == column.len() {
            return Some(());
        }
        let column = column.as_any().downcast_ref::<A>()?;
        for (at, row) in self.rows.iter_mut().enumerate() {
            if column.is_valid(at) {
                set(row, column, at)?;
            }
        }
        Some(())
    }

    /// The same for a column that must have a value in each row.
    fn required<A: Array + 'static>(
        &mut self,
        name: &str,
        set: impl FnMut(&mut Exchange, &A, usize) -> Option<()>,
    ) -> Option<()> {
        let column = self.batch.column_by_name(name)?;
        (column.null_count() == 0).then_some(())?;
        self.optional(name, set)
    }

    fn text(&mut self, name: &str, field: fn(&mut Exchange) -> &mut Option<String>) -> Option<()> {
        self.optional(name, |row, texts: &StringArray, at| {
            *field(row) = Some(texts.value(at).to_owned());
            Some(())
        })
    }

    fn required_text(&mut self, name: &str, field: fn(&mut Exchange) -> &mut String) -> Option<()> {
        self.required(name, |row, texts: &StringArray, at| {
            texts.value(at).clone_into(field(row));
            Some(())
        })
    }

    fn number<T: ArrowPrimitiveType>(
        &mut self,
        name: &str,
        field: fn(&mut Exchange) -> &mut Option<T::Native>,
    ) -> Option<()> {
        self.optional(name, |row, numbers: &PrimitiveArray<T>, at| {
            *field(row) = Some(numbers.value(at));
            Some(())
        })
    }

    fn required_number<T: ArrowPrimitiveType>(
        &mut self,
        name: &str,
        field: fn(&mut Exchange) -> &mut T::Native,
    ) -> Option<()> {
        self.required(name, |row, numbers: &PrimitiveArray<T>, at| {
            *field(row) = numbers.value(at);
            Some(())
        })
    }

    fn numbers<T: ArrowPrimitiveType>(
        &mut self,
        name: &str,
        field: fn(&mut Exchange) -> &mut Option<Vec<T::Native>>,
    ) -> Option<()> {
        self.optional(name, |row, lists: &ListArray, at| {
            let list = lists.value(at);
            let numbers = list.as_any().downcast_ref::<PrimitiveArray<T>>()?;
            (numbers.null_count() == 0).then_some(())?;
            *field(row) = Some(numbers.values().to_vec());
            Some(())
        })
    }

    fn texts(
        &mut self,
        name: &str,
        field: fn(&mut Exchange) -> &mut Option<Vec<String>>,
    ) -> Option<()> {
        self.optional(name, |row, lists: &ListArray, at| {
            *field(row) = Some(strings(&lists.value(at))?);
            Some(())
        })
    }

    fn flag(&mut self, name: &str, field: fn(&mut Exchange) -> &mut Option<bool>) -> Option<()> {
        self.optional(name, |row, flags: &BooleanArray, at| {
            *field(row) = Some(flags.value(at));
            Some(())
        })
    }

    fn bytes(
        &mut self,
        name: &str,
        field: fn(&mut Exchange) -> &mut Option<Vec<u8>>,
    ) -> Option<()> {
        self.optional(name, |row, bodies: &BinaryArray, at| {
            *field(row) = Some(bodies.value(at).to_vec());
            Some(())
        })
    }

    /// A word of a fixed list, as serde reads it.
    fn word<W: for<'de> Deserialize<'de>>(
        &mut self,
        name: &str,
        field: fn(&mut Exchange) -> &mut W,
    ) -> Option<()> {
        self.required(name, |row, words: &StringArray, at| {
            let word: serde::de::value::StrDeserializer<'_, serde::de::value::Error> =
                words.value(at).into_deserializer();
            *field(row) = W::deserialize(word).ok()?;
            Some(())
        })
    }

    fn headers(&mut self, name: &str, field: fn(&mut Exchange) -> &mut Vec<Header>) -> Option<()> {
        self.required(name, |row, lists: &ListArray, at| {
            if lists.value_length(at) == 0 {
                return Some(());
            }
            let list = lists.value(at);
            let fields = list.as_any().downcast_ref::<StructArray>()?;
            let names = strings(fields.column_by_name("name")?)?;
            let values = strings(fields.column_by_name("value")?)?;
            let both = names.into_iter().zip(values);
            *field(row) = both.map(|(name, value)| Header { name, value }).collect();
            Some(())
        })
    }

    fn identity(&mut self) -> Option<()> {
        self.required_text("exchange_id", |row| &mut row.exchange_id)?;
        self.required_text("proxy_id", |row| &mut row.proxy_id)?;
        self.number::<Int64Type>("proxy_epoch_us", |row| &mut row.proxy_epoch_us)?;
        self.required_number::<Int64Type>("conn_id", |row| &mut row.conn_id)?;
        self.required_number::<Int32Type>("conn_seq", |row| &mut row.conn_seq)?;
        self.required_text("upstream", |row| &mut row.upstream)
    }

    fn times(&mut self) -> Option<()> {
        self.required_number::<TimestampMicrosecondType>("arrival", |row| &mut row.arrival)?;
        self.required_number::<Int64Type>("arrival_mono_us", |row| &mut row.arrival_mono_us)?;
        self.number::<Int64Type>("request_end_us", |row| &mut row.request_end_us)?;
        self.number::<Int64Type>("response_head_us", |row| &mut row.response_head_us)?;
        self.number::<Int64Type>("first_byte_us", |row| &mut row.first_byte_us)?;
        self.number::<Int64Type>("first_token_us", |row| &mut row.first_token_us)?;
        self.number::<Int64Type>("first_output_us", |row| &mut row.first_output_us)?;
        self.number::<Int64Type>("last_token_us", |row| &mut row.last_token_us)?;
        self.number::<Int64Type>("end_us", |row| &mut row.end_us)?;
        self.number::<Int32Type>("inflight", |row| &mut row.inflight)?;
        self.number::<Int64Type>("client_stall_us", |row| &mut row.client_stall_us)
    }

    fn request(&mut self) -> Option<()> {
        self.required_text("method", |row| &mut row.method)?;
        self.required_text("path", |row| &mut row.path)?;
        self.required_text("dialect", |row| &mut row.dialect)?;
        self.text("model", |row| &mut row.model)?;
        self.flag("stream", |row| &mut row.stream)?;
        self.headers("request_headers", |row| &mut row.request_headers)?;
        self.bytes("request_body", |row| &mut row.request_body)?;
        self.number::<Int64Type>("request_bytes", |row| &mut row.request_bytes)?;
        self.text("request_encoding", |row| &mut row.request_encoding)?;
        self.number::<Int64Type>("max_tokens", |row| &mut row.max_tokens)?;
        self.number::<Int64Type>("min_tokens", |row| &mut row.min_tokens)?;
        self.number::<Float64Type>("temperature", |row| &mut row.temperature)?;
        self.number::<Float64Type>("top_p", |row| &mut row.top_p)?;
        self.number::<Int32Type>("n", |row| &mut row.n)?;
        self.texts("stop", |row| &mut row.stop)?;
        self.flag("ignore_eos", |row| &mut row.ignore_eos)?;
        self.number::<Int64Type>("seed", |row| &mut row.seed)?;
        self.text("response_format", |row| &mut row.response_format)?;
        self.number::<Int32Type>("tool_count", |row| &mut row.tool_count)
    }

    fn response(&mut self) -> Option<()> {
        self.number::<Int32Type>("status", |row| &mut row.status)?;
        self.headers("response_headers", |row| &mut row.response_headers)?;
        self.bytes("response_body", |row| &mut row.response_body)?;
        self.number::<Int64Type>("response_bytes", |row| &mut row.response_bytes)?;
        self.text("response_encoding", |row| &mut row.response_encoding)?;
        self.texts("finish_reasons", |row| &mut row.finish_reasons)?;
        self.text("error_code", |row| &mut row.error_code)?;
        self.text("error_type", |row| &mut row.error_type)
    }

    fn lengths(&mut self) -> Option<()> {
        self.number::<Int64Type>("input_tokens", |row| &mut row.input_tokens)?;
        self.word("input_tokens_source", |row| &mut row.input_tokens_source)?;
        self.number::<Int64Type>("output_tokens", |row| &mut row.output_tokens)?;
        self.word("output_tokens_source", |row| &mut row.output_tokens_source)?;
        self.number::<Int64Type>("cached_tokens", |row| &mut row.cached_tokens)?;
        self.word("cached_tokens_source", |row| &mut row.cached_tokens_source)?;
        self.number::<Int64Type>("reasoning_tokens", |row| &mut row.reasoning_tokens)?;
        self.word("reasoning_tokens_source", |row| {
            &mut row.reasoning_tokens_source
        })?;
        self.numbers::<Int64Type>("frame_offsets_us", |row| &mut row.frame_offsets_us)?;
        self.numbers::<Int64Type>("frame_bytes", |row| &mut row.frame_bytes)?;
        self.numbers::<Int64Type>("token_event_offsets_us", |row| {
            &mut row.token_event_offsets_us
        })?;
        self.numbers::<Int32Type>("token_event_choices", |row| &mut row.token_event_choices)
    }

    fn prefix(&mut self) -> Option<()> {
        self.number::<Int32Type>("block_tokens", |row| &mut row.block_tokens)?;
        self.numbers::<UInt64Type>("block_hashes", |row| &mut row.block_hashes)?;
        self.segments()?;
        self.numbers::<UInt64Type>("segment_hashes", |row| &mut row.segment_hashes)?;
        self.number::<Int32Type>("text_block_bytes", |row| &mut row.text_block_bytes)?;
        self.numbers::<UInt64Type>("text_block_hashes", |row| &mut row.text_block_hashes)?;
        self.number::<UInt64Type>("answer_hash", |row| &mut row.answer_hash)
    }

    fn segments(&mut self) -> Option<()> {
        self.optional("segments", |row, lists: &ListArray, at| {
            let list = lists.value(at);
            let fields = list.as_any().downcast_ref::<StructArray>()?;
            let column = |name| fields.column_by_name(name);
            let roles = strings(column("role")?)?;
            let bytes = column("bytes")?.as_any();
            let bytes = bytes.downcast_ref::<PrimitiveArray<Int64Type>>()?;
            let hashes = column("hash")?.as_any();
            let hashes = hashes.downcast_ref::<PrimitiveArray<UInt64Type>>()?;
            let numbers = bytes.values().iter().zip(hashes.values());
            let segments = roles.into_iter().zip(numbers);
            row.segments = Some(
                segments
                    .map(|(role, (bytes, hash))| Segment {
                        role,
                        bytes: *bytes,
                        hash: *hash,
                    })
                    .collect(),
            );
            Some(())
        })
    }

    fn session(&mut self) -> Option<()> {
        self.text("session_key", |row| &mut row.session_key)?;
        self.text("session_rule", |row| &mut row.session_rule)?;
        self.text("parent_session_key", |row| &mut row.parent_session_key)?;
        self.text("previous_response_id", |row| &mut row.previous_response_id)?;
        self.text("response_id", |row| &mut row.response_id)?;
        self.text("trace_id", |row| &mut row.trace_id)?;
        self.text("client_key", |row| &mut row.client_key)?;
        self.text("replay_run", |row| &mut row.replay_run)?;
        self.word("outcome", |row| &mut row.outcome)?;
        self.word("parse_status", |row| &mut row.parse_status)?;
        self.texts("degraded", |row| &mut row.degraded)
    }
}

/// The values of a column of texts that has one everywhere.
fn strings(column: &dyn Array) -> Option<Vec<String>> {
    let texts = column.as_any().downcast_ref::<StringArray>()?;
    (texts.null_count() == 0).then_some(())?;
    Some(texts.iter().flatten().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests;
