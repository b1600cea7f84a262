use super::*;
use crate::observe::Readers;
use crate::recorder::Recorder;
use crate::redact::CallerKey;
use crate::redact::Credentials;
use crate::redact::HeaderText;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use std::sync::Arc;
use truetape_schemas::wire;

const BODY_MAX: usize = 1 << 20;

struct Given {
    request: Option<(&'static [u8], TrackEnd)>,
    status: Option<u16>,
    frames: Vec<(i64, &'static [u8])>,
    response_end: Option<TrackEnd>,
    fate: Fate,
    cut: bool,
    body_max: usize,
    content_type: &'static str,
    coding: Option<&'static str>,
    response_coding: Option<&'static str>,
    session: (&'static str, &'static str),
}

impl Default for Given {
    fn default() -> Self {
        Self {
            request: Some((b"{\"model\":\"m\",\"stream\":true}", TrackEnd::Clean)),
            status: Some(200),
            frames: vec![(1500, b"data: {\"a\":1}\n\n"), (1700, b"data: [DONE]\n\n")],
            response_end: Some(TrackEnd::Clean),
            fate: Fate::Ordinary,
            cut: false,
            body_max: BODY_MAX,
            content_type: "text/event-stream",
            coding: None,
            response_coding: None,
            session: ("x-session-id", "s1"),
        }
    }
}

fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    pairs
        .iter()
        .map(|(n, v)| (n.parse().unwrap(), HeaderValue::from_static(v)))
        .collect()
}

fn row(given: Given, content: Content) -> Exchange {
    row_of(given, plan(content))
}

fn plan(content: Content) -> Plan {
    Plan {
        proxy_id: "p".to_owned(),
        content,
        session_headers: vec![],
        caller_key: CallerKey::random(),
        digest_key: Some(DigestKey::of(&[1; 32])),
        keep_blobs: false,
        kept: policy::Kept::default(),
        sampling: None,
        kept_headers: vec![],
        terms: Arc::default(),
        readers: Readers::default(),
    }
}

fn row_of(given: Given, plan: Plan) -> Exchange {
    let (recorder, _offers) = Recorder::new(8 << 20, 4);
    let budget = Arc::clone(recorder.budget());
    let sent = headers(&[("authorization", "Bearer sk-canary-1"), given.session]);
    let track = |end, timed, frames: &[(i64, &'static [u8])]| {
        let mut track = Track::new(&recorder, given.body_max, timed);
        for (at, bytes) in frames {
            track.push(*at, &Bytes::from_static(bytes));
        }
        track.finish(frames.last().map_or(1000, |(at, _)| *at) + 1, end);
        track
    };
    let came = headers(&[("content-type", given.content_type), ("set-cookie", "a=b")]);
    let record = Record {
        arrival: Arrival {
            conn_id: 3,
            conn_seq: 1,
            upstream: "u:1".into(),
            arrival_us: 1000,
            inflight: 2,
            method: "POST".to_owned(),
            path: "/v1/chat/completions".to_owned(),
            headers: HeaderText::of(&sent, &[]),
            content_encoding: given.coding.map(str::to_owned),
            credentials: Credentials::of(&sent, ""),
        },
        request: given
            .request
            .map(|(body, end)| track(end, false, &[(1100, body)])),
        head: given.status.map(|status| ResponseHead {
            at_us: 1400,
            status,
            headers: HeaderText::of(&came, &[]),
            content_type: Some(given.content_type.to_owned()),
            content_encoding: given.response_coding.map(str::to_owned),
        }),
        response: given
            .response_end
            .map(|end| track(end, true, &given.frames)),
        client_stall_us: 5,
        fate: given.fate,
        cut: given.cut,
        end_us: 2000,
        held: Held::nothing(&budget),
    };
    let made = of(&plan, &Clock::start(), record);
    drop(made.held);
    assert_eq!(budget.used(), 0, "memory is given back");
    made.exchange
}

#[test]
fn offsets_count_from_the_arrival() {
    let row = row(Given::default(), Content::Full);
    assert_eq!(row.arrival_mono_us, 1000);
    assert_eq!(
        (row.request_end_us, row.response_head_us),
        (Some(101), Some(400))
    );
    assert_eq!((row.first_byte_us, row.end_us), (Some(500), Some(701)));
    assert_eq!(row.frame_offsets_us, Some(vec![500, 700]));
    assert_eq!(row.frame_bytes, Some(vec![15, 14]));
    assert_eq!((row.client_stall_us, row.inflight), (Some(5), Some(2)));
    assert_eq!((row.conn_id, row.conn_seq), (3, 1));
    assert_eq!(row.response_bytes, Some(29));
    assert_eq!(row.degraded, None);
}

#[test]
fn an_answer_in_one_document_has_a_last_token_and_no_first() {
    let given = Given {
        content_type: "application/json",
        frames: vec![
            (
                1500,
                b"{\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",",
            ),
            (1800, b"\"content\":\"hi\"}}]}"),
        ],
        ..Given::default()
    };
    let row = row(given, Content::Full);
    assert_eq!((row.first_token_us, row.last_token_us), (None, Some(800)));
    assert_eq!(row.token_event_offsets_us, None);
}

#[test]
fn a_request_body_that_nobody_read_is_unknown_and_not_empty() {
    let unread = Given {
        request: Some((b"", TrackEnd::Dropped)),
        status: Some(502),
        response_end: None,
        fate: Fate::Unreachable,
        ..Given::default()
    };
    let row = row(unread, Content::Full);
    assert_eq!((row.request_bytes, row.request_body), (None, None));
    assert_eq!(row.parse_status, ParseStatus::NotApplicable);
    assert_eq!(row.degraded, None);
}

#[test]
fn the_ends_tell_the_outcome() {
    use TrackEnd::{Dropped, Failed};
    let outcome = |given| row(given, Content::Full).outcome;
    let no_answer = || Given {
        status: None,
        response_end: None,
        ..Given::default()
    };
    // Without the end marker, or the answer would be whole whatever the transport says.
    let open: &[u8] = b"data: {}\n\n";
    let ended = |end| Given {
        response_end: Some(end),
        frames: vec![(1500, open)],
        ..Given::default()
    };
    assert_eq!(
        outcome(Given {
            status: Some(500),
            ..Given::default()
        }),
        Outcome::Error
    );
    assert_eq!(outcome(ended(Failed)), Outcome::Truncated);
    assert_eq!(outcome(ended(Dropped)), Outcome::ClientAborted);
    assert_eq!(
        outcome(Given {
            cut: true,
            ..ended(Dropped)
        }),
        Outcome::ProxyShutdown
    );
    assert_eq!(outcome(no_answer()), Outcome::ClientAborted);
    assert_eq!(
        outcome(Given {
            cut: true,
            ..no_answer()
        }),
        Outcome::ProxyShutdown
    );
    assert_eq!(
        outcome(Given {
            fate: Fate::Broken,
            ..no_answer()
        }),
        Outcome::Truncated
    );
    let upload = Given {
        request: Some((b"{", Failed)),
        fate: Fate::Broken,
        ..no_answer()
    };
    assert_eq!(outcome(upload), Outcome::ClientAborted);
    let unreachable = Given {
        fate: Fate::Unreachable,
        status: Some(502),
        response_end: None,
        ..Given::default()
    };
    let row = row(unreachable, Content::Full);
    assert_eq!((row.outcome, row.status), (Outcome::Error, Some(502)));
    assert_eq!(row.error_code.as_deref(), Some(UNREACHABLE));
    assert_eq!(outcome(Given::default()), Outcome::Complete);
}

#[test]
fn a_body_that_was_given_up_leaves_counts_times_and_outcome() {
    let row = row(
        Given {
            body_max: 4,
            ..Given::default()
        },
        Content::Full,
    );
    assert_eq!((row.request_body, row.response_body), (None, None));
    assert_eq!(row.response_bytes, Some(29));
    assert_eq!(row.frame_offsets_us, Some(vec![500, 700]));
    assert_eq!(row.degraded, Some(vec!["body".to_owned()]));
    assert_eq!(row.outcome, Outcome::Complete);
    assert_eq!(row.output_tokens, None);
}

#[test]
fn the_policy_none_keeps_no_body_and_is_no_degradation() {
    let row = row(Given::default(), Content::None);
    assert_eq!(
        (row.request_body, row.response_body, row.degraded),
        (None, None, None)
    );
    assert_eq!(
        (row.request_bytes, row.response_bytes),
        (Some(27), Some(29))
    );
}

#[test]
fn a_session_token_makes_a_session_and_is_not_kept() {
    let given = Given {
        session: ("x-session-token", "token-canary"),
        ..Given::default()
    };
    let row = row(given, Content::Full);
    assert_eq!(row.session_rule.as_deref(), Some("gateway"));
    assert_eq!(row.session_key.as_ref().map(String::len), Some(32));
    assert!(!format!("{row:?}").contains("token-canary"));
    assert!(row.request_headers.is_empty());
}

#[test]
fn no_credential_is_kept() {
    let echo = b"{\"error\":{\"code\":\"sk-canary-1\",\"message\":\"bad key sk-canary-1\"}}";
    let given = Given {
        status: Some(401),
        frames: vec![(1500, echo)],
        ..Given::default()
    };
    let row = row(given, Content::Full);
    let text = format!(
        "{row:?}{}",
        String::from_utf8_lossy(row.response_body.as_ref().unwrap())
    );
    assert!(!text.contains("sk-canary-1"), "{text}");
    let names: Vec<&str> = row
        .request_headers
        .iter()
        .map(|h| h.name.as_str())
        .collect();
    assert_eq!(names, ["x-session-id"]);
    let names: Vec<&str> = row
        .response_headers
        .iter()
        .map(|h| h.name.as_str())
        .collect();
    assert_eq!(names, ["content-type"]);
}

mod content;
