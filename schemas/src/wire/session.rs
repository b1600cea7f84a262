//! Which conversation a request says it belongs to.
//!
//! Clients and gateways name the session in many ways. The rules are asked in a fixed order and
//! the first that fires gives the key; its name goes into the row, so that whoever reads a capture
//! can doubt a rule, and so that rules can be added without changing what older rows mean. Where
//! no rule fires the compiler goes by message history.

use super::RequestFacts;
use crate::capture::Header;
use crate::ids::content_id;
use serde::Serialize;

mod rules;
mod trace;

pub use rules::{Confidence, Rule};

/// Marks our own replayed traffic, with the id of the run.
pub const RUN_HEADER: &str = "x-truetape-run";

/// Marks what our replayer asks a target before a run: neither production nor part of the run.
pub const PROBE_HEADER: &str = "x-truetape-probe";

/// The most common explicit session header, and the one that our own clients send.
pub const SESSION_HEADER: &str = "x-session-id";

/// Longest key that is kept as it is, in bytes. A longer one is hashed.
pub const KEY_BYTES_MAX: usize = 256;

/// What a request says about its session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SessionFacts {
    /// The session, by the rule that fired. `None` also where the rule only gives a link:
    /// see [`Rule::PreviousResponse`].
    pub session_key: Option<String>,
    /// The rule that fired: the [`Rule::name`] of it.
    pub session_rule: Option<String>,
    /// The session that spawned this one.
    pub parent_session_key: Option<String>,
    /// The answer that this request continues.
    pub previous_response_id: Option<String>,
    /// W3C trace id.
    pub trace_id: Option<String>,
    /// The run that this request replays for; it is not production then.
    pub replay_run: Option<String>,
}

/// Applies the rules, without configured headers.
pub fn session_of(headers: &[Header], facts: &RequestFacts) -> SessionFacts {
    session_of_configured(headers, facts, &[])
}

/// Applies the rules; the headers named in `configured` come first, in their order.
pub fn session_of_configured(
    headers: &[Header],
    facts: &RequestFacts,
    configured: &[String],
) -> SessionFacts {
    let headers = Headers(headers);
    let mut session = SessionFacts {
        previous_response_id: facts.previous_response_id.clone(),
        trace_id: headers.get("traceparent").and_then(trace::trace_id),
        replay_run: headers.get(RUN_HEADER).map(str::to_owned),
        ..SessionFacts::default()
    };
    let request = rules::Request {
        headers,
        facts,
        configured,
        trace_id: &session.trace_id,
    };
    if let Some((rule, link)) = rules::first(&request) {
        session.session_key = link.key.map(bounded);
        session.parent_session_key = link.parent.map(bounded);
        session.session_rule = Some(rule.name().to_owned());
    }
    session
}

fn bounded(key: String) -> String {
    if key.len() > KEY_BYTES_MAX {
        content_id(key.as_bytes())
    } else {
        key
    }
}

/// Headers, looked up without regard to case. Of a header that comes twice the first counts; an
/// empty one counts as none.
#[derive(Clone, Copy, Debug)]
struct Headers<'a>(&'a [Header]);

impl<'a> Headers<'a> {
    fn get(self, name: &str) -> Option<&'a str> {
        let mut values = self
            .0
            .iter()
            .filter(|header| header.name.eq_ignore_ascii_case(name));
        values
            .next()
            .map(|header| header.value.trim())
            .filter(|value| !value.is_empty())
    }
}

#[cfg(test)]
mod tests;
