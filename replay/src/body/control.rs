//! Fields of a request that the plan decides, in the words of each dialect.

use super::Shape;
use super::fields::Fields;
use crate::lengths::{Ask, Enforcement};
use serde_json::Value;
use truetape_schemas::set::Turn;
use truetape_schemas::wire::Dialect;

/// Fields that the plan decides, whatever the recorded request said.
pub(super) const CONTROLLED: &[&str] = &[
    "model",
    "stream",
    "stream_options",
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "min_tokens",
    "ignore_eos",
    "stop",
    "sampling_params",
    "cache_salt",
    "extra_key",
    "previous_response_id",
    "messages",
    "prompt",
    "input",
    "text",
];

/// The name newer OpenAI clients use for `max_tokens`.
const MAX_COMPLETION_TOKENS: &str = "max_completion_tokens";

/// The name of the answer that a request of `openai_responses` continues.
pub(super) const PREVIOUS: &str = "previous_response_id";

/// Whether requests of a dialect can be sent and their answers measured.
pub fn can_send(dialect: Dialect) -> bool {
    matches!(
        dialect,
        Dialect::OpenaiChat
            | Dialect::OpenaiCompletions
            | Dialect::OpenaiResponses
            | Dialect::AnthropicMessages
            | Dialect::SglangGenerate
    )
}

/// Whether a dialect has a way to ask for a length from below: Anthropic's has none.
pub fn can_enforce(dialect: Dialect) -> bool {
    dialect != Dialect::AnthropicMessages
}

/// Whether a dialect has a field that keeps prefixes apart: Anthropic's has none.
pub fn can_salt(dialect: Dialect) -> bool {
    dialect != Dialect::AnthropicMessages
}

/// Whether usage has to be asked for in a stream: the others always tell it.
pub(super) fn asks_for_usage(dialect: Dialect) -> bool {
    matches!(
        dialect,
        Dialect::OpenaiChat | Dialect::OpenaiCompletions | Dialect::Unknown
    )
}

/// Members in the making.
struct Members(Vec<(&'static str, String)>);

impl Members {
    fn put(&mut self, name: &'static str, value: Option<Value>) {
        self.0.extend(value.map(|value| (name, value.to_string())));
    }

    fn put_as_written(&mut self, name: &'static str, json: Option<&str>) {
        self.0.extend(json.map(|json| (name, json.to_owned())));
    }
}

/// The controlled fields of one request with their JSON, in a fixed order.
pub(super) fn controlled(
    turn: &Turn,
    ask: &Ask,
    shape: &Shape<'_>,
    recorded: Option<&Fields>,
) -> Vec<(&'static str, String)> {
    let mut members = Members(Vec::new());
    members.put("model", shape.model.map(Value::from));
    // Measured as a stream whatever production did: without one there is no first token, and
    // without usage no length.
    members.put("stream", Some(Value::Bool(true)));
    let dialect = Dialect::from_name(&turn.dialect);
    match dialect {
        Dialect::SglangGenerate => sglang(&mut members, turn, ask, recorded),
        Dialect::AnthropicMessages => anthropic(&mut members, turn, ask, recorded),
        _ => openai(&mut members, turn, ask, recorded, dialect),
    }
    if can_salt(dialect) {
        let salt = shape.cache_salt.map(|salt| salt_of(salt, recorded));
        let name = match dialect {
            Dialect::SglangGenerate => "extra_key",
            _ => "cache_salt",
        };
        members.put(name, salt.map(Value::from));
    }
    if asks_for_usage(dialect) {
        members.0.push(("stream_options", with_usage(recorded)));
    }
    members.0
}

fn openai(
    members: &mut Members,
    turn: &Turn,
    ask: &Ask,
    recorded: Option<&Fields>,
    dialect: Dialect,
) {
    let newer = recorded.is_some_and(|recorded| recorded.get(MAX_COMPLETION_TOKENS).is_some());
    let bound = match dialect {
        Dialect::OpenaiResponses => "max_output_tokens",
        _ if newer => MAX_COMPLETION_TOKENS,
        _ => "max_tokens",
    };
    members.put(bound, ask.max_tokens.map(Value::from));
    members.put("min_tokens", ask.min_tokens.map(Value::from));
    members.put("ignore_eos", ignore_eos(turn, ask));
    if recorded.is_none() {
        members.put("temperature", turn.temperature.map(Value::from));
        members.put("top_p", turn.top_p.map(Value::from));
        if dialect != Dialect::OpenaiResponses {
            members.put("n", turn.n.map(Value::from));
            members.put("seed", turn.seed.map(Value::from));
        }
    }
    if dialect == Dialect::OpenaiResponses {
        // How the answer's text is to look; in `/generate` the same word is the prompt.
        members.put_as_written("text", recorded.and_then(|recorded| recorded.get("text")));
        return;
    }
    stop(members, turn, ask, recorded);
}

/// Stop strings are part of what production asked; only an enforced length has no room for them.
fn stop(members: &mut Members, turn: &Turn, ask: &Ask, recorded: Option<&Fields>) {
    if ask.enforcement == Enforcement::Enforce {
        return;
    }
    match recorded.and_then(|recorded| recorded.get("stop")) {
        Some(stop) => members.put_as_written("stop", Some(stop)),
        None => members.put("stop", turn.stop.clone().map(Value::from)),
    }
}

/// Anthropic's stop strings have another name, and stay in the template.
fn anthropic(members: &mut Members, turn: &Turn, ask: &Ask, recorded: Option<&Fields>) {
    members.put("max_tokens", ask.max_tokens.map(Value::from));
    if recorded.is_none() {
        members.put("temperature", turn.temperature.map(Value::from));
        members.put("top_p", turn.top_p.map(Value::from));
        members.put("stop_sequences", turn.stop.clone().map(Value::from));
    }
}

/// SGLang's own dialect has an object for everything that shapes an answer.
fn sglang(members: &mut Members, turn: &Turn, ask: &Ask, recorded: Option<&Fields>) {
    let written: Option<Fields> = recorded
        .and_then(|recorded| recorded.get("sampling_params"))
        .and_then(|params| serde_json::from_str(params).ok());
    let mut inner = Members(Vec::new());
    inner.put("max_new_tokens", ask.max_tokens.map(Value::from));
    inner.put("min_new_tokens", ask.min_tokens.map(Value::from));
    inner.put("ignore_eos", ignore_eos(turn, ask));
    stop(&mut inner, turn, ask, written.as_ref());
    if written.is_none() {
        inner.put("temperature", turn.temperature.map(Value::from));
        inner.put("top_p", turn.top_p.map(Value::from));
        inner.put("n", turn.n.map(Value::from));
    }
    let decided = ["max_new_tokens", "min_new_tokens", "ignore_eos", "stop"];
    let kept = written.iter().flat_map(Fields::iter);
    let kept = kept.filter(|(name, _)| !decided.contains(name));
    let own = inner.0.iter().map(|(name, json)| (*name, json.as_str()));
    let params = super::inner(own.chain(kept));
    let params = format!("{{{}}}", String::from_utf8_lossy(&params));
    members.0.push(("sampling_params", params));
}

fn ignore_eos(turn: &Turn, ask: &Ask) -> Option<Value> {
    match ask.enforcement {
        Enforcement::Enforce => Some(Value::Bool(true)),
        Enforcement::AsRecorded => turn.ignore_eos.map(Value::Bool),
        Enforcement::Cap => None,
    }
}

pub(super) const INCLUDE_USAGE: &str = "include_usage";

/// The recorded options of the stream, with usage asked for.
fn with_usage(recorded: Option<&Fields>) -> String {
    let options = recorded.map(stream_options).unwrap_or_default();
    let others = options.iter().filter(|(name, _)| *name != INCLUDE_USAGE);
    let fields = super::inner(std::iter::once((INCLUDE_USAGE, "true")).chain(others));
    format!("{{{}}}", String::from_utf8_lossy(&fields))
}

pub(super) fn stream_options(recorded: &Fields) -> Fields {
    let options = recorded.get("stream_options");
    options
        .and_then(|options| serde_json::from_str(options).ok())
        .unwrap_or_default()
}

pub(super) fn recorded_salt(recorded: &Fields) -> Option<String> {
    let salt = recorded
        .get("cache_salt")
        .or_else(|| recorded.get("extra_key"))?;
    serde_json::from_str(salt).ok()
}

/// The run's salt; where production kept the prefixes of its tenants apart, one of its own for each.
fn salt_of(salt: &str, recorded: Option<&Fields>) -> String {
    let Some(own) = recorded.and_then(recorded_salt) else {
        return salt.to_owned();
    };
    let mut hasher = blake3::Hasher::new_derive_key(SALT_CONTEXT);
    // With its length, so that no two pairs of salts are one text.
    hasher.update(&(salt.len() as u64).to_le_bytes());
    hasher.update(salt.as_bytes());
    hasher.update(own.as_bytes());
    hasher.finalize().to_hex().to_string()
}

/// What the hash of two salts is for.
const SALT_CONTEXT: &str = "truetape replay: cache_salt of a run and of a recorded request";
