//! How many prompts a request has, and how many tokens where it gives them as ids.

use crate::wire::json::{Count, Field, Number, Readable};
use crate::wire::openai::Text;
use serde::de::{MapAccess, SeqAccess};

/// The prompts of a request: a text, a list of token ids, or a list of either.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Prompts {
    /// How many there are.
    pub(super) items: i64,
    /// Token ids of all of them, if all are given as ids.
    pub(super) ids: Option<i64>,
}

impl Prompts {
    /// One text.
    pub(super) const ONE: Self = Self {
        items: 1,
        ids: None,
    };
}

/// An item of the list.
#[derive(Debug)]
enum Item {
    Id,
    Ids(i64),
    Text,
}

impl<'de> Readable<'de> for Item {
    fn from_number(_: Number) -> Option<Self> {
        Some(Self::Id)
    }

    fn from_text(_: Text<'de>) -> Option<Self> {
        Some(Self::Text)
    }

    fn from_list<A: SeqAccess<'de>>(list: &mut A) -> Result<Option<Self>, A::Error> {
        Ok(Count::from_list(list)?.map(|count| Self::Ids(count.0)))
    }

    fn from_object<A: MapAccess<'de>>(_: &mut A) -> Result<Option<Self>, A::Error> {
        Ok(Some(Self::Text))
    }
}

impl<'de> Readable<'de> for Prompts {
    fn from_text(_: Text<'de>) -> Option<Self> {
        Some(Self::ONE)
    }

    fn from_object<A: MapAccess<'de>>(_: &mut A) -> Result<Option<Self>, A::Error> {
        Ok(Some(Self::ONE))
    }

    fn from_list<A: SeqAccess<'de>>(list: &mut A) -> Result<Option<Self>, A::Error> {
        let (mut flat, mut items, mut ids) = (0_i64, 0_i64, Some(0_i64));
        while let Some(item) = list.next_element::<Field<Item>>()? {
            match item {
                Field::Is(Item::Id) => flat += 1,
                Field::Is(Item::Ids(count)) => {
                    items += 1;
                    ids = ids.map(|ids| ids.saturating_add(count));
                }
                Field::Is(Item::Text) => {
                    items += 1;
                    ids = None;
                }
                // Counting what is odd would be guessing.
                Field::Absent | Field::Odd => return Ok(None),
            }
        }
        Ok(match (flat, items) {
            (0, _) => Some(Self {
                items,
                ids: ids.filter(|_| items > 0),
            }),
            // One prompt, as ids: each number is a token, not a text.
            (_, 0) => Some(Self {
                items: 1,
                ids: Some(flat),
            }),
            // llama.cpp lets texts and ids follow each other in one prompt.
            _ => Some(Self::ONE),
        })
    }
}
