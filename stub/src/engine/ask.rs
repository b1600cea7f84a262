//! What a request body asks for, or why it is refused.

use super::config::Config;
use super::driver::Finish;
use super::refusal::Refusal;
use super::speech::Speech;
use fields::Fields;
use serde_json::Value;
use truetape_fidelity::blocks::{self, BlockKey};
use truetape_fidelity::engine::Job;
use truetape_fidelity::tokens;

mod fields;
mod prompt;
mod tool;

/// `max_tokens` of a completion that does not say, as in OpenAI's API.
const COMPLETION_TOKENS_DEFAULT: u64 = 16;

/// Which of the two APIs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Api {
    Chat,
    Completions,
}

/// A request that the engine can serve.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ask {
    pub(super) api: Api,
    pub(super) model: String,
    pub(super) stream: bool,
    pub(super) usage: UsageWanted,
    pub(super) speech: Speech,
    pub(super) finish: Finish,
    pub(super) job: Job,
}

/// Where a streamed answer says how long it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct UsageWanted {
    /// In an event of its own, at the end.
    pub(super) at_end: bool,
    /// In every event.
    pub(super) always: bool,
}

/// Reads a body.
pub(super) fn read(api: Api, body: &[u8], config: &Config) -> Result<Ask, Refusal> {
    let body = parsed(body)?;
    let fields = Fields::of(&body)?;
    let model = model(&fields, config)?;
    if fields.count("n")?.unwrap_or(1) != 1 {
        return Err(Refusal::bad(
            Some("n"),
            "This server gives one choice: n must be 1.",
        ));
    }
    let stream = fields.flag("stream")?.unwrap_or(false);
    let usage = usage_wanted(&fields, stream)?;
    let (rendered, tool) = match api {
        Api::Chat => (prompt::chat(&fields)?, tool::called(&fields)?),
        Api::Completions => (prompt::completions(&fields)?, None),
    };
    let prompt_tokens = tokens::count(&rendered);
    let wanted = Wanted::read(api, &fields, config)?;
    let limit = wanted.limit(prompt_tokens, config.model_len())?;
    let request_seed = fields.integer("seed")?.unwrap_or(0);
    let seed = tokens::output_seed(&rendered, [config.seed, request_seed.cast_unsigned()]);
    let (output_tokens, finish) = wanted.length(seed, limit);
    let speech = Speech {
        seed,
        tokens: output_tokens,
        tool,
    };
    let key = block_key(&fields, config)?;
    let blocks = chain(&key, rendered, &speech, config.engine.block_tokens);
    let job = Job {
        arrival_us: 0,
        prompt_tokens,
        output_tokens,
        blocks,
    };
    Ok(Ask {
        api,
        model,
        stream,
        usage,
        speech,
        finish,
        job,
    })
}

/// Renders the prompt of a body without serving it: a chat if it has messages.
pub(super) fn render(body: &[u8], config: &Config) -> Result<Vec<u8>, Refusal> {
    let body = parsed(body)?;
    let fields = Fields::of(&body)?;
    model(&fields, config)?;
    match fields.has("messages") {
        true => prompt::chat(&fields),
        false => prompt::completions(&fields),
    }
}

fn parsed(body: &[u8]) -> Result<Value, Refusal> {
    let refusal = |cause| Refusal::bad(None, format!("The body is not JSON: {cause}."));
    serde_json::from_slice(body).map_err(refusal)
}

/// The model asked for, which must be ours; a request may leave it out.
fn model(fields: &Fields<'_>, config: &Config) -> Result<String, Refusal> {
    let model = fields.text("model")?.unwrap_or(&config.model);
    if model == config.model {
        Ok(model.to_owned())
    } else {
        Err(Refusal::no_model(model))
    }
}

/// What a body says about the length of its answer.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    max_tokens: Option<u64>,
    min_tokens: u64,
    ignore_eos: bool,
}

impl Wanted {
    fn read(api: Api, fields: &Fields<'_>, config: &Config) -> Result<Self, Refusal> {
        if config.quirks.refuse_length_control {
            for name in ["ignore_eos", "min_tokens"] {
                if fields.has(name) {
                    let message = format!("Extra inputs are not permitted: `{name}`.");
                    return Err(Refusal::bad(Some(name), message));
                }
            }
        }
        let newer = match api {
            Api::Chat => fields.count("max_completion_tokens")?,
            Api::Completions => None,
        };
        let max_tokens = match newer {
            Some(tokens) => Some(tokens),
            None => fields.count("max_tokens")?,
        };
        if max_tokens == Some(0) {
            let message = "max_tokens must be at least 1, got 0.";
            return Err(Refusal::bad(Some("max_tokens"), message));
        }
        let max_tokens = match api {
            Api::Chat => max_tokens,
            Api::Completions => max_tokens.or(Some(COMPLETION_TOKENS_DEFAULT)),
        };
        let min_tokens = fields.count("min_tokens")?.unwrap_or(0);
        if let Some(max) = max_tokens.filter(|max| min_tokens > *max) {
            let message = format!(
                "min_tokens must be less than or equal to max_tokens={max}, got {min_tokens}."
            );
            return Err(Refusal::bad(Some("min_tokens"), message));
        }
        let ignore_eos = fields.flag("ignore_eos")?.unwrap_or(false);
        Ok(Self {
            max_tokens,
            min_tokens,
            ignore_eos,
        })
    }

    /// The most tokens it may get: what it says, else what the context leaves.
    fn limit(&self, prompt_tokens: u64, model_len: u64) -> Result<u64, Refusal> {
        let Some(room) = model_len
            .checked_sub(prompt_tokens)
            .filter(|room| *room > 0)
        else {
            let message = format!(
                "This model's maximum context length is {model_len} tokens. However, your request \
                 has {prompt_tokens} input tokens. Please reduce the length of the input messages."
            );
            return Err(Refusal::bad(Some("input_tokens"), message));
        };
        let asked = self.max_tokens.unwrap_or(room).max(self.min_tokens);
        if asked > room {
            let message = format!(
                "'max_tokens' or 'max_completion_tokens' is too large: {asked}. This model's \
                 maximum context length is {model_len} tokens and your request has {prompt_tokens} \
                 input tokens ({asked} > {model_len} - {prompt_tokens})."
            );
            return Err(Refusal::bad(Some("max_tokens"), message));
        }
        Ok(asked)
    }

    fn length(&self, seed: u64, limit: u64) -> (u64, Finish) {
        let natural = tokens::natural_tokens(seed).max(self.min_tokens);
        if self.ignore_eos || natural > limit {
            (limit, Finish::Length)
        } else {
            (natural, Finish::Stop)
        }
    }
}

fn usage_wanted(fields: &Fields<'_>, stream: bool) -> Result<UsageWanted, Refusal> {
    let Some(options) = fields.object("stream_options")? else {
        return Ok(UsageWanted::default());
    };
    if !stream {
        let message = "Stream options can only be defined when `stream=True`.";
        return Err(Refusal::bad(Some("stream_options"), message));
    }
    let at_end = options.flag("include_usage")?.unwrap_or(false);
    let always = at_end && options.flag("continuous_usage_stats")?.unwrap_or(false);
    Ok(UsageWanted { at_end, always })
}

/// Requests with different salts share no block.
fn block_key(fields: &Fields<'_>, config: &Config) -> Result<BlockKey, Refusal> {
    let salt = fields.text("cache_salt")?;
    if salt == Some("") {
        let message = "Parameter 'cache_salt' must be a non-empty string if provided.";
        return Err(Refusal::bad(Some("cache_salt"), message));
    }
    let salt = salt
        .filter(|_| !config.quirks.ignore_cache_salt)
        .unwrap_or_default();
    Ok(BlockKey::new(salt.as_bytes()))
}

/// Hashes of the full blocks of the prompt and of what will be said to it.
fn chain(key: &BlockKey, rendered: Vec<u8>, speech: &Speech, block_tokens: u32) -> Vec<u64> {
    let mut all = rendered;
    all.extend_from_slice(speech.text().as_bytes());
    let block_bytes = block_tokens.max(1) as usize * tokens::BYTES_PER_TOKEN;
    blocks::chain(key, all.chunks_exact(block_bytes))
}
