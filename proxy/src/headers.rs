//! Header fields that belong to one hop, and those that pass, where one side speaks HTTP/2.

use crate::fields::tokens;
use http::header::{CONNECTION, CONTENT_LENGTH, HOST, TE, TRAILER, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, HeaderName};

/// Fields of one hop by themselves. `transfer-encoding` and `trailer` are missing on purpose: they
/// are what hyper frames by, and the framing stays as it was.
const HOP: &[&str] = &[
    "connection",
    "keep-alive",
    "proxy-connection",
    "te",
    "upgrade",
];

/// Removes the fields of one hop, and those that `Connection` nominates.
///
/// The order of the others stays. `HeaderMap::remove` would move the last field into the gap, so a
/// new map is made, and only when there is something to remove.
pub fn strip(headers: &mut HeaderMap) {
    let nominated: Vec<HeaderName> = nominated(headers).filter(may_be_nominated).collect();
    let trailers = headers
        .get(TE)
        .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"trailers"));
    let is_hop = |name: &HeaderName| {
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
    let tokens = tokens(headers, "connection");
    tokens.filter_map(|token| HeaderName::from_bytes(token.as_bytes()).ok())
}

#[cfg(test)]
mod tests {
    use super::strip;
    use http::HeaderMap;

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
        strip(&mut headers);
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
}
