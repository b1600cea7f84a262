use super::*;
use proptest::prelude::*;
use serde_json::{Value, json};

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

/// The history of one conversation, as each dialect sends it back.
fn history(dialect: Dialect) -> Value {
    let call = json!({"port": "Cork"});
    match dialect {
        Dialect::AnthropicMessages => json!({"system": "Be kind.", "messages": [
            {"role": "user", "content": [{"type": "text", "text": "a", "cache_control": {}}]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "t", "signature": "s"},
                {"type": "text", "text": "b"},
                {"type": "tool_use", "id": "1", "name": "tide", "input": call},
            ]},
        ]}),
        Dialect::OpenaiResponses => json!({"instructions": "Be kind.", "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "a"}]},
            {"type": "reasoning", "id": "r", "summary": []},
            {"type": "message", "id": "m", "role": "assistant", "status": "completed",
             "content": [{"type": "output_text", "text": "b", "annotations": []}]},
            {"type": "function_call", "id": "f", "call_id": "1", "name": "tide",
             "arguments": call.to_string()},
        ]}),
        _ => json!({"messages": [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": "b", "tool_calls": [
                {"id": "1", "type": "function",
                 "function": {"name": "tide", "arguments": call.to_string()}},
            ]},
        ]}),
    }
}

#[test]
fn one_conversation_has_one_identity_in_every_dialect() {
    let identities = |dialect: Dialect| -> Vec<Vec<u8>> {
        let body = history(dialect).to_string();
        let messages = read_messages(dialect, body.as_bytes()).unwrap();
        messages
            .into_iter()
            .map(|message| message.canonical)
            .collect()
    };
    let chat = identities(Dialect::OpenaiChat);
    assert_eq!(chat.len(), 3);
    for dialect in [
        Dialect::AnthropicMessages,
        Dialect::OpenaiResponses,
        Dialect::OllamaChat,
    ] {
        assert_eq!(identities(dialect), chat, "{dialect:?}");
    }
}

#[test]
fn items_of_one_turn_are_kept_byte_for_byte() {
    let body = br#"{"input": [{"type":"reasoning" },{"role":"assistant","content": "b"}, "x",
        {"role":"user","content":"c"}]}"#;
    let messages = read_messages(Dialect::OpenaiResponses, body).unwrap();
    let raw: Vec<&str> = messages
        .iter()
        .map(|message| std::str::from_utf8(&message.raw).unwrap())
        .collect();
    let turn = r#"{"type":"reasoning" },{"role":"assistant","content": "b"}"#;
    assert_eq!(raw, [turn, "\"x\"", r#"{"role":"user","content":"c"}"#]);
    let roles: Vec<&str> = messages.iter().map(|message| &*message.role).collect();
    assert_eq!(roles, ["assistant", "", "user"]);
}

#[test]
fn where_a_client_asks_for_caching_is_no_part_of_a_message() {
    let read = |body: &str| read_messages(Dialect::AnthropicMessages, body.as_bytes()).unwrap();
    let marked = read(
        r#"{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"1",
        "content":[{"type":"text","text":"x","cache_control":{}}],"cache_control":{}}]}]}"#,
    );
    let plain = read(
        r#"{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"1",
        "content":[{"type":"text","text":"x"}]}]}]}"#,
    );
    assert_eq!(marked[0].canonical, plain[0].canonical);
    assert_ne!(marked[0].raw, plain[0].raw);
}

#[test]
fn a_prompt_is_found_under_its_name_in_every_dialect() {
    let cases = [
        (Dialect::LlamacppCompletion, r#"{"prompt":"a"}"#),
        (Dialect::OllamaGenerate, r#"{"prompt":"a"}"#),
        (Dialect::TgiGenerate, r#"{"inputs":"a"}"#),
        (Dialect::SglangGenerate, r#"{"text":"a"}"#),
        (Dialect::OpenaiCompletions, r#"{"prompt":["a"]}"#),
    ];
    for (dialect, body) in cases {
        let messages = read_messages(dialect, body.as_bytes()).unwrap();
        assert_eq!(messages.len(), 1, "{dialect:?}");
        assert_eq!(
            messages[0].canonical, b"role \"prompt\"\ntext \"a\"\n",
            "{dialect:?}"
        );
    }
    assert_eq!(
        read_messages(Dialect::OpenaiEmbeddings, br#"{"input":"a"}"#),
        None
    );
}
