//! How requests, streams and lengths are read off the bytes that passed by.
//!
//! Read in this order:
//!
//! 1. [`Dialect`]: which language a request speaks, by its method and path;
//! 2. [`sse`] and [`ndjson`]: bytes to events, whatever the network cut them into;
//! 3. [`coding`]: what a body was packed with, undone;
//! 4. [`read_request`] and [`read_messages`]: what was asked;
//! 5. [`ResponseReader`]: what came back, when, and how it ended;
//! 6. [`canonical`]: when two messages are the same message;
//! 7. [`session`]: which conversation a request says it belongs to;
//! 8. [`limits`]: what a hostile answer can cost.
//!
//! Nothing here fails: a reader that can fail is a reader that can break what it watches. What
//! cannot be read costs a fact, and is said in a [`ParseStatus`](crate::capture::ParseStatus).
//! The normative page is `schemas/spec/wire.md`.

mod dialect;
mod facts;
mod json;
pub mod limits;
mod line;
mod message;
mod openai;
mod request;
mod response;

pub mod canonical;
pub mod coding;
pub mod ndjson;
pub mod session;
pub mod sse;

pub use dialect::Dialect;
pub use facts::ResponseFacts;
pub use message::{Message, PROMPT_ROLE, read_messages};
pub use request::{RequestFacts, read_request};
pub use response::{BodyEnd, ResponseReader};
