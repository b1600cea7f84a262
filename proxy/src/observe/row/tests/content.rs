use super::*;

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
