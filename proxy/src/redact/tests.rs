use super::credentials::decoded;
use super::*;
use http::HeaderMap;
use http::HeaderValue;
use truetape_schemas::ids::content_id;

#[test]
fn the_allow_list_is_sorted_and_holds_no_credential() {
    assert!(KEPT.iter().all(|name| name.len() <= KEPT_CHARS_MAX));
    assert!(KEPT.is_sorted());
    for credential in CREDENTIALS
        .iter()
        .chain(SECRETS)
        .chain(&["openai-organization"])
    {
        assert!(!KEPT.contains(credential));
    }
}

#[test]
fn only_allowed_headers_are_kept_in_order() {
    let mut headers = HeaderMap::new();
    headers.append("x-session-id", HeaderValue::from_static("s1"));
    headers.append(
        "authorization",
        HeaderValue::from_static("Bearer sk-123456789"),
    );
    headers.append("x-mine", HeaderValue::from_static("m:1"));
    headers.append("accept", HeaderValue::from_static("a"));
    headers.append("accept", HeaderValue::from_static("b"));
    let kept = HeaderText::of(&headers, &["x-mine".to_owned()]).headers();
    let pairs: Vec<(&str, &str)> = kept
        .iter()
        .map(|h| (h.name.as_str(), h.value.as_str()))
        .collect();
    assert_eq!(
        pairs,
        [
            ("x-session-id", "s1"),
            ("x-mine", "m:1"),
            ("accept", "a"),
            ("accept", "b")
        ]
    );
}

#[test]
fn secret_parameters_are_scrubbed_and_others_are_not() {
    let cases = [
        ("/v1/x", "/v1/x"),
        ("/v1/x?key=AIza&n=1", "/v1/x?key=scrubbed&n=1"),
        (
            "/v1/x?Api-Key=a&access_token=b",
            "/v1/x?Api-Key=scrubbed&access_token=scrubbed",
        ),
        (
            "/v1/x?X-Amz-Signature=a&client_secret=&v",
            "/v1/x?X-Amz-Signature=scrubbed&client_secret=&v",
        ),
        ("/v1/x?a=b=c&a", "/v1/x?a=b=c&a"),
    ];
    for (given, kept) in cases {
        assert_eq!(path(given), kept);
    }
}

#[test]
fn credentials_are_overwritten_wherever_they_are_echoed() {
    let mut headers = HeaderMap::new();
    headers.append(
        "authorization",
        HeaderValue::from_static("Bearer sk-123456789"),
    );
    headers.append("cookie", HeaderValue::from_static("a=1; session=abcdefgh"));
    let credentials = Credentials::of(&headers, "");
    let mut body = b"bad key sk-123456789, sk-123456789; abcdefgh, a=1, Bearer".to_vec();
    let length = body.len();
    credentials.secrets().scrub(&mut body);
    assert_eq!(body.len(), length);
    assert_eq!(
        String::from_utf8(body).unwrap(),
        "bad key ************, ************; ********, a=1, Bearer"
    );
    assert_eq!(format!("{credentials:?}"), "Credentials(2)");
}

#[test]
fn secrets_of_the_query_are_overwritten_as_sent_and_as_read() {
    let query = "key=AIza%2Fcanary&n=12345678&code=7";
    let credentials = Credentials::of(&HeaderMap::new(), query);
    let mut body = b"key=AIza%2Fcanary is AIza/canary; 12345678 7".to_vec();
    credentials.secrets().scrub(&mut body);
    assert_eq!(
        String::from_utf8(body).unwrap(),
        "key=************* is ***********; 12345678 7"
    );
    assert_eq!(decoded("a%2"), b"a%2");
    assert_eq!(decoded("%zz%41+"), b"%zzA+");
}

#[test]
fn basic_credentials_are_overwritten_as_read() {
    let mut headers = HeaderMap::new();
    // ada.lovelace:analytical-engine
    let sent = "basic YWRhLmxvdmVsYWNlOmFuYWx5dGljYWwtZW5naW5l";
    headers.append("authorization", HeaderValue::from_static(sent));
    let credentials = Credentials::of(&headers, "");
    let mut body = b"no ada.lovelace with analytical-engine".to_vec();
    credentials.secrets().scrub(&mut body);
    assert_eq!(body, b"no ************ with *****************");
    assert!(credentials.secrets().are_in("x ada.lovelace") && !credentials.secrets().are_in("ada"));
}

#[test]
fn a_session_token_is_kept_as_a_hash() {
    let mut headers = HeaderMap::new();
    headers.append(SESSION_TOKEN, HeaderValue::from_static("token-canary"));
    assert!(HeaderText::of(&headers, &[]).headers().is_empty());
    let credentials = Credentials::of(&headers, "");
    let kept = credentials.session_header().unwrap();
    assert_eq!(kept.value, content_id(b"token-canary"));
    let mut body = b"no session token-canary".to_vec();
    credentials.secrets().scrub(&mut body);
    assert_eq!(body, b"no session ************");
}

#[test]
fn a_caller_has_one_name_for_each_process_and_keeps_its_secret() {
    let caller = |key: &str| {
        let mut headers = HeaderMap::new();
        headers.insert("authorization", HeaderValue::from_str(key).unwrap());
        Credentials::of(&headers, "")
    };
    let key = CallerKey::random();
    let one = key.name(&caller("Bearer sk-1"));
    assert_eq!(one, key.name(&caller("Bearer sk-1")));
    assert_ne!(one, key.name(&caller("Bearer sk-2")));
    assert_ne!(one, CallerKey::random().name(&caller("Bearer sk-1")));
    assert_eq!(key.name(&Credentials::default()), None);
}
