//! What a request's body says, and what stands in for it.

use super::super::Plan;
use super::isolated;
use crate::config::Content;
use crate::digest::Hashes;
use serde::Deserialize;
use serde_json::value::RawValue;
use truetape_schemas::capture::{Exchange, ParseStatus};
use truetape_schemas::wire::{self, Dialect, Message, RequestFacts, coding};

/// What a request asked for.
#[derive(Debug, Default)]
pub(in crate::observe) struct Asked {
    pub(in crate::observe) facts: RequestFacts,
    /// The dialect, where the body could be read.
    pub(in crate::observe) dialect: Option<Dialect>,
    /// Its messages, where somebody needs them.
    pub(in crate::observe) messages: Vec<Message>,
    /// What stands in for its text, where that is not kept.
    pub(in crate::observe) hashes: Option<Hashes>,
}

#[derive(Deserialize)]
struct Tools<'a> {
    #[serde(borrow, alias = "functions")]
    tools: Option<&'a RawValue>,
}

/// Reads a body as it was sent. A reader that panics costs what it would have said.
pub(super) fn read(plan: &Plan, dialect: Dialect, coded: Option<&str>, body: &[u8]) -> Asked {
    let unpacked = isolated(|| coding::decode(coded, body).ok()).flatten();
    let Some(body) = unpacked else {
        return Asked {
            facts: unreadable(dialect),
            ..Asked::default()
        };
    };
    let dialect = isolated(|| dialect.refined(&body)).unwrap_or(dialect);
    let mut asked = Asked {
        dialect: Some(dialect),
        facts: isolated(|| (plan.readers.request)(dialect, &body)).unwrap_or_else(failed),
        ..Asked::default()
    };
    let hashed = plan.content == Content::Digest;
    if !hashed && plan.sampling.is_none() {
        return asked;
    }
    let messages = isolated(|| wire::read_messages(dialect, &body)).flatten();
    if let (true, Some(key), Some(messages)) = (hashed, &plan.digest_key, &messages) {
        let tools = serde_json::from_slice::<Tools<'_>>(&body).ok();
        let tools = tools.and_then(|tools| tools.tools);
        let tools = tools.map(|tools| tools.get().as_bytes());
        asked.hashes = isolated(|| key.hashes(tools, messages));
    }
    asked.messages = messages.unwrap_or_default();
    asked
}

fn failed() -> RequestFacts {
    RequestFacts {
        parse_status: ParseStatus::Failed,
        ..RequestFacts::default()
    }
}

/// A body that could not be unpacked. Of one that nobody would have read, nothing is lost.
fn unreadable(dialect: Dialect) -> RequestFacts {
    match dialect {
        Dialect::Unknown | Dialect::Trace => RequestFacts::default(),
        _ => failed(),
    }
}

/// Puts what was asked into the row.
pub(super) fn put(exchange: &mut Exchange, asked: &mut Asked) {
    let facts = &asked.facts;
    exchange.parse_status = facts.parse_status;
    exchange.model.clone_from(&facts.model);
    exchange.stream = facts.stream;
    exchange.max_tokens = facts.max_tokens;
    exchange.min_tokens = facts.min_tokens;
    exchange.temperature = facts.temperature;
    exchange.top_p = facts.top_p;
    exchange.n = facts.n;
    exchange.stop.clone_from(&facts.stop);
    exchange.ignore_eos = facts.ignore_eos;
    exchange.seed = facts.seed;
    exchange.response_format.clone_from(&facts.response_format);
    exchange.tool_count = facts.tool_count;
    if let Some(hashes) = asked.hashes.take() {
        exchange.segments = Some(hashes.segments);
        exchange.segment_hashes = Some(hashes.segment_hashes);
        exchange.text_block_bytes = i32::try_from(crate::limits::TEXT_BLOCK_BYTES).ok();
        exchange.text_block_hashes = Some(hashes.text_block_hashes);
    }
}
