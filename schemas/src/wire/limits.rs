//! Every bound of the readers, and what it costs when all are reached at once.
//!
//! One answer can make a reader hold, at worst:
//!
//! - a line and an event of [`LINE_BYTES_MAX`](super::sse::LINE_BYTES_MAX), 16 MiB each, or a
//!   JSON body of 32 MiB: 32 MiB;
//! - its texts: 32 MiB;
//! - 1,048,576 token events of 8 + 4 bytes: 12 MiB;
//! - of a coded one, what one frame unpacks to: 64 MiB, and a window of 16 MiB.
//!
//! Together 156 MiB for a hostile answer; an ordinary one takes some kilobytes. Past a bound facts
//! are lost, the answer is [`Partial`](crate::capture::ParseStatus::Partial), and reading goes on.

/// Choices of one answer. OpenAI allows an `n` of 128.
pub const CHOICES_MAX: usize = 128;

/// Tool calls of one choice. OpenAI allows 128 tools.
pub const TOOL_CALLS_MAX: usize = 256;

/// Bytes of a JSON body that is kept until its end.
pub const JSON_BYTES_MAX: usize = 32 << 20;

/// Bytes of all texts, reasoning and arguments of one answer.
pub const TEXT_BYTES_MAX: usize = 32 << 20;

/// Bytes that a coded body may unpack to. Honest JSON packs to a tenth or more, so that it is 16 MiB
/// and more as sent; a body of 64 KiB can be made to say as much.
pub const DECODED_BYTES_MAX: usize = 64 << 20;

/// Token events whose times are kept.
pub const TOKEN_EVENTS_MAX: usize = 1 << 20;

/// Items of a list inside a document that are read: choices, tool calls, parts of a message.
pub const LIST_ITEMS_MAX: usize = 1_024;

/// Messages of one request. The longest agent sessions have some thousands.
pub const MESSAGES_MAX: usize = 64 * 1024;

/// The bounds of one answer, as values, so that tests can reach them.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnswerLimits {
    pub(super) json_bytes_max: usize,
    pub(super) text_bytes_max: usize,
    pub(super) token_events_max: usize,
}

impl Default for AnswerLimits {
    fn default() -> Self {
        Self {
            json_bytes_max: JSON_BYTES_MAX,
            text_bytes_max: TEXT_BYTES_MAX,
            token_events_max: TOKEN_EVENTS_MAX,
        }
    }
}

const _: () = assert!(
    2 * super::sse::LINE_BYTES_MAX + TEXT_BYTES_MAX + TOKEN_EVENTS_MAX * 12 <= 76 << 20
        && JSON_BYTES_MAX <= 2 * super::sse::LINE_BYTES_MAX
);
