//! The messages of a request, one by one.

use super::Dialect;

/// One message of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// `user`, `assistant`, ...; `prompt` for the prompt of a completion.
    pub role: String,
    /// Its identity: see [`super::canonical`]. Equal bytes mean the same message.
    pub canonical: Vec<u8>,
    /// Its JSON as it was sent, byte for byte.
    pub raw: Vec<u8>,
}

/// The role of the one message that stands for the prompt of a completion.
pub const PROMPT_ROLE: &str = "prompt";

/// Reads the messages of a request body: those of a chat, or the prompt of a completion as one.
/// `None` where the dialect has none or the body cannot be read.
pub fn read_messages(dialect: Dialect, body: &[u8]) -> Option<Vec<Message>> {
    let (_, _) = (dialect, body);
    None
}
