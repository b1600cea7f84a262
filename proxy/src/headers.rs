//! Header fields that belong to one hop, and those that pass.

use http::header::{CONNECTION, CONTENT_LENGTH, HOST, TE, TRAILER, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, HeaderName, Version};

/// Fields of one hop by themselves. `transfer-encoding` and `trailer` are missing on purpose: they
/// are what hyper frames by, and the framing stays as it was.
const HOP: &[&str] = &[
    "connection",
    "keep-alive",
    "proxy-connection",
    "te",
    "upgrade",
];

/// Whether the message asks for, or is, an upgrade of the connection.
pub fn is_upgrade(headers: &HeaderMap) -> bool {
    headers.contains_key(UPGRADE) && nominated(headers).any(|name| name == UPGRADE)
}

/// Whether the sender closes the connection after this message.
pub fn is_last(version: Version, headers: &HeaderMap) -> bool {
    let says = |word: &str| tokens(headers).any(|token| token.eq_ignore_ascii_case(word));
    says("close") || (version == Version::HTTP_10 && !says("keep-alive"))
}

/// Removes the fields of one hop, and those that `Connection` nominates.
///
/// The order of the others stays. `HeaderMap::remove` would move the last field into the gap, so a
/// new map is made, and only when there is something to remove.
pub fn strip(headers: &mut HeaderMap, upgrade: bool) {
    let nominated: Vec<HeaderName> = nominated(headers).filter(may_be_nominated).collect();
    let trailers = headers
        .get(TE)
        .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"trailers"));
    let is_hop = |name: &HeaderName| {
        if upgrade && (name == CONNECTION || name == UPGRADE || nominated.contains(name)) {
            return false;
        }
        // The one thing `te` says that concerns more than a hop: whether trailers are wanted.
        if name == TE {
            return !trailers;
        }
        HOP.contains(&name.as_str()) || nominated.contains(name)
    };
    if !headers.keys().any(is_hop) {
        return;
    }
    *headers = without(headers, is_hop);
}

/// A copy without what only HTTP/1 frames by.
pub fn without_framing(headers: &HeaderMap) -> HeaderMap {
    without(headers, |name| {
        name == TRANSFER_ENCODING || name == CONNECTION || name == UPGRADE
    })
}

/// A copy without some fields; the order of the others stays.
pub fn without(headers: &HeaderMap, is_out: impl Fn(&HeaderName) -> bool) -> HeaderMap {
    let mut kept = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers.iter().filter(|(name, _)| !is_out(name)) {
        kept.append(name.clone(), value.clone());
    }
    kept
}

/// A message must not be able to make us forget where it goes or where it ends.
fn may_be_nominated(name: &HeaderName) -> bool {
    ![HOST, CONTENT_LENGTH, TRANSFER_ENCODING, TRAILER, TE].contains(name)
}

fn nominated(headers: &HeaderMap) -> impl Iterator<Item = HeaderName> {
    tokens(headers).filter_map(|token| HeaderName::from_bytes(token.as_bytes()).ok())
}

fn tokens(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(CONNECTION).into_iter();
    values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::{is_last, is_upgrade, strip};
    use http::{HeaderMap, Version};

    fn map(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    fn names(headers: &HeaderMap) -> Vec<String> {
        headers
            .iter()
            .map(|(name, value)| format!("{name}={}", value.to_str().unwrap()))
            .collect()
    }

    #[test]
    fn fields_of_the_hop_and_nominated_ones_go_and_the_order_stays() {
        let mut headers = map(&[
            ("host", "h"),
            ("connection", "keep-alive, X-Hop, Host"),
            ("x-tag", "one"),
            ("x-hop", "1"),
            ("keep-alive", "timeout=5"),
            ("accept", "*/*"),
            ("x-tag", "two"),
            ("upgrade", "h2c"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
        ]);
        strip(&mut headers, false);
        assert_eq!(
            names(&headers),
            [
                "host=h",
                "x-tag=one",
                "x-tag=two",
                "accept=*/*",
                "te=trailers",
                "transfer-encoding=chunked"
            ]
        );
    }

    #[test]
    fn an_upgrade_keeps_what_makes_it_one() {
        let mut headers = map(&[
            ("connection", "keep-alive, Upgrade"),
            ("upgrade", "websocket"),
            ("keep-alive", "5"),
        ]);
        assert!(is_upgrade(&headers));
        strip(&mut headers, true);
        assert!(is_upgrade(&headers));
    }

    #[test]
    fn an_upgrade_needs_both_fields() {
        assert!(!is_upgrade(&map(&[("upgrade", "websocket")])));
        assert!(!is_upgrade(&map(&[("connection", "upgrade")])));
    }

    #[test]
    fn the_last_message_of_a_connection_is_known() {
        let last = |fields: &[(&'static str, &'static str)]| {
            [Version::HTTP_10, Version::HTTP_11].map(|version| is_last(version, &map(fields)))
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
