//! What a plan is made of.

use crate::body::Body;
use crate::client::Carrier;
use crate::lengths::Enforcement;
use crate::schedule::Node;
use truetape_schemas::capture::Outcome;
use truetape_schemas::set::Turn;
use truetape_schemas::wire::Dialect;

/// One request to be sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Planned {
    /// Row of the turn in the set.
    pub turn_id: i64,
    /// Its session.
    pub session: String,
    /// Its depth in the session.
    pub turn: i32,
    /// When it is to be sent, and after what.
    pub node: Node,
    /// Path to send to.
    pub path: String,
    /// The dialect of its answer.
    pub dialect: Dialect,
    /// Its body.
    pub body: Body,
    /// Prompt tokens of the set.
    pub input_tokens: Option<i64>,
    /// Output tokens of the set.
    pub output_tokens: Option<i64>,
    /// How its length is controlled.
    pub enforcement: Enforcement,
    /// The turn whose answer it continues by the id that the target gave it.
    pub continues: Option<i64>,
    /// When production's client went away.
    pub cancel: Option<Cancel>,
    /// Where it was on a connection of production.
    pub carrier: Option<Carrier>,
}

/// Where a turn was on a connection of production; none where the set does not say.
pub(super) fn carrier(turn: &Turn) -> Option<Carrier> {
    let (conn, seq) = (turn.recorded_conn?, turn.recorded_conn_seq?);
    Some(Carrier {
        conn,
        is_first: seq == 0,
    })
}

/// When a client went away in production.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancel {
    /// After so many token events.
    AfterEvents(usize),
    /// So long after its request, where nobody counted its tokens.
    AfterUs(i64),
}

impl Cancel {
    /// When the client of a turn went away; none when it stayed, or nobody knows.
    pub fn of(turn: &Turn) -> Option<Self> {
        if turn.recorded_outcome != Outcome::ClientAborted {
            return None;
        }
        // Events are what it had seen; tokens, where a set has only those, are nearly as many.
        let events = turn.recorded_token_events.map(i64::from);
        let events = events.or(turn.output_tokens).filter(|events| 0 < *events);
        let events = events.and_then(|events| usize::try_from(events).ok());
        let after_us = turn.recorded_end_us.filter(|end_us| 0 < *end_us);
        // Who left before the first token left by the clock.
        events
            .map(Self::AfterEvents)
            .or(after_us.map(Self::AfterUs))
    }
}

/// A turn that is not sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Unsent {
    /// Row of the turn in the set.
    pub turn_id: i64,
    /// Its session.
    pub session: String,
    /// Its depth in the session.
    pub turn: i32,
    /// When it would have been due.
    pub due_us: i64,
    /// Prompt tokens of the set.
    pub input_tokens: Option<i64>,
    /// Output tokens of the set.
    pub output_tokens: Option<i64>,
    /// Why.
    pub reason: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_goes_away_when_production_s_did() {
        let turn = |outcome, output_tokens, recorded_end_us| Turn {
            recorded_outcome: outcome,
            output_tokens,
            recorded_end_us,
            ..Turn::default()
        };
        let gone = Outcome::ClientAborted;
        let events = |recorded_token_events| Turn {
            recorded_token_events,
            ..turn(gone, Some(7), Some(9))
        };
        for (turn, expected) in [
            (turn(Outcome::Complete, Some(5), Some(9)), None),
            (events(Some(3)), Some(Cancel::AfterEvents(3))),
            (events(Some(0)), Some(Cancel::AfterUs(9))),
            (turn(gone, Some(5), Some(9)), Some(Cancel::AfterEvents(5))),
            (turn(gone, Some(0), Some(9)), Some(Cancel::AfterUs(9))),
            (turn(gone, None, Some(9)), Some(Cancel::AfterUs(9))),
            (turn(gone, None, None), None),
        ] {
            assert_eq!(Cancel::of(&turn), expected, "{turn:?}");
        }
    }
}
