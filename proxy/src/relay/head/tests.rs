use super::{Found, framing_of_response, is_request, request, response, when_whole};
use crate::limits;
use crate::relay::framing::Framing;
use proptest::prelude::*;

fn framing(fields: &str) -> Found<Framing> {
    let head = format!("POST /v1 HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
    request(head.as_bytes(), |request| request.framing)
}

#[test]
fn a_request_says_where_it_ends_or_passes_unread() {
    let chunked = || Found::Head(Framing::chunked());
    assert_eq!(framing(""), Found::Head(Framing::NONE));
    assert_eq!(
        framing("Content-Length: 7\r\n"),
        Found::Head(Framing::Length(7))
    );
    assert_eq!(
        framing("content-length: 7, 7\r\n"),
        Found::Head(Framing::Length(7))
    );
    assert_eq!(framing("Transfer-Encoding: gzip, Chunked\r\n"), chunked());
    assert_eq!(
        framing("Content-Length: 7\r\nTransfer-Encoding: chunked\r\n"),
        chunked()
    );
    assert_eq!(framing("Transfer-Encoding: chunked,\r\n"), chunked());
    for unclear in [
        "Transfer-Encoding: chunked, gzip\r\n",
        "Content-Length: 7\r\nContent-Length: 8\r\n",
        "Content-Length: -7\r\n",
        "Content-Length: +7\r\n",
        "Content-Length: 99999999999999999999\r\n",
        "Content-Length:\r\n",
        "no colon\r\n",
    ] {
        assert_eq!(framing(unclear), Found::Foreign, "{unclear}");
    }
    assert_eq!(request(b"POST /v1 HTTP/1.1\r\nHost", |_| ()), Found::Part);
}

fn of_response(status: u16, fields: &str, to_head: bool) -> Framing {
    let head = format!("HTTP/1.1 {status} \u{e9}\r\n{fields}\r\n");
    let read = response(head.as_bytes(), |response| {
        assert_eq!(response.status, status);
        framing_of_response(status, response.head.fields, to_head)
    });
    match read {
        Found::Head(framing) => framing,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_response_ends_by_what_it_answers_its_status_and_its_fields() {
    let chunked = "Transfer-Encoding: chunked\r\n";
    assert_eq!(of_response(200, chunked, false), Framing::chunked());
    assert_eq!(
        of_response(200, "Content-Length: 2\r\n", false),
        Framing::Length(2)
    );
    assert_eq!(of_response(200, "", false), Framing::UntilClose);
    assert_eq!(
        of_response(200, "Transfer-Encoding: gzip\r\n", false),
        Framing::UntilClose
    );
    assert_eq!(
        of_response(200, "Content-Length: x\r\n", false),
        Framing::UntilClose
    );
    assert_eq!(of_response(200, chunked, true), Framing::NONE);
    for status in [103, 204, 304] {
        assert_eq!(
            of_response(status, "Content-Length: 2\r\n", false),
            Framing::NONE
        );
    }
}

fn edited(fields: &str, last: bool) -> Option<String> {
    let head = format!("POST /v1 HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
    match request(head.as_bytes(), |request| request.head.edited(last)) {
        Found::Head(edited) => edited.map(|bytes| String::from_utf8(bytes).unwrap()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_head_passes_as_it_is_unless_it_nominates_a_field() {
    for same in [
        "",
        "Connection: close\r\nX-A:\r\nx-a: 1\r\n",
        "Connection: keep-alive, Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\n",
        "Connection: Host, TE\r\nTE: trailers\r\n",
        "Connection: upgrade, x-mine\r\nUpgrade: websocket\r\nX-Mine: 1\r\n",
    ] {
        assert_eq!(edited(same, false), None, "{same}");
    }
    assert_eq!(
        edited(
            "X-Empty:\r\nx-hop: 1\r\nConnection: X-Hop, close\r\nX-Last:  2 \r\n",
            false
        )
        .unwrap(),
        "POST /v1 HTTP/1.1\r\nHost: h\r\nX-Empty:\r\nX-Last:  2 \r\nConnection: close\r\n\r\n"
    );
    assert_eq!(
        edited("Connection: X-Hop\r\nX-Hop: 1\r\n", false).unwrap(),
        "POST /v1 HTTP/1.1\r\nHost: h\r\n\r\n"
    );
    assert_eq!(
        edited("Connection: keep-alive\r\nX-A: 1\r\n", true).unwrap(),
        "POST /v1 HTTP/1.1\r\nHost: h\r\nX-A: 1\r\nConnection: close\r\n\r\n"
    );
}

#[test]
fn a_message_with_many_fields_is_read_and_one_with_too_many_passes_unread() {
    let with = |count: usize| {
        let fields: String = (0..count).map(|at| format!("x-{at}: v\r\n")).collect();
        format!("GET / HTTP/1.1\r\n{fields}\r\n")
    };
    let read = |count| request(with(count).as_bytes(), |request| request.head.fields.len());
    assert_eq!(read(limits::HEADERS_MAX), Found::Head(limits::HEADERS_MAX));
    assert_eq!(read(limits::HEADERS_MAX + 1), Found::Foreign);
}

#[test]
fn a_long_head_is_read_once_it_is_whole() {
    let head = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "v".repeat(40_000));
    let bytes = head.as_bytes();
    let mut reads = 0;
    let (mut looked, mut found) = (0, Found::Part);
    for end in (1_000..=bytes.len()).step_by(1_000).chain([bytes.len()]) {
        found = when_whole(&bytes[..end], looked, |bytes| {
            reads += 1;
            request(bytes, |_| ())
        });
        looked = end;
    }
    assert_eq!(found, Found::Head(()));
    assert!(reads < 20, "{reads}");
    // Empty lines before a head are skipped, but not for ever.
    let empty = b"\r\n".repeat(20_000);
    assert_eq!(is_request(&empty[..2_000], 0), Found::Part);
    assert_eq!(is_request(&empty, 20_000), Found::Foreign);
    let endless = vec![b'a'; limits::HEAD_BYTES_MAX + 1];
    assert_eq!(is_request(&endless, 100_000), Found::Foreign);
}

proptest! {
    #[test]
    fn whatever_comes_is_judged_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut head = b"POST /v1 HTTP/1.1\r\n".to_vec();
        head.extend(&bytes);
        let _ = request(&head, |request| request.head.edited(true));
        let mut head = b"HTTP/1.1 200 OK\r\n".to_vec();
        head.extend(bytes);
        let _ = response(&head, |response| response.head.edited(true));
    }
}
