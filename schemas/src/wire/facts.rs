//! What came back, once it is over.

use crate::capture::{LengthSource, Outcome, ParseStatus};
use serde::Serialize;
use serde_json::{Map, Value};

/// What an answer says, and when it said it. Times are on the clock that
/// [`ResponseReader::push`](super::ResponseReader::push) was given. Unknown is `None`, never 0.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ResponseFacts {
    /// How the exchange ended.
    pub outcome: Outcome,
    /// How well the body could be read.
    pub parse_status: ParseStatus,
    /// The push that completed the first token event (D1, D2).
    pub first_token_us: Option<i64>,
    /// The same for the first token event that is not reasoning.
    pub first_output_us: Option<i64>,
    /// The push that completed the last token event (D3).
    pub last_token_us: Option<i64>,
    /// Every token event, in order.
    pub token_event_offsets_us: Vec<i64>,
    /// The choice of each; as long as `token_event_offsets_us`.
    pub token_event_choices: Vec<i32>,
    /// Events that carried data, whatever was in it; the end marker counts. 0 for a JSON body.
    pub data_events: u64,
    /// Prompt tokens, cached ones included.
    pub input_tokens: Option<i64>,
    /// Where it comes from.
    pub input_tokens_source: LengthSource,
    /// Generated tokens, reasoning included, all choices: the last value that was reported.
    pub output_tokens: Option<i64>,
    /// Where it comes from.
    pub output_tokens_source: LengthSource,
    /// Prompt tokens from the server's prefix cache.
    pub cached_tokens: Option<i64>,
    /// Where it comes from.
    pub cached_tokens_source: LengthSource,
    /// The reasoning part of `output_tokens`.
    pub reasoning_tokens: Option<i64>,
    /// Where it comes from.
    pub reasoning_tokens_source: LengthSource,
    /// By choice; `None` where a choice never said.
    pub finish_reasons: Vec<Option<String>>,
    /// The answer's text, by choice.
    pub texts: Vec<String>,
    /// The reasoning text, by choice.
    pub reasoning_texts: Vec<String>,
    /// The refusal, by choice.
    pub refusals: Vec<String>,
    /// The tool calls, by choice, as a message of the history would hold them.
    pub tool_calls: Vec<Vec<Value>>,
    /// Code of the error body or error event, as text.
    pub error_code: Option<String>,
    /// Its type.
    pub error_type: Option<String>,
    /// The provider's id of the answer.
    pub response_id: Option<String>,
    /// Lines or events that were dropped because they were too long.
    pub skipped: u64,
}

impl ResponseFacts {
    /// Rebuilds the message of choice 0 as a client appends it to its history. Reasoning is not
    /// part of it: most clients do not send it back.
    ///
    /// `None` where the answer has no choice 0.
    pub fn assistant_message(&self) -> Option<Value> {
        let text = self.texts.first()?;
        let tool_calls = self.tool_calls.first().map_or(&[][..], Vec::as_slice);
        let refusal = self.refusals.first().map_or("", String::as_str);
        let mut message = Map::new();
        message.insert("role".to_owned(), "assistant".into());
        let has_content = !text.is_empty() || (tool_calls.is_empty() && refusal.is_empty());
        let content = if has_content {
            Value::from(text.as_str())
        } else {
            Value::Null
        };
        message.insert("content".to_owned(), content);
        if !refusal.is_empty() {
            message.insert("refusal".to_owned(), refusal.into());
        }
        if !tool_calls.is_empty() {
            message.insert("tool_calls".to_owned(), tool_calls.into());
        }
        Some(Value::Object(message))
    }
}
