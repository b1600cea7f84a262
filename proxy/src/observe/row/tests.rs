use super::*;
use crate::observe::Readers;
use crate::recorder::Recorder;
use crate::redact::CallerKey;
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
            credentials: Credentials::of(&sent, &http::Uri::default()),
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

fn packed(body: &[u8]) -> &'static [u8] {
    zstd::bulk::compress(body, 1).unwrap().leak()
}

#[test]
fn a_coded_request_is_read_and_kept_as_it_was_sent() {
    let sent = packed(b"{\"model\":\"m\"}");
    for (coding, body, model, status) in [
        (
            "Identity",
            &b"{\"model\":\"m\"}"[..],
            Some("m"),
            ParseStatus::Ok,
        ),
        ("ZSTD", sent, Some("m"), ParseStatus::Ok),
        ("gzip", sent, None, ParseStatus::Failed),
        ("", sent, None, ParseStatus::Failed),
        ("aes128gcm", sent, None, ParseStatus::Failed),
    ] {
        let given = Given {
            request: Some((body, TrackEnd::Clean)),
            coding: Some(coding),
            ..Given::default()
        };
        let row = row(given, Content::Full);
        assert_eq!(
            (row.model.as_deref(), row.parse_status),
            (model, status),
            "{coding}"
        );
        assert_eq!(row.request_body.as_deref(), Some(body));
        assert_eq!(row.request_encoding.as_deref(), Some(coding));
        assert_eq!(row.outcome, Outcome::Complete);
        assert_eq!(
            row.degraded, None,
            "a label costs the parse, not the record"
        );
    }
}

const ECHO: &[u8] = b"{\"error\":{\"code\":\"sk-canary-1\",\"message\":\"bad key sk-canary-1\"}}";

#[test]
fn a_coded_error_that_echoes_a_credential_is_kept_unpacked_and_scrubbed() {
    let answer = |coding, body: &'static [u8]| {
        let given = Given {
            status: Some(401),
            frames: vec![(1500, body)],
            content_type: "application/json",
            response_coding: Some(coding),
            ..Given::default()
        };
        row(given, Content::Full)
    };
    let echo = answer("zstd", packed(ECHO));
    let text = String::from_utf8(echo.response_body.clone().unwrap()).unwrap();
    assert_eq!(text.matches("***********").count(), 2, "{text}");
    assert_eq!(echo.response_encoding.as_deref(), Some("identity"));
    assert_eq!(echo.error_code.as_deref(), Some("***********"));
    let harmless = packed(b"{\"error\":{\"code\":401}}");
    let kept = answer("zstd", harmless);
    assert_eq!(kept.response_body.as_deref(), Some(harmless));
    assert_eq!(kept.response_encoding.as_deref(), Some("zstd"));
    // What cannot be searched is not kept.
    let sealed = answer("gzip", packed(ECHO));
    assert_eq!(sealed.response_body, None);
    assert_eq!(sealed.degraded, Some(vec!["body".to_owned()]));
}

#[test]
fn a_reader_that_panics_costs_what_it_would_have_said() {
    fn request(_: Dialect, _: &[u8]) -> wire::RequestFacts {
        panic!("as it should")
    }
    fn response(
        _: Dialect,
        _: &ResponseHead,
        _: &[Mark],
        _: &[u8],
        _: BodyEnd,
    ) -> wire::ResponseFacts {
        panic!("as it should")
    }
    let sound = Readers::default();
    for (readers, model) in [
        (Readers { request, ..sound }, None),
        (Readers { response, ..sound }, Some("m")),
        (Readers { request, response }, None),
    ] {
        let plan = Plan {
            readers,
            ..plan(Content::Full)
        };
        let row = row_of(Given::default(), plan);
        assert_eq!(row.parse_status, ParseStatus::Failed);
        assert_eq!(row.model.as_deref(), model);
        assert_eq!(row.frame_offsets_us, Some(vec![500, 700]));
        assert_eq!((row.first_byte_us, row.end_us), (Some(500), Some(701)));
        assert_eq!(row.outcome, Outcome::Complete);
        assert!(row.request_body.is_some() && row.response_body.is_some());
        assert_eq!(row.session_key.as_deref(), Some("s1"));
    }
}

#[test]
fn an_answer_that_was_given_up_tells_its_usage_all_the_same() {
    let given = Given {
        body_max: 40,
        frames: vec![
            (
                1500,
                b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]}\n\n",
            ),
            (
                1700,
                b"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"comple",
            ),
            (1900, b"tion_tokens\":4}}\n\ndata: [DONE]\n\n"),
        ],
        ..Given::default()
    };
    let row = row(given, Content::Full);
    assert_eq!(row.response_body, None);
    assert_eq!((row.input_tokens, row.output_tokens), (Some(9), Some(4)));
    assert_eq!(row.parse_status, ParseStatus::Partial);
    assert_eq!(row.first_token_us, None, "nobody read when tokens came");
    assert_eq!(row.degraded, Some(vec!["body".to_owned()]));
}

#[test]
fn under_digest_hashes_stand_in_for_text() {
    let turn = |messages: &str| {
        let body = format!(
            "{{\"model\":\"canary\",\"stop\":[\"canary\"],\"max_tokens\":7,\"messages\":[{messages}]}}"
        );
        let given = Given {
            request: Some((body.leak().as_bytes(), TrackEnd::Clean)),
            content_type: "application/json",
            frames: vec![(
                1500,
                b"{\"id\":\"canary\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"canary\"}}]}",
            )],
            session: ("x-session-id", "canary"),
            ..Given::default()
        };
        row(given, Content::Digest)
    };
    let user = "{\"role\":\"user\",\"content\":\"canary\"}";
    let answer = "{\"content\":\"canary\",\"role\":\"assistant\"}";
    let (first, second) = (turn(user), turn(&format!("{user},{answer},{user}")));
    assert!(!format!("{first:?}{second:?}").contains("canary"));
    let (one, three) = (first.segments.unwrap(), second.segments.unwrap());
    assert_eq!((one.len(), three.len()), (1, 3));
    assert_eq!(one[0], three[0]);
    let hashes = second.segment_hashes.unwrap();
    assert_eq!(
        first.answer_hash,
        Some(hashes[1]),
        "the answer is found in the history"
    );
    assert_eq!(hashes[0], hashes[2]);
    assert_eq!(second.text_block_bytes, Some(256));
    assert_eq!(second.text_block_hashes.map(|hashes| hashes.len()), Some(1));
    assert_eq!(first.session_key, second.session_key);
    assert_eq!(
        (first.max_tokens, first.stop, first.request_body),
        (Some(7), None, None)
    );
}

#[test]
fn an_image_is_named_and_its_bytes_are_kept_only_when_asked() {
    let image = "AAAA".repeat(2000);
    let body: &'static str =
        format!("{{\"model\":\"m\",\"u\":\"data:image/png;base64,{image}\"}}").leak();
    let with = |keep_blobs| {
        let given = Given {
            request: Some((body.as_bytes(), TrackEnd::Clean)),
            ..Given::default()
        };
        let plan = Plan {
            keep_blobs,
            ..plan(Content::Full)
        };
        row_of(given, plan)
    };
    let named = with(false);
    let blobs = named.request_blobs.unwrap();
    assert_eq!((blobs[0].bytes, blobs[0].data.as_ref()), (6000, None));
    assert!(named.request_body.unwrap().len() < 300);
    assert_eq!(named.request_bytes, Some(body.len() as i64));
    assert_eq!(named.model.as_deref(), Some("m"));
    // The writer of segments takes them apart.
    assert_eq!(with(true).request_body.as_deref(), Some(body.as_bytes()));
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
