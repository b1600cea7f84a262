//! Members of an object, as they were written and in their order: a number beyond a double and the
//! spelling of a tool's schema survive.

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Members of an object.
#[derive(Debug, Default)]
pub(super) struct Fields(Vec<(String, Box<RawValue>)>);

impl Fields {
    /// The JSON of a member; of the last where there are several, as most servers read it.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.iter().filter(|(found, _)| *found == name).last();
        found.map(|(_, json)| json)
    }

    /// The members with their JSON.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_str(), value.get()))
    }

    /// The members whose name passes, and the others.
    pub(super) fn partition(self, passes: impl Fn(&str) -> bool) -> (Self, Self) {
        let (passed, others) = self.0.into_iter().partition(|(name, _)| passes(name));
        (Self(passed), Self(others))
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Fields;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut members: M) -> Result<Fields, M::Error> {
                let mut fields = Vec::new();
                while let Some(member) = members.next_entry()? {
                    fields.push(member);
                }
                Ok(Fields(fields))
            }
        }

        deserializer.deserialize_map(Members)
    }
}
