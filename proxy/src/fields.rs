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

/// Whether the sender of such a message closes the connection after it.
pub fn is_last(http10: bool, fields: &(impl Fields + ?Sized)) -> bool {
    let says =
        |word: &str| tokens(fields, "connection").any(|token| token.eq_ignore_ascii_case(word));
    says("close") || (http10 && !says("keep-alive"))
}

#[cfg(test)]
mod tests {
    use super::is_last;
    use http::HeaderMap;

    #[test]
    fn the_last_message_of_a_connection_is_known() {
        let last = |fields: &[(&'static str, &'static str)]| {
            let mut map = HeaderMap::new();
            for (name, value) in fields {
                map.append(*name, value.parse().unwrap());
            }
            [true, false].map(|http10| is_last(http10, &map))
        };
        assert_eq!(last(&[("connection", "Close")]), [true, true]);
        assert_eq!(
            last(&[("connection", "x"), ("connection", "y, close")]),
            [true, true]
        );
        assert_eq!(last(&[("x", "close")]), [true, false]);
        assert_eq!(last(&[("connection", "Keep-Alive")]), [false, false]);
    }
}
