//! Messages of one version of HTTP made into the other's.

use crate::headers;
use http::header::{COOKIE, HOST};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, HeaderValue, Method, Request, Uri, Version};

/// Makes a request one of HTTP/1.1.
pub fn to_http1<B>(request: &mut Request<B>, upstream: &str) {
    let version = std::mem::replace(request.version_mut(), Version::HTTP_11);
    match version {
        Version::HTTP_11 => {}
        Version::HTTP_2 => from_stream(request, upstream),
        // An upstream that is asked in 1.0 may not chunk, and buffers its stream.
        _ => {
            if !request.headers().contains_key(HOST)
                && let Ok(host) = HeaderValue::from_str(upstream)
            {
                request.headers_mut().insert(HOST, host);
            }
        }
    }
}

fn from_stream<B>(request: &mut Request<B>, upstream: &str) {
    let named = request.uri().authority().map(Authority::as_str);
    let host = named.and_then(|name| HeaderValue::from_str(name).ok());
    if request.method() != Method::CONNECT {
        let path = request.uri().path_and_query().cloned();
        *request.uri_mut() = path.map_or_else(Uri::default, Uri::from);
    }
    let mut headers = HeaderMap::with_capacity(request.headers().len() + 1);
    let own = request.headers().get(HOST).cloned();
    let last = || HeaderValue::from_str(upstream).ok();
    // The authority is what the request is for; the field comes first, as clients send it.
    if let Some(host) = host.or(own).or_else(last) {
        headers.insert(HOST, host);
    }
    for (name, value) in request.headers() {
        if name != HOST && name != COOKIE {
            headers.append(name.clone(), value.clone());
        }
        if name == COOKIE && !headers.contains_key(COOKIE) {
            headers.append(COOKIE, cookies(request.headers()));
        }
    }
    *request.headers_mut() = headers;
}

/// HTTP/2 splits cookies over several fields, which HTTP/1.1 does not allow.
fn cookies(headers: &HeaderMap) -> HeaderValue {
    let crumbs: Vec<&[u8]> = headers
        .get_all(COOKIE)
        .iter()
        .map(HeaderValue::as_bytes)
        .collect();
    HeaderValue::from_bytes(&crumbs.join(&b"; "[..]))
        .unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// Makes a request one of HTTP/2.
pub fn to_http2<B>(request: &mut Request<B>, upstream: &str, scheme: Scheme) {
    if request.version() == Version::HTTP_2 {
        if request.uri().authority().is_none() {
            // Only `Host` names it; h2 allows that of a message that came over HTTP/1.
            *request.version_mut() = Version::HTTP_11;
        }
        return;
    }
    *request.version_mut() = Version::HTTP_2;
    let headers = headers::without_framing(request.headers());
    let named = headers.get(HOST).and_then(|host| host.to_str().ok());
    let authority = request.uri().authority().cloned();
    let authority = authority
        .or_else(|| named?.parse().ok())
        .or_else(|| upstream.parse().ok());
    *request.headers_mut() = headers::without(&headers, |name| name == HOST);
    let mut parts = std::mem::take(request.uri_mut()).into_parts();
    parts.authority = authority;
    if request.method() != Method::CONNECT {
        parts.scheme = Some(scheme);
        parts.path_and_query = parts
            .path_and_query
            .or_else(|| Some(PathAndQuery::from_static("/")));
    }
    if let Ok(uri) = Uri::from_parts(parts) {
        *request.uri_mut() = uri;
    }
}

#[cfg(test)]
mod tests {
    use super::{to_http1, to_http2};
    use http::uri::Scheme;
    use http::{Method, Request, Version};

    const UPSTREAM: &str = "[::1]:8000";

    fn request(
        version: Version,
        method: Method,
        uri: &str,
        fields: &[(&str, &str)],
    ) -> Request<()> {
        let mut builder = Request::builder().version(version).method(method).uri(uri);
        for (name, value) in fields {
            builder = builder.header(*name, *value);
        }
        builder.body(()).unwrap()
    }

    fn shown(request: &Request<()>) -> String {
        let fields = request.headers().iter();
        let fields: Vec<String> = fields
            .map(|(name, value)| format!("{name}={}", value.to_str().unwrap()))
            .collect();
        format!(
            "{} {} | {}",
            request.method(),
            request.uri(),
            fields.join(" | ")
        )
    }

    #[test]
    fn a_stream_becomes_a_request_line_with_its_host_first_and_one_cookie() {
        let mut request = request(
            Version::HTTP_2,
            Method::POST,
            "http://api.test:81/v1/x?y=%7e",
            &[
                ("accept", "*/*"),
                ("cookie", "a=1"),
                ("te", "trailers"),
                ("cookie", "b=2"),
            ],
        );
        for _ in 0..2 {
            to_http1(&mut request, UPSTREAM);
            assert_eq!(request.version(), Version::HTTP_11);
            assert_eq!(
                shown(&request),
                "POST /v1/x?y=%7e | host=api.test:81 | accept=*/* | cookie=a=1; b=2 | te=trailers"
            );
        }
    }

    #[test]
    fn a_stream_without_an_authority_keeps_its_host_or_gets_the_upstreams() {
        let mut named = request(Version::HTTP_2, Method::GET, "/a", &[("host", "own.test")]);
        to_http1(&mut named, UPSTREAM);
        assert_eq!(shown(&named), "GET /a | host=own.test");
        for version in [Version::HTTP_2, Version::HTTP_10] {
            let mut bare = request(version, Method::GET, "/a", &[]);
            to_http1(&mut bare, UPSTREAM);
            assert_eq!(shown(&bare), "GET /a | host=[::1]:8000");
        }
    }

    #[test]
    fn a_request_becomes_a_stream_with_its_host_as_authority() {
        let fields = [
            ("host", "api.test"),
            ("transfer-encoding", "chunked"),
            ("te", "trailers"),
            ("cookie", "a=1; b=2"),
        ];
        let mut plain = request(Version::HTTP_11, Method::POST, "/v1?x", &fields);
        let mut absolute = request(
            Version::HTTP_11,
            Method::POST,
            "http://abs.test/v1?x",
            &fields,
        );
        let mut bare = request(Version::HTTP_10, Method::GET, "/v1", &[]);
        let mut tunnel = request(
            Version::HTTP_11,
            Method::CONNECT,
            "far.test:443",
            &fields[..1],
        );
        for request in [&mut plain, &mut absolute, &mut bare, &mut tunnel] {
            to_http2(request, UPSTREAM, Scheme::HTTP);
        }
        assert_eq!(
            shown(&plain),
            "POST http://api.test/v1?x | te=trailers | cookie=a=1; b=2"
        );
        assert_eq!(
            shown(&absolute),
            "POST http://abs.test/v1?x | te=trailers | cookie=a=1; b=2"
        );
        assert_eq!(shown(&bare), "GET http://[::1]:8000/v1 | ");
        assert_eq!(shown(&tunnel), "CONNECT far.test:443 | ");
    }

    #[test]
    fn a_stream_stays_as_it_was() {
        let mut request = request(
            Version::HTTP_2,
            Method::POST,
            "http://a.test/",
            &[("cookie", "a=1")],
        );
        to_http2(&mut request, UPSTREAM, Scheme::HTTP);
        assert_eq!(request.version(), Version::HTTP_2);
        assert_eq!(shown(&request), "POST http://a.test/ | cookie=a=1");
    }
}
