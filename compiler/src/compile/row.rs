//! One exchange, as the stages see it: without its bodies, which are read again when the content
//! of the chosen turns is made.

use std::collections::HashSet;
use std::sync::Arc;
use truetape_schemas::capture::{Exchange, Outcome};
use truetape_schemas::wire::Dialect;

mod text;

pub(crate) use text::{AnswerHash, End, MessageHash, PromptChain, Role, Text};

/// A text that many rows share.
pub(crate) type Name = Arc<str>;

/// One exchange. Rows are kept small: there are millions of them.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) exchange_id: String,
    pub(crate) proxy_id: Name,
    pub(crate) upstream: Name,
    pub(crate) method: Name,
    pub(crate) path: Name,
    pub(crate) dialect: Dialect,
    pub(crate) model: Option<Name>,
    pub(crate) stream: Option<bool>,
    pub(crate) params: Option<Box<Params>>,

    pub(crate) arrival: i64,
    pub(crate) arrival_mono_us: i64,
    pub(crate) end_us: Option<i64>,
    pub(crate) ttft_us: Option<i64>,
    pub(crate) e2el_us: Option<i64>,
    pub(crate) inflight: Option<i32>,
    pub(crate) status: Option<i32>,
    pub(crate) outcome: Outcome,
    pub(crate) finish_reasons: Option<Vec<String>>,

    pub(crate) input_tokens: Option<i64>,
    /// Only of complete answers (D7).
    pub(crate) output_tokens: Option<i64>,
    pub(crate) cached_tokens: Option<i64>,
    pub(crate) reasoning_tokens: Option<i64>,

    pub(crate) block_tokens: Option<u32>,
    pub(crate) blocks: Vec<u64>,
    /// How many of them hold as many tokens as a block can.
    pub(crate) full_blocks: usize,

    pub(crate) session_key: Option<Name>,
    pub(crate) session_rule: Option<Name>,
    pub(crate) parent_session_key: Option<Name>,
    pub(crate) response_id: Option<String>,
    pub(crate) previous_response_id: Option<String>,
    pub(crate) replay_run: Option<Name>,
    /// Who called, where that is known: a hash.
    pub(crate) client: Option<Client>,
    /// The connection, where there was one, and the recorder process that numbered it.
    pub(crate) conn: Option<(Name, Option<i64>, i64)>,
    /// Exchanges that it had carried before.
    pub(crate) conn_seq: i32,
    /// Token events that had come when the client went away; none where it stayed.
    pub(crate) token_events: Option<i32>,
    /// What the client's own retry header says.
    pub(crate) retry_count: u32,

    /// What the request's text says; none where there is no text.
    pub(crate) text: Option<Box<Text>>,
    /// The segment that holds it, by position.
    pub(crate) segment: u32,
}

/// Sampling parameters, as production asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Params {
    pub(crate) max_tokens: Option<i64>,
    pub(crate) min_tokens: Option<i64>,
    pub(crate) temperature: Option<f64>,
    pub(crate) top_p: Option<f64>,
    pub(crate) n: Option<i32>,
    pub(crate) stop: Option<Vec<String>>,
    pub(crate) ignore_eos: Option<bool>,
    pub(crate) seed: Option<i64>,
    pub(crate) response_format: Option<String>,
    pub(crate) tool_count: Option<i32>,
}

impl Row {
    /// When the exchange ended, on the clock of `arrival`.
    pub(crate) fn end(&self) -> Option<i64> {
        self.end_us.map(|end| self.arrival.saturating_add(end))
    }

    /// Whether the answer is whole.
    pub(crate) fn complete(&self) -> bool {
        is_complete(self.outcome, self.status)
    }

    /// Whether the server turned the request away before it did any work: an arrival that never
    /// looked at its cache.
    pub(crate) fn refused(&self) -> bool {
        // 408 and 499 are said of clients that were too slow, or left: the work may have been done.
        let refuses = |status: i32| (400..500).contains(&status) && !matches!(status, 408 | 499);
        self.status.is_some_and(refuses)
    }

    /// The canonical order: the same whatever the order of files and segments.
    pub(crate) fn order(&self) -> (i64, i64, &str) {
        (self.arrival, self.arrival_mono_us, &self.exchange_id)
    }

    /// Whether this is a chat, whose history is a list of messages.
    pub(crate) fn is_chat(&self) -> bool {
        let has_history = matches!(
            self.dialect,
            Dialect::OpenaiChat
                | Dialect::OpenaiResponses
                | Dialect::AnthropicMessages
                | Dialect::OllamaChat
        );
        has_history && self.text.is_some()
    }
}

fn is_complete(outcome: Outcome, status: Option<i32>) -> bool {
    outcome == Outcome::Complete && status.is_none_or(|status| status < 400)
}

/// Keeps one copy of texts that many rows share.
#[derive(Debug, Default)]
pub(crate) struct Names(HashSet<Name>);

impl Names {
    pub(crate) fn get(&mut self, text: &str) -> Name {
        if let Some(name) = self.0.get(text) {
            return Arc::clone(name);
        }
        let name: Name = Arc::from(text);
        self.0.insert(Arc::clone(&name));
        name
    }
}

/// Makes the row of an exchange.
pub(crate) fn row(exchange: Exchange, extra: Extra, segment: u32, names: &mut Names) -> Row {
    let dialect = Dialect::from_name(&exchange.dialect);
    let since_sent = |at: Option<i64>| Some(at?.saturating_sub(exchange.request_end_us?));
    let complete = is_complete(exchange.outcome, exchange.status);
    let full_blocks = full_blocks(&exchange);
    let left = exchange.outcome == Outcome::ClientAborted;
    let events = exchange.token_event_offsets_us.as_ref().filter(|_| left);
    let params = (dialect != Dialect::Trace).then(|| Box::new(params(&exchange)));
    let mut name = |text: &str| names.get(text);
    let proxy_id = name(&exchange.proxy_id);
    Row {
        conn: (exchange.conn_id >= 0).then(|| {
            (
                Arc::clone(&proxy_id),
                exchange.proxy_epoch_us,
                exchange.conn_id,
            )
        }),
        conn_seq: exchange.conn_seq,
        token_events: events.and_then(|events| i32::try_from(events.len()).ok()),
        proxy_id,
        upstream: name(&exchange.upstream),
        method: name(&exchange.method),
        path: name(&exchange.path),
        dialect,
        model: exchange.model.as_deref().map(&mut name),
        stream: exchange.stream,
        params,
        arrival: exchange.arrival,
        arrival_mono_us: exchange.arrival_mono_us,
        end_us: exchange.end_us,
        ttft_us: since_sent(exchange.first_token_us),
        e2el_us: since_sent(exchange.last_token_us),
        inflight: exchange.inflight,
        status: exchange.status,
        outcome: exchange.outcome,
        finish_reasons: exchange.finish_reasons,
        input_tokens: exchange.input_tokens,
        output_tokens: exchange.output_tokens.filter(|_| complete),
        cached_tokens: exchange.cached_tokens,
        reasoning_tokens: exchange.reasoning_tokens.filter(|_| complete),
        full_blocks,
        block_tokens: exchange.block_tokens.and_then(|n| u32::try_from(n).ok()),
        blocks: exchange.block_hashes.unwrap_or_default(),
        session_key: exchange.session_key.as_deref().map(&mut name),
        session_rule: exchange.session_rule.as_deref().map(&mut name),
        parent_session_key: exchange.parent_session_key.as_deref().map(&mut name),
        response_id: exchange.response_id,
        previous_response_id: exchange.previous_response_id,
        replay_run: exchange.replay_run.as_deref().map(&mut name),
        exchange_id: exchange.exchange_id,
        client: extra.client,
        retry_count: extra.retry_count,
        text: extra.text.map(Box::new),
        segment,
    }
}

/// A trace's last block may be partial, or left out: its length tells.
fn full_blocks(exchange: &Exchange) -> usize {
    let blocks = exchange.block_hashes.as_ref().map_or(0, Vec::len);
    match (exchange.input_tokens, exchange.block_tokens) {
        (Some(tokens), Some(block)) if block > 0 => {
            usize::try_from(tokens / i64::from(block)).map_or(0, |full| full.min(blocks))
        }
        _ => blocks,
    }
}

fn params(exchange: &Exchange) -> Params {
    Params {
        max_tokens: exchange.max_tokens,
        min_tokens: exchange.min_tokens,
        temperature: exchange.temperature,
        top_p: exchange.top_p,
        n: exchange.n,
        stop: exchange.stop.clone(),
        ignore_eos: exchange.ignore_eos,
        seed: exchange.seed,
        response_format: exchange.response_format.clone(),
        tool_count: exchange.tool_count,
    }
}

/// What is read off the bodies and headers of an exchange before they are let go.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Extra {
    pub(crate) text: Option<Text>,
    pub(crate) client: Option<Client>,
    pub(crate) retry_count: u32,
}

/// Who called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Client {
    /// The recorder process whose key the name was hashed with, as a hash; none where the caller
    /// gave the name itself.
    pub(crate) recorder: Option<u64>,
    /// The hash of the name.
    pub(crate) name: u64,
}
