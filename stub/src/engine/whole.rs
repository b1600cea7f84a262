//! An answer that is not streamed.

use super::ask::{Api, Ask};
use super::driver::Progress;
use super::events::{Name, Usage, finish_reason};
use serde_json::{Value, json};
use tokio::sync::watch;

/// Waits for an answer to be whole. Nothing when the engine stops before.
pub(super) async fn wait(mut progress: watch::Receiver<Progress>) -> Option<Progress> {
    progress
        .wait_for(|progress| progress.done)
        .await
        .ok()
        .map(|progress| *progress)
}

/// The JSON of a whole answer.
pub(super) fn answer(ask: &Ask, progress: Progress, hide_cached_tokens: bool) -> Value {
    let name = Name::of(ask);
    let object = match ask.api {
        Api::Chat => "chat.completion",
        Api::Completions => "text_completion",
    };
    let usage = Usage {
        prompt_tokens: ask.job.prompt_tokens,
        cached_tokens: (!hide_cached_tokens).then_some(progress.cached_tokens),
        completion_tokens: progress.said,
    };
    json!({
        "id": name.id,
        "object": object,
        "created": name.created_s,
        "model": name.model,
        "choices": [choice(ask)],
        "usage": usage.to_json(),
    })
}

fn choice(ask: &Ask) -> Value {
    let reason = finish_reason(ask.finish, &ask.speech);
    let text = ask.speech.text();
    match (ask.api, &ask.speech.tool) {
        (Api::Completions, _) => {
            json!({"index": 0, "text": text, "logprobs": null, "finish_reason": reason})
        }
        (Api::Chat, None) => {
            let message = json!({"role": "assistant", "content": text});
            json!({"index": 0, "message": message, "logprobs": null, "finish_reason": reason})
        }
        (Api::Chat, Some(name)) => {
            let function = json!({"name": name, "arguments": text});
            let call =
                json!({"id": ask.speech.call_id(), "type": "function", "function": function});
            let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
            json!({"index": 0, "message": message, "logprobs": null, "finish_reason": reason})
        }
    }
}
