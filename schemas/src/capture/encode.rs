//! Columns of rows of a capture, one column after the other.
//!
//! What serde does row by row is a third of what sealing a segment costs.

use super::blob::Blob;
use super::fields::{Columns, Field, Word, all};
use super::{Exchange, Header, Segment, v1};
use crate::file::arrays::byte_array;
use arrow_array::types::{ArrowPrimitiveType, BinaryType, Int64Type, UInt64Type};
use arrow_array::types::{TimestampMicrosecondType, Utf8Type};
use arrow_array::{Array, ArrayRef, BooleanArray, ListArray, PrimitiveArray, RecordBatch};
use arrow_array::{StructArray, new_null_array};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Schema, SchemaRef};
use std::sync::{Arc, OnceLock};

/// Makes columns; none where serde must do it.
pub(super) fn columns(rows: &[Exchange]) -> Option<RecordBatch> {
    static SCHEMA: OnceLock<SchemaRef> = OnceLock::new();
    let schema = SCHEMA.get_or_init(|| crate::column::schema(v1::COLUMNS).into());
    let mut made = Made {
        rows,
        schema,
        columns: Vec::with_capacity(schema.fields().len()),
    };
    all(&mut made)?;
    RecordBatch::try_new(Arc::clone(schema), made.columns).ok()
}

/// Rows, and the columns that are made of them.
struct Made<'a> {
    rows: &'a [Exchange],
    schema: &'a Schema,
    columns: Vec<ArrayRef>,
}

impl Made<'_> {
    fn put(&mut self, column: impl Array + 'static) -> Option<()> {
        self.columns.push(Arc::new(column));
        Some(())
    }

    /// What the schema says of the column that comes next, by its name too.
    fn data_type(&self, name: &str) -> Option<&DataType> {
        let field = self.schema.fields().get(self.columns.len())?;
        (field.name() == name).then(|| field.data_type())
    }

    /// A column of which most captures have no value is made at once. Says whether it was.
    fn is_absent<F>(&mut self, at: &Field<Option<F>>) -> Option<bool> {
        if self.rows.iter().any(|row| (at.get)(row).is_some()) {
            return Some(false);
        }
        let column = new_null_array(self.data_type(at.name)?, self.rows.len());
        self.columns.push(column);
        Some(true)
    }

    /// A list for each row, over the values of all of them.
    fn put_lists(
        &mut self,
        name: &str,
        lengths: impl IntoIterator<Item = usize>,
        values: ArrayRef,
        nulls: Option<NullBuffer>,
    ) -> Option<()> {
        let DataType::List(item) = self.data_type(name)? else {
            return None;
        };
        i32::try_from(values.len()).ok()?;
        let offsets = OffsetBuffer::from_lengths(lengths);
        let lists = ListArray::try_new(Arc::clone(item), offsets, values, nulls).ok()?;
        self.put(lists)
    }

    /// The same, of structs.
    fn put_structs(
        &mut self,
        name: &str,
        lengths: impl IntoIterator<Item = usize>,
        columns: Vec<ArrayRef>,
        nulls: Option<NullBuffer>,
    ) -> Option<()> {
        let DataType::List(item) = self.data_type(name)? else {
            return None;
        };
        let DataType::Struct(fields) = item.data_type() else {
            return None;
        };
        let structs = StructArray::try_new(fields.clone(), columns, None).ok()?;
        self.put_lists(name, lengths, Arc::new(structs), nulls)
    }

    fn lists_of<F>(&self, at: &Field<Option<Vec<F>>>) -> (Vec<usize>, NullBuffer) {
        let lists = || self.rows.iter().map(|row| (at.get)(row));
        let lengths = lists().map(|list| list.as_ref().map_or(0, Vec::len));
        (lengths.collect(), lists().map(Option::is_some).collect())
    }
}

impl Columns for Made<'_> {
    fn text(&mut self, at: Field<Option<String>>) -> Option<()> {
        if self.is_absent(&at)? {
            return Some(());
        }
        let texts = self.rows.iter().map(|row| (at.get)(row).as_deref());
        let column = texts_of(texts)?;
        self.columns.push(column);
        Some(())
    }

    fn required_text(&mut self, at: Field<String>) -> Option<()> {
        let texts = self.rows.iter().map(|row| Some((at.get)(row).as_str()));
        let column = texts_of(texts)?;
        self.columns.push(column);
        Some(())
    }

    fn number<T: ArrowPrimitiveType>(&mut self, at: Field<Option<T::Native>>) -> Option<()> {
        if self.is_absent(&at)? {
            return Some(());
        }
        let numbers: PrimitiveArray<T> = self.rows.iter().map(|row| *(at.get)(row)).collect();
        self.put(numbers)
    }

    fn required_number<T: ArrowPrimitiveType>(&mut self, at: Field<T::Native>) -> Option<()> {
        let numbers = self.rows.iter().map(|row| *(at.get)(row));
        self.put(PrimitiveArray::<T>::from_iter_values(numbers))
    }

    fn instant(&mut self, at: Field<i64>) -> Option<()> {
        let instants = self.rows.iter().map(|row| *(at.get)(row));
        let instants = PrimitiveArray::<TimestampMicrosecondType>::from_iter_values(instants);
        self.put(instants.with_timezone("UTC"))
    }

    fn numbers<T: ArrowPrimitiveType>(&mut self, at: Field<Option<Vec<T::Native>>>) -> Option<()> {
        if self.is_absent(&at)? {
            return Some(());
        }
        let (lengths, nulls) = self.lists_of(&at);
        let numbers = self.rows.iter().filter_map(|row| (at.get)(row).as_ref());
        let numbers = PrimitiveArray::<T>::from_iter_values(numbers.flatten().copied());
        self.put_lists(at.name, lengths, Arc::new(numbers), Some(nulls))
    }

    fn texts(&mut self, at: Field<Option<Vec<String>>>) -> Option<()> {
        if self.is_absent(&at)? {
            return Some(());
        }
        let (lengths, nulls) = self.lists_of(&at);
        let lists = self.rows.iter().filter_map(|row| (at.get)(row).as_ref());
        let texts = texts_of(lists.flatten().map(|text| Some(text.as_str())))?;
        self.put_lists(at.name, lengths, texts, Some(nulls))
    }

    fn flag(&mut self, at: Field<Option<bool>>) -> Option<()> {
        let flags: BooleanArray = self.rows.iter().map(|row| *(at.get)(row)).collect();
        self.put(flags)
    }

    fn bytes(&mut self, at: Field<Option<Vec<u8>>>) -> Option<()> {
        if self.is_absent(&at)? {
            return Some(());
        }
        let bodies = self.rows.iter().map(|row| (at.get)(row).as_deref());
        self.put(byte_array::<BinaryType>(bodies)?)
    }

    fn word<W: Word>(&mut self, at: Field<W>) -> Option<()> {
        let words = self.rows.iter().map(|row| Some((at.get)(row).name()));
        let column = texts_of(words)?;
        self.columns.push(column);
        Some(())
    }

    fn headers(&mut self, at: Field<Vec<Header>>) -> Option<()> {
        let fields = || self.rows.iter().flat_map(|row| (at.get)(row));
        let names = texts_of(fields().map(|field| Some(field.name.as_str())))?;
        let values = texts_of(fields().map(|field| Some(field.value.as_str())))?;
        let lengths = self.rows.iter().map(|row| (at.get)(row).len());
        let lengths: Vec<usize> = lengths.collect();
        self.put_structs(at.name, lengths, vec![names, values], None)
    }

    /// Blobs are rare, and deep.
    fn blobs(&mut self, at: Field<Option<Vec<Blob>>>) -> Option<()> {
        self.is_absent(&at)?.then_some(())
    }

    fn segments(&mut self, at: Field<Option<Vec<Segment>>>) -> Option<()> {
        if self.is_absent(&at)? {
            return Some(());
        }
        let (lengths, nulls) = self.lists_of(&at);
        let segments = || {
            let lists = self.rows.iter().filter_map(|row| (at.get)(row).as_ref());
            lists.flatten()
        };
        let roles = texts_of(segments().map(|segment| Some(segment.role.as_str())))?;
        let bytes = segments().map(|segment| segment.bytes);
        let bytes = PrimitiveArray::<Int64Type>::from_iter_values(bytes);
        let hashes = segments().map(|segment| segment.hash);
        let hashes = PrimitiveArray::<UInt64Type>::from_iter_values(hashes);
        let columns = vec![roles, Arc::new(bytes), Arc::new(hashes)];
        self.put_structs(at.name, lengths, columns, Some(nulls))
    }
}

fn texts_of<'a>(texts: impl Iterator<Item = Option<&'a str>> + Clone) -> Option<ArrayRef> {
    Some(Arc::new(byte_array::<Utf8Type>(texts)?))
}

#[cfg(test)]
mod tests {
    use super::columns;
    use crate::capture::decode::tests::{batch, full};
    use crate::capture::{Exchange, Header, blob::Blob};
    use proptest::prelude::*;

    #[test]
    fn every_field_is_its_own_column() {
        let none = Exchange::default;
        for rows in [
            vec![],
            vec![full(1)],
            vec![none(), none()],
            vec![full(1), none(), full(2)],
        ] {
            assert_eq!(columns(&rows).unwrap(), batch(&rows));
        }
    }

    #[test]
    fn rows_with_blobs_are_left_to_serde() {
        let row = Exchange {
            request_blobs: Some(vec![Blob::default()]),
            ..full(1)
        };
        assert_eq!(columns(&[full(1), row]), None);
    }

    proptest! {
        #[test]
        fn it_makes_what_serde_makes(
            text in proptest::option::of(".{0,8}"),
            numbers in proptest::option::of(proptest::collection::vec(any::<i64>(), 0..4)),
            body in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..9)),
            flag in proptest::option::of(any::<bool>()),
        ) {
            let row = Exchange {
                path: text.clone().unwrap_or_default(),
                model: text.clone(),
                stop: text.clone().map(|text| vec![text, "x".to_owned()]),
                request_headers: text.map(|value| Header { name: "n".to_owned(), value }).into_iter().collect(),
                frame_offsets_us: numbers,
                response_body: body,
                stream: flag,
                ..full(3)
            };
            let rows = [Exchange::default(), row, full(4)];
            prop_assert_eq!(columns(&rows).unwrap(), batch(&rows));
        }
    }
}
