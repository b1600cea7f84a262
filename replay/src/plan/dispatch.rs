//! What a plan is made of.

use crate::body::Body;
use crate::lengths::Enforcement;
use crate::schedule::Node;
use truetape_schemas::wire::Dialect;

/// One request to be sent.
#[derive(Clone, Debug, PartialEq)]
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
