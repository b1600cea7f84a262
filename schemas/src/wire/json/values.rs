//! What values can be read as.

use super::{Field, Number, Readable};
use crate::wire::limits::LIST_ITEMS_MAX;
use serde::de::{IgnoredAny, MapAccess, SeqAccess};
use std::borrow::Cow;

impl<'de> Readable<'de> for Cow<'de, str> {
    fn from_text(text: Cow<'de, str>) -> Option<Self> {
        Some(text)
    }
}

impl Readable<'_> for bool {
    fn from_bool(value: bool) -> Option<Self> {
        Some(value)
    }
}

impl Readable<'_> for i64 {
    fn from_number(number: Number) -> Option<Self> {
        /// The floats below it in size are exact: 2^53.
        const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
        match number {
            Number::Signed(value) => Some(value),
            Number::Unsigned(value) => value.try_into().ok(),
            // Some servers write counts as 12.0.
            Number::Float(value) if value.fract() == 0.0 && value.abs() < EXACT_MAX => {
                Some(value as i64)
            }
            Number::Float(_) => None,
        }
    }
}

impl Readable<'_> for i32 {
    fn from_number(number: Number) -> Option<Self> {
        i64::from_number(number)?.try_into().ok()
    }
}

impl Readable<'_> for f64 {
    fn from_number(number: Number) -> Option<Self> {
        Some(match number {
            Number::Signed(value) => value as f64,
            Number::Unsigned(value) => value as f64,
            Number::Float(value) => value,
        })
    }
}

/// How many items a list has; what they are is not looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::wire) struct Count(pub(in crate::wire) i64);

impl<'de> Readable<'de> for Count {
    fn from_list<A: SeqAccess<'de>>(list: &mut A) -> Result<Option<Self>, A::Error> {
        let mut count = 0;
        while list.next_element::<IgnoredAny>()?.is_some() {
            count += 1;
        }
        Ok(Some(Self(count)))
    }
}

/// Anything but `null`; what it is is not looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::wire) struct Given;

impl<'de> Readable<'de> for Given {
    fn from_bool(_: bool) -> Option<Self> {
        Some(Self)
    }

    fn from_number(_: Number) -> Option<Self> {
        Some(Self)
    }

    fn from_text(_: Cow<'de, str>) -> Option<Self> {
        Some(Self)
    }

    fn from_list<A: SeqAccess<'de>>(_: &mut A) -> Result<Option<Self>, A::Error> {
        Ok(Some(Self))
    }

    fn from_object<A: MapAccess<'de>>(_: &mut A) -> Result<Option<Self>, A::Error> {
        Ok(Some(Self))
    }
}

/// A list. Items past [`LIST_ITEMS_MAX`] are dropped, and make it odd.
#[derive(Debug)]
pub(in crate::wire) struct List<T> {
    pub(in crate::wire) items: Vec<Field<T>>,
    cut: bool,
}

impl<'de, T: Readable<'de>> Readable<'de> for List<T> {
    fn from_list<A: SeqAccess<'de>>(list: &mut A) -> Result<Option<Self>, A::Error> {
        let mut items = Vec::new();
        while items.len() < LIST_ITEMS_MAX {
            match list.next_element()? {
                Some(item) => items.push(item),
                None => return Ok(Some(Self { items, cut: false })),
            }
        }
        let cut = list.next_element::<IgnoredAny>()?.is_some();
        Ok(Some(Self { items, cut }))
    }

    fn is_odd(&self) -> bool {
        self.cut || self.items.iter().any(Field::is_odd)
    }
}
