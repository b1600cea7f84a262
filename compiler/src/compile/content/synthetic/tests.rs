use super::super::rebuild;
use super::*;
use proptest::prelude::*;
use serde_json::json;
use truetape_fidelity::tokens::{count, render_chat, render_completion};

mod dialects;
mod exact;

fn synthetic() -> Synthetic<'static> {
    Synthetic::new(&Secret([9; 32]), 1, None)
}

fn new_body(body: &Value) -> Value {
    let dialect = if body.get("messages").is_some() {
        Dialect::OpenaiChat
    } else {
        Dialect::OpenaiCompletions
    };
    let prompt = synthetic()
        .prompt(dialect, body.as_object().unwrap(), &mut Notes::default())
        .unwrap();
    rebuild::body(dialect, &prompt).unwrap()
}

fn conversation(question: &str) -> Value {
    json!({
        "model": "m", "max_tokens": 9, "user": "canary@example.com", "stop": ["Canary"],
        "metadata": {"patient": "Canary"},
        "tools": [{"type": "function", "function": {"name": "canary_lookup",
            "description": "Looks up a Canary", "parameters": {"type": "object", "properties": {}}}}],
        "messages": [
            {"role": "system", "content": "You know Canary Smith."},
            {"role": "user", "name": "Canary_Smith", "content": [
                {"type": "text", "text": "Who is Canary?"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,Canary"}},
                {"type": "text", "text": " Tell me."}]},
            {"role": "assistant", "content": null, "tool_calls": [{"id": "call_Canary",
                "type": "function",
                "function": {"name": "canary_lookup", "arguments": "{\"who\":\"Canary\"}"}}]},
            {"role": "tool", "tool_call_id": "call_Canary", "content": "Canary is a bird."},
            {"role": "user", "content": question},
        ],
    })
}

#[test]
fn nothing_that_was_said_remains_and_the_length_stays() {
    let old = conversation("And the other Canary?");
    let new = new_body(&old);
    assert!(!new.to_string().to_lowercase().contains("canary"), "{new}");
    assert_eq!(count(&render_chat(&new)), count(&render_chat(&old)));
    let roles = |body: &Value| -> Vec<Value> {
        body["messages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|message| message["role"].clone())
            .collect()
    };
    assert_eq!(roles(&new), roles(&old));
    assert_eq!(
        new["messages"][3]["tool_call_id"],
        new["messages"][2]["tool_calls"][0]["id"]
    );
    assert_eq!(
        new["messages"][2]["tool_calls"][0]["function"]["name"],
        new["tools"][0]["function"]["name"]
    );
    assert_eq!(
        (&new["model"], &new["max_tokens"]),
        (&json!("m"), &json!(9))
    );
}

/// Leading tokens that two prompts share.
fn shared(a: &[u8], b: &[u8]) -> usize {
    a.chunks(4)
        .zip(b.chunks(4))
        .take_while(|(a, b)| a == b)
        .count()
}

#[test]
fn turns_of_a_conversation_share_what_they_shared() {
    let (a, b) = (
        conversation("And the other?"),
        conversation("And the third of them?"),
    );
    let old = shared(&render_chat(&a), &render_chat(&b));
    let new = shared(&render_chat(&new_body(&a)), &render_chat(&new_body(&b)));
    assert_eq!(new, old);
}

#[test]
fn another_secret_gives_other_words() {
    let body = json!({"prompt": "The quick brown fox jumps over the lazy dog."});
    let other = Synthetic::new(&Secret([8; 32]), 1, None)
        .prompt(
            Dialect::OpenaiCompletions,
            body.as_object().unwrap(),
            &mut Notes::default(),
        )
        .unwrap();
    assert_ne!(
        rebuild::body(Dialect::OpenaiCompletions, &other).unwrap(),
        new_body(&body)
    );
}

proptest! {
    #[test]
    fn prompts_share_tokens_as_the_old_ones_did(
        common in "[ -~]{0,80}", a in "[ -~]{0,40}", b in "[ -~]{0,40}",
    ) {
        let prompts = [format!("{common}{a}"), format!("{common}{b}")];
        let old = prompts.clone().map(|prompt| render_completion(&prompt));
        let new = prompts.map(|prompt| {
            render_completion(new_body(&json!({"prompt": prompt}))["prompt"].as_str().unwrap())
        });
        prop_assert_eq!(new[0].len(), old[0].len());
        // A word is one of a few hundred: two that should differ may agree by chance, not four.
        let (old, new) = (shared(&old[0], &old[1]), shared(&new[0], &new[1]));
        prop_assert!(new >= old && new < old + 4, "{new} for {old}");
    }
}

#[test]
fn a_cache_salt_becomes_another_one_for_each() {
    let salt = |salt: &str| {
        let mut body = conversation("?");
        body["cache_salt"] = salt.into();
        new_body(&body)["cache_salt"].clone()
    };
    assert!(salt("Canary").is_string());
    assert_ne!(salt("Canary"), "Canary");
    assert_eq!(salt("Canary"), salt("Canary"));
    assert_ne!(salt("Canary"), salt("tenant"));
    assert!(salt("").is_null());
}
