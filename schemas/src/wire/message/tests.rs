use super::*;
use proptest::prelude::*;

#[test]
fn messages_are_kept_byte_for_byte() {
    let body = br#"{"model":"m", "messages":[ {"role" : "user","content":"caf\u00e9"} ,
        {"content":null,"role":"assistant"}, 7 ]}"#;
    let messages = read_messages(Dialect::OpenaiChat, body).unwrap();
    let shown: Vec<_> = messages
        .iter()
        .map(|message| {
            (
                message.role.as_str(),
                std::str::from_utf8(&message.raw).unwrap(),
            )
        })
        .collect();
    let expected = [
        ("user", r#"{"role" : "user","content":"caf\u00e9"}"#),
        ("assistant", r#"{"content":null,"role":"assistant"}"#),
        ("", "7"),
    ];
    assert_eq!(shown, expected);
}

#[test]
fn a_prompt_is_one_message() {
    let read = |body: &str| read_messages(Dialect::OpenaiCompletions, body.as_bytes());
    let text = read(r#"{"prompt": "a b"}"#).unwrap();
    let list = read(r#"{"prompt": ["a b"]}"#).unwrap();
    let ids = read(r#"{"prompt": [1, 2]}"#).unwrap();
    assert_eq!((text.len(), text[0].role.as_str()), (1, PROMPT_ROLE));
    assert_eq!(text[0].raw, b"\"a b\"");
    assert_eq!(text[0].canonical, list[0].canonical);
    assert_ne!(text[0].canonical, ids[0].canonical);
    assert_ne!(
        read(r#"{"prompt": [2, 1]}"#).unwrap()[0].canonical,
        ids[0].canonical
    );
}

#[test]
fn what_has_no_messages_gives_none() {
    let cases: [(Dialect, &[u8]); 6] = [
        (Dialect::OpenaiChat, b""),
        (Dialect::OpenaiChat, b"{}"),
        (Dialect::OpenaiChat, b"{\"messages\": {}}"),
        (Dialect::OpenaiChat, b"[]"),
        (Dialect::OpenaiCompletions, b"{\"messages\": []}"),
        (Dialect::Unknown, b"{\"messages\": []}"),
    ];
    for (dialect, body) in cases {
        assert_eq!(read_messages(dialect, body), None);
    }
    assert_eq!(
        read_messages(Dialect::OpenaiChat, b"{\"messages\": []}"),
        Some(vec![])
    );
}

#[test]
fn a_list_past_the_bound_is_not_read() {
    let body = |count: usize| format!("{{\"messages\":[{}]}}", vec!["1"; count].join(","));
    let read = |count| read_messages(Dialect::OpenaiChat, body(count).as_bytes());
    assert_eq!(read(MESSAGES_MAX).unwrap().len(), MESSAGES_MAX);
    assert_eq!(read(MESSAGES_MAX + 1), None);
}

proptest! {
    #[test]
    fn any_bytes_can_be_read(body: Vec<u8>) {
        for dialect in Dialect::ALL {
            read_messages(dialect, &body);
        }
    }
}
