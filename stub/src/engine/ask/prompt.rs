//! The prompt of a request, rendered.

use super::super::refusal::Refusal;
use super::fields::Fields;
use serde_json::Value;
use truetape_fidelity::tokens;

/// Renders the messages of a chat, which must be a list of at least one object with a role.
pub(super) fn chat(fields: &Fields<'_>) -> Result<Vec<u8>, Refusal> {
    let messages = fields.list("messages")?.unwrap_or_default();
    if messages.is_empty() {
        return Err(Refusal::bad(
            Some("messages"),
            "`messages` needs at least one message.",
        ));
    }
    if messages
        .iter()
        .any(|message| message.get("role").and_then(Value::as_str).is_none())
    {
        return Err(Refusal::bad(
            Some("messages"),
            "Every message needs a `role`.",
        ));
    }
    fields.list("tools")?;
    Ok(tokens::render_chat(fields.body()))
}

/// Renders the prompt of a completion: a text, token ids, or a list of one of these.
pub(super) fn completions(fields: &Fields<'_>) -> Result<Vec<u8>, Refusal> {
    let prompt = fields.get("prompt").and_then(rendered).ok_or_else(|| {
        let message = "`prompt` must be a text, a list of token ids, or a list of one of these.";
        Refusal::bad(Some("prompt"), message)
    })?;
    if prompt.is_empty() {
        return Err(Refusal::bad(Some("prompt"), "The prompt cannot be empty."));
    }
    Ok(prompt)
}

fn rendered(prompt: &Value) -> Option<Vec<u8>> {
    match prompt {
        Value::String(text) => Some(tokens::render_completion(text)),
        Value::Array(list) => match &list[..] {
            [only] if !only.is_number() => rendered(only),
            ids => ids
                .iter()
                .map(id)
                .collect::<Option<Vec<u32>>>()
                .map(|ids| tokens::render_ids(&ids)),
        },
        _ => None,
    }
}

fn id(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|id| u32::try_from(id).ok())
}
