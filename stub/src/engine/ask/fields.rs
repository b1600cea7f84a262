//! Fields of a JSON object, each of the type it should be. NULL is as good as absent.

use super::super::refusal::Refusal;
use serde_json::{Map, Value};

/// The fields of an object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a> {
    body: &'a Value,
    map: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    pub(super) fn of(body: &'a Value) -> Result<Self, Refusal> {
        Self::within(body).ok_or_else(|| Refusal::bad(None, "The body must be a JSON object."))
    }

    pub(super) fn get(&self, name: &str) -> Option<&'a Value> {
        self.map.get(name).filter(|value| !value.is_null())
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// The object again, for what reads all of it.
    pub(super) fn body(&self) -> &'a Value {
        self.body
    }

    pub(super) fn text(&self, name: &'static str) -> Result<Option<&'a str>, Refusal> {
        self.typed(name, "a string", Value::as_str)
    }

    pub(super) fn flag(&self, name: &'static str) -> Result<Option<bool>, Refusal> {
        self.typed(name, "true or false", Value::as_bool)
    }

    pub(super) fn count(&self, name: &'static str) -> Result<Option<u64>, Refusal> {
        self.typed(name, "an integer of at least 0", Value::as_u64)
    }

    pub(super) fn integer(&self, name: &'static str) -> Result<Option<i64>, Refusal> {
        self.typed(name, "an integer", Value::as_i64)
    }

    pub(super) fn list(&self, name: &'static str) -> Result<Option<&'a [Value]>, Refusal> {
        self.typed(name, "a list", |value| value.as_array().map(Vec::as_slice))
    }

    pub(super) fn object(&self, name: &'static str) -> Result<Option<Fields<'a>>, Refusal> {
        self.typed(name, "an object", Self::within)
    }

    fn within(body: &'a Value) -> Option<Self> {
        body.as_object().map(|map| Self { body, map })
    }

    fn typed<T>(
        &self,
        name: &'static str,
        wanted: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, Refusal> {
        let Some(value) = self.get(name) else {
            return Ok(None);
        };
        match read(value) {
            Some(read) => Ok(Some(read)),
            None => Err(Refusal::bad(
                Some(name),
                format!("`{name}` must be {wanted}."),
            )),
        }
    }
}
