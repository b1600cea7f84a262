//! A row as bytes, for digests: the same for the same values, and quick to make.
//!
//! Every value begins with a byte that says what it is, texts and bytes with their length, and
//! lists and structs end with a byte that no value begins with, so no two rows are the same bytes.
//! A field without a value is not there: a column that is added later changes the digest of no row
//! that has none of it.

use serde::ser::{self, Serialize};
use std::fmt;

/// What a value begins with.
mod tag {
    pub(super) const END: u8 = 0;
    pub(super) const NONE: u8 = 1;
    pub(super) const FALSE: u8 = 2;
    pub(super) const TRUE: u8 = 3;
    pub(super) const SIGNED: u8 = 4;
    pub(super) const UNSIGNED: u8 = 5;
    pub(super) const FLOAT: u8 = 6;
    pub(super) const TEXT: u8 = 7;
    pub(super) const BYTES: u8 = 8;
    pub(super) const LIST: u8 = 9;
    pub(super) const STRUCT: u8 = 10;
}

/// Writes a value behind what is there.
pub(super) fn write<T: Serialize>(value: &T, out: &mut Vec<u8>) -> Result<(), Unsupported> {
    value.serialize(&mut Canonical(out))
}

/// A value that no row has.
#[derive(Debug)]
pub(super) struct Unsupported(String);

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unsupported {}

impl ser::Error for Unsupported {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

fn unsupported<T>(what: &str) -> Result<T, Unsupported> {
    Err(Unsupported(format!("no row holds {what}")))
}

struct Canonical<'a>(&'a mut Vec<u8>);

impl Canonical<'_> {
    fn tagged(&mut self, tag: u8, bytes: &[u8]) {
        self.0.push(tag);
        self.0.extend_from_slice(bytes);
    }

    fn framed(&mut self, tag: u8, bytes: &[u8]) {
        self.tagged(tag, &(bytes.len() as u64).to_le_bytes());
        self.0.extend_from_slice(bytes);
    }
}

impl<'a> ser::Serializer for &mut Canonical<'a> {
    type Ok = ();
    type Error = Unsupported;
    type SerializeSeq = Self;
    type SerializeTuple = Self;
    type SerializeTupleStruct = ser::Impossible<(), Unsupported>;
    type SerializeTupleVariant = ser::Impossible<(), Unsupported>;
    type SerializeMap = ser::Impossible<(), Unsupported>;
    type SerializeStruct = Self;
    type SerializeStructVariant = ser::Impossible<(), Unsupported>;

    fn serialize_bool(self, v: bool) -> Result<(), Unsupported> {
        self.tagged(if v { tag::TRUE } else { tag::FALSE }, &[]);
        Ok(())
    }

    fn serialize_i8(self, v: i8) -> Result<(), Unsupported> {
        self.serialize_i64(v.into())
    }

    fn serialize_i16(self, v: i16) -> Result<(), Unsupported> {
        self.serialize_i64(v.into())
    }

    fn serialize_i32(self, v: i32) -> Result<(), Unsupported> {
        self.serialize_i64(v.into())
    }

    fn serialize_i64(self, v: i64) -> Result<(), Unsupported> {
        self.tagged(tag::SIGNED, &v.to_le_bytes());
        Ok(())
    }

    fn serialize_u8(self, v: u8) -> Result<(), Unsupported> {
        self.serialize_u64(v.into())
    }

    fn serialize_u16(self, v: u16) -> Result<(), Unsupported> {
        self.serialize_u64(v.into())
    }

    fn serialize_u32(self, v: u32) -> Result<(), Unsupported> {
        self.serialize_u64(v.into())
    }

    fn serialize_u64(self, v: u64) -> Result<(), Unsupported> {
        self.tagged(tag::UNSIGNED, &v.to_le_bytes());
        Ok(())
    }

    fn serialize_f32(self, v: f32) -> Result<(), Unsupported> {
        self.serialize_f64(v.into())
    }

    fn serialize_f64(self, v: f64) -> Result<(), Unsupported> {
        self.tagged(tag::FLOAT, &v.to_bits().to_le_bytes());
        Ok(())
    }

    fn serialize_char(self, v: char) -> Result<(), Unsupported> {
        self.serialize_str(v.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, v: &str) -> Result<(), Unsupported> {
        self.framed(tag::TEXT, v.as_bytes());
        Ok(())
    }

    fn serialize_bytes(self, v: &[u8]) -> Result<(), Unsupported> {
        self.framed(tag::BYTES, v);
        Ok(())
    }

    fn serialize_none(self) -> Result<(), Unsupported> {
        self.tagged(tag::NONE, &[]);
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Unsupported> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Unsupported> {
        self.serialize_none()
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<(), Unsupported> {
        self.serialize_none()
    }

    fn serialize_unit_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
    ) -> Result<(), Unsupported> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        value: &T,
    ) -> Result<(), Unsupported> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        _variant: &'static str,
        _value: &T,
    ) -> Result<(), Unsupported> {
        unsupported("a variant with a value")
    }

    fn serialize_seq(self, _len: Option<usize>) -> Result<Self, Unsupported> {
        self.tagged(tag::LIST, &[]);
        Ok(self)
    }

    fn serialize_tuple(self, _len: usize) -> Result<Self, Unsupported> {
        self.serialize_seq(None)
    }

    fn serialize_tuple_struct(
        self,
        _name: &'static str,
        _len: usize,
    ) -> Result<Self::SerializeTupleStruct, Unsupported> {
        unsupported("a struct of a tuple")
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        _variant: &'static str,
        _len: usize,
    ) -> Result<Self::SerializeTupleVariant, Unsupported> {
        unsupported("a variant of a tuple")
    }

    fn serialize_map(self, _len: Option<usize>) -> Result<Self::SerializeMap, Unsupported> {
        unsupported("a map")
    }

    fn serialize_struct(self, _name: &'static str, _len: usize) -> Result<Self, Unsupported> {
        self.tagged(tag::STRUCT, &[]);
        Ok(self)
    }

    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        _variant: &'static str,
        _len: usize,
    ) -> Result<Self::SerializeStructVariant, Unsupported> {
        unsupported("a variant of a struct")
    }
}

impl ser::SerializeSeq for &mut Canonical<'_> {
    type Ok = ();
    type Error = Unsupported;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unsupported> {
        value.serialize(&mut **self)
    }

    fn end(self) -> Result<(), Unsupported> {
        self.tagged(tag::END, &[]);
        Ok(())
    }
}

impl ser::SerializeTuple for &mut Canonical<'_> {
    type Ok = ();
    type Error = Unsupported;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unsupported> {
        value.serialize(&mut **self)
    }

    fn end(self) -> Result<(), Unsupported> {
        self.tagged(tag::END, &[]);
        Ok(())
    }
}

impl ser::SerializeStruct for &mut Canonical<'_> {
    type Ok = ();
    type Error = Unsupported;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        key: &'static str,
        value: &T,
    ) -> Result<(), Unsupported> {
        let before = self.0.len();
        self.framed(tag::TEXT, key.as_bytes());
        let begin = self.0.len();
        value.serialize(&mut **self)?;
        if self.0.get(begin..) == Some(&[tag::NONE]) {
            self.0.truncate(before);
        }
        Ok(())
    }

    fn end(self) -> Result<(), Unsupported> {
        self.tagged(tag::END, &[]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::write;
    use proptest::prelude::*;
    use truetape_schemas::capture::{Exchange, Header, Outcome};

    fn bytes(exchange: &Exchange) -> Vec<u8> {
        let mut out = Vec::new();
        write(exchange, &mut out).unwrap();
        out
    }

    #[test]
    fn each_change_of_a_row_changes_its_bytes() {
        let changes: [fn(&mut Exchange); 9] = [
            |_| {},
            |row| row.arrival = -1,
            |row| row.model = Some(String::new()),
            |row| row.session_key = Some(String::new()),
            |row| row.stop = Some(Vec::new()),
            |row| row.stop = Some(vec![String::new()]),
            |row| row.outcome = Outcome::Error,
            |row| row.temperature = Some(0.0),
            |row| {
                row.request_headers = vec![Header {
                    name: "a".into(),
                    value: "b".into(),
                }];
            },
        ];
        let all: std::collections::BTreeSet<Vec<u8>> = changes
            .iter()
            .map(|change| {
                let mut row = Exchange::default();
                change(&mut row);
                bytes(&row)
            })
            .collect();
        assert_eq!(all.len(), changes.len());
    }

    #[test]
    fn a_field_without_a_value_is_not_there() {
        let found = bytes(&Exchange::default());
        let holds = |name: &str| found.windows(name.len()).any(|at| at == name.as_bytes());
        assert!(holds("conn_id") && !holds("session_key") && !holds("text_block_bytes"));
    }

    proptest! {
        #[test]
        fn texts_do_not_run_into_each_other(a in ".{0,6}", b in ".{0,6}", c in ".{0,6}", d in ".{0,6}") {
            let row = |first: &str, second: &str| bytes(&Exchange {
                proxy_id: first.to_owned(),
                upstream: second.to_owned(),
                finish_reasons: Some(vec![second.to_owned(), first.to_owned()]),
                ..Exchange::default()
            });
            prop_assert_eq!(row(&a, &b) == row(&c, &d), (a, b) == (c, d));
        }
    }
}
