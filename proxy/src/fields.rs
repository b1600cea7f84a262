//! Header fields, however they are held: in a map, or where they lie in a message of HTTP/1.

use http::HeaderMap;
use httparse::Header;

/// The fields of one message, in their order.
pub trait Fields {
    /// Each field: its name in whatever case it has, and its value.
    fn each(&self) -> impl Iterator<Item = (&str, &[u8])>;

    /// The value of the first field of this name.
    fn field(&self, name: &str) -> Option<&[u8]> {
        let mut all = self.each();
        all.find_map(|(other, value)| other.eq_ignore_ascii_case(name).then_some(value))
    }
}

impl Fields for HeaderMap {
    fn each(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.iter()
            .map(|(name, value)| (name.as_str(), value.as_bytes()))
    }
}

impl Fields for [Header<'_>] {
    fn each(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.iter().map(|field| (field.name, field.value))
    }
}

/// The members of a list that may be spread over several fields of one name.
pub fn tokens<'f>(
    fields: &'f (impl Fields + ?Sized),
    name: &'f str,
) -> impl Iterator<Item = &'f str> {
    fields
        .each()
        .filter(move |(other, _)| other.eq_ignore_ascii_case(name))
        .filter_map(|(_, value)| std::str::from_utf8(value).ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
}
