//! Rows of a capture from their columns, one column after the other.
//!
//! What serde does row by row, naming each of ninety fields each time, is most of what reading a
//! capture of millions of rows costs. A column without any value is not touched here. A file whose
//! columns are of other types than ours (another tool wrote it) is left to serde, which says what is
//! wrong.

use super::blob::Blob;
use super::fields::{Columns, Field, Word, all};
use super::{Exchange, Header, Segment};
use arrow_array::types::{ArrowPrimitiveType, Int64Type, TimestampMicrosecondType, UInt64Type};
use arrow_array::{Array, BinaryArray, BooleanArray, ListArray, PrimitiveArray, RecordBatch};
use arrow_array::{StringArray, StructArray};
use serde::de::IntoDeserializer;

/// Makes rows; none where serde must look.
pub(super) fn rows(batch: &RecordBatch) -> Option<Vec<Exchange>> {
    let mut rows = Vec::new();
    rows.resize_with(batch.num_rows(), Exchange::default);
    all(&mut Read {
        batch,
        rows: &mut rows,
    })?;
    Some(rows)
}

/// The columns of a batch, and the rows that they fill.
struct Read<'a> {
    batch: &'a RecordBatch,
    rows: &'a mut [Exchange],
}

impl Read<'_> {
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
}

impl Columns for Read<'_> {
    fn text(&mut self, at: Field<Option<String>>) -> Option<()> {
        self.optional(at.name, |row, texts: &StringArray, n| {
            *(at.get_mut)(row) = Some(texts.value(n).to_owned());
            Some(())
        })
    }

    fn required_text(&mut self, at: Field<String>) -> Option<()> {
        self.required(at.name, |row, texts: &StringArray, n| {
            texts.value(n).clone_into((at.get_mut)(row));
            Some(())
        })
    }

    fn number<T: ArrowPrimitiveType>(&mut self, at: Field<Option<T::Native>>) -> Option<()> {
        self.optional(at.name, |row, numbers: &PrimitiveArray<T>, n| {
            *(at.get_mut)(row) = Some(numbers.value(n));
            Some(())
        })
    }

    fn required_number<T: ArrowPrimitiveType>(&mut self, at: Field<T::Native>) -> Option<()> {
        self.required(at.name, |row, numbers: &PrimitiveArray<T>, n| {
            *(at.get_mut)(row) = numbers.value(n);
            Some(())
        })
    }

    fn instant(&mut self, at: Field<i64>) -> Option<()> {
        self.required_number::<TimestampMicrosecondType>(at)
    }

    fn numbers<T: ArrowPrimitiveType>(&mut self, at: Field<Option<Vec<T::Native>>>) -> Option<()> {
        self.optional(at.name, |row, lists: &ListArray, n| {
            let list = lists.value(n);
            let numbers = list.as_any().downcast_ref::<PrimitiveArray<T>>()?;
            (numbers.null_count() == 0).then_some(())?;
            *(at.get_mut)(row) = Some(numbers.values().to_vec());
            Some(())
        })
    }

    fn texts(&mut self, at: Field<Option<Vec<String>>>) -> Option<()> {
        self.optional(at.name, |row, lists: &ListArray, n| {
            *(at.get_mut)(row) = Some(strings(&lists.value(n))?);
            Some(())
        })
    }

    fn flag(&mut self, at: Field<Option<bool>>) -> Option<()> {
        self.optional(at.name, |row, flags: &BooleanArray, n| {
            *(at.get_mut)(row) = Some(flags.value(n));
            Some(())
        })
    }

    fn bytes(&mut self, at: Field<Option<Vec<u8>>>) -> Option<()> {
        self.optional(at.name, |row, bodies: &BinaryArray, n| {
            *(at.get_mut)(row) = Some(bodies.value(n).to_vec());
            Some(())
        })
    }

    /// As serde reads it.
    fn word<W: Word>(&mut self, at: Field<W>) -> Option<()> {
        self.required(at.name, |row, words: &StringArray, n| {
            let word: serde::de::value::StrDeserializer<'_, serde::de::value::Error> =
                words.value(n).into_deserializer();
            *(at.get_mut)(row) = W::deserialize(word).ok()?;
            Some(())
        })
    }

    fn headers(&mut self, at: Field<Vec<Header>>) -> Option<()> {
        self.required(at.name, |row, lists: &ListArray, n| {
            if lists.value_length(n) == 0 {
                return Some(());
            }
            let list = lists.value(n);
            let fields = list.as_any().downcast_ref::<StructArray>()?;
            let names = strings(fields.column_by_name("name")?)?;
            let values = strings(fields.column_by_name("value")?)?;
            let both = names.into_iter().zip(values);
            *(at.get_mut)(row) = both.map(|(name, value)| Header { name, value }).collect();
            Some(())
        })
    }

    /// Blobs are rare, and deep.
    fn blobs(&mut self, at: Field<Option<Vec<Blob>>>) -> Option<()> {
        let blobs = self.batch.column_by_name(at.name);
        blobs
            .is_none_or(|blobs| blobs.null_count() == blobs.len())
            .then_some(())
    }

    fn segments(&mut self, at: Field<Option<Vec<Segment>>>) -> Option<()> {
        self.optional(at.name, |row, lists: &ListArray, n| {
            let list = lists.value(n);
            let fields = list.as_any().downcast_ref::<StructArray>()?;
            let column = |name| fields.column_by_name(name);
            let roles = strings(column("role")?)?;
            let bytes = column("bytes")?.as_any();
            let bytes = bytes.downcast_ref::<PrimitiveArray<Int64Type>>()?;
            let hashes = column("hash")?.as_any();
            let hashes = hashes.downcast_ref::<PrimitiveArray<UInt64Type>>()?;
            let numbers = bytes.values().iter().zip(hashes.values());
            let segments = roles.into_iter().zip(numbers);
            let segments = segments.map(|(role, (bytes, hash))| Segment {
                role,
                bytes: *bytes,
                hash: *hash,
            });
            *(at.get_mut)(row) = Some(segments.collect());
            Some(())
        })
    }
}

/// The values of a column of texts that has one everywhere.
fn strings(column: &dyn Array) -> Option<Vec<String>> {
    let texts = column.as_any().downcast_ref::<StringArray>()?;
    (texts.null_count() == 0).then_some(())?;
    Some(texts.iter().flatten().map(str::to_owned).collect())
}

#[cfg(test)]
pub(super) mod tests;
