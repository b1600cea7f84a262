//! JSON that is read for some of its fields, whatever else is in it.
//!
//! The usual derive refuses a whole document when one field has another type than expected. Here
//! such a field is [`Field::Odd`] and the rest is read: a server that sends `"usage": "none"`
//! costs us its usage, not its text. Fields that nobody asks for are skipped without being kept,
//! and without recursion, so that nesting cannot exhaust the stack. Texts are borrowed from the
//! document where they have no escapes.

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

mod repair;
mod values;

pub(super) use repair::repair;
pub(super) use values::{Count, Given, List};

/// A value that may be missing, or not what it should be.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Field<T> {
    /// There is none, or `null`.
    #[default]
    Absent,
    /// There is one of another type, or out of range.
    Odd,
    /// There is one.
    Is(T),
}

impl<T> Field<T> {
    pub(super) fn get(self) -> Option<T> {
        match self {
            Self::Is(value) => Some(value),
            Self::Absent | Self::Odd => None,
        }
    }

    pub(super) fn get_ref(&self) -> Option<&T> {
        match self {
            Self::Is(value) => Some(value),
            Self::Absent | Self::Odd => None,
        }
    }

    /// Whether it, or anything inside it, is not what it should be.
    pub(super) fn is_odd<'de>(&self) -> bool
    where
        T: Readable<'de>,
    {
        match self {
            Self::Absent => false,
            Self::Odd => true,
            Self::Is(value) => value.is_odd(),
        }
    }
}

impl Field<Cow<'_, str>> {
    /// The text, empty where there is none.
    pub(super) fn text(&self) -> &str {
        self.get_ref().map_or("", |text| text)
    }

    /// The text, owned, where it is not empty.
    pub(super) fn some_text(&self) -> Option<String> {
        Some(self.text())
            .filter(|text| !text.is_empty())
            .map(str::to_owned)
    }
}

/// A number, as far as it fits.
#[derive(Clone, Copy, Debug)]
pub(super) enum Number {
    Signed(i64),
    Unsigned(u64),
    Float(f64),
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signed(value) => value.fmt(f),
            Self::Unsigned(value) => value.fmt(f),
            Self::Float(value) => value.fmt(f),
        }
    }
}

/// What a value can be read as. There is a method for each JSON type; unless a type has its own,
/// a value of that JSON type is not what it should be.
pub(super) trait Readable<'de>: Sized {
    fn from_bool(_: bool) -> Option<Self> {
        None
    }
    fn from_number(_: Number) -> Option<Self> {
        None
    }
    fn from_text(_: Cow<'de, str>) -> Option<Self> {
        None
    }
    /// What it leaves of the list is skipped.
    fn from_list<A: SeqAccess<'de>>(_: &mut A) -> Result<Option<Self>, A::Error> {
        Ok(None)
    }
    /// What it leaves of the object is skipped.
    fn from_object<A: MapAccess<'de>>(_: &mut A) -> Result<Option<Self>, A::Error> {
        Ok(None)
    }
    /// Whether anything inside it is not what it should be.
    fn is_odd(&self) -> bool {
        false
    }
}

impl<'de, T: Readable<'de>> Deserialize<'de> for Field<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FieldVisitor(PhantomData))
    }
}

struct FieldVisitor<T>(PhantomData<T>);

fn is<T>(value: Option<T>) -> Field<T> {
    value.map_or(Field::Odd, Field::Is)
}

impl<'de, T: Readable<'de>> Visitor<'de> for FieldVisitor<T> {
    type Value = Field<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Field<T>, E> {
        Ok(Field::Absent)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Field<T>, E> {
        Ok(is(T::from_bool(value)))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Field<T>, E> {
        Ok(is(T::from_number(Number::Signed(value))))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Field<T>, E> {
        Ok(is(T::from_number(Number::Unsigned(value))))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Field<T>, E> {
        Ok(is(T::from_number(Number::Float(value))))
    }

    fn visit_borrowed_str<E: Error>(self, value: &'de str) -> Result<Field<T>, E> {
        Ok(is(T::from_text(Cow::Borrowed(value))))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Field<T>, E> {
        Ok(is(T::from_text(Cow::Owned(value.to_owned()))))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Field<T>, A::Error> {
        let value = T::from_list(&mut list)?;
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(is(value))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Field<T>, A::Error> {
        let value = T::from_object(&mut object)?;
        while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(is(value))
    }
}

/// Reads a document. An error means that it is not JSON.
pub(super) fn read<'de, T: Readable<'de>>(bytes: &'de [u8]) -> serde_json::Result<Field<T>> {
    // To check the document once is cheaper than to check each of its texts.
    match std::str::from_utf8(bytes) {
        Ok(text) => serde_json::from_str(text),
        Err(_) => serde_json::from_slice(bytes),
    }
}

/// The name of a field, borrowed where it has no escapes.
#[derive(Debug)]
pub(super) struct Key<'de>(pub(super) Cow<'de, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = Key<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a field")
            }

            fn visit_borrowed_str<E: Error>(self, value: &'de str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Borrowed(value)))
            }

            fn visit_str<E: Error>(self, value: &str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Owned(value.to_owned())))
            }
        }
        deserializer.deserialize_str(KeyVisitor)
    }
}

/// Declares an object and the fields that are looked for in it, each with its names. Of a field
/// that comes twice the last counts, as in most readers, but `null` takes nothing back.
macro_rules! object {
    ($(#[$meta:meta])* $name:ident $(<$life:lifetime>)? {
        $($field:ident: $type:ty = $($key:literal)|+),* $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Debug, Default)]
        pub(super) struct $name $(<$life>)? {
            $(pub(super) $field: $crate::wire::json::Field<$type>,)*
        }

        impl<'de> $crate::wire::json::Readable<'de> for $name $(<$life>)? {
            fn from_object<A: serde::de::MapAccess<'de>>(
                object: &mut A,
            ) -> Result<Option<Self>, A::Error> {
                let mut this = Self::default();
                while let Some(key) = object.next_key::<$crate::wire::json::Key<'de>>()? {
                    match &*key.0 {
                        $($($key)|+ => match object.next_value()? {
                            $crate::wire::json::Field::Absent => {}
                            value => this.$field = value,
                        },)*
                        _ => {
                            object.next_value::<serde::de::IgnoredAny>()?;
                        }
                    }
                }
                Ok(Some(this))
            }

            fn is_odd(&self) -> bool {
                false $(|| self.$field.is_odd())*
            }
        }
    };
}

pub(super) use object;

#[cfg(test)]
mod tests;
