//! What the text of a request says, as hashes: a row travels without its words.

/// What the text of a request says.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Text {
    /// Its messages, in order.
    pub(crate) messages: Box<[MessageHash]>,
    /// The recorded answer, as the message a client appends to its history.
    pub(crate) answer: Option<AnswerHash>,
    /// The paragraphs of a prompt that is one text.
    pub(crate) prompt: Option<Box<PromptChain>>,
    /// Paragraphs of the answer, the arguments of its calls included.
    pub(crate) said: Box<[u64]>,
    /// Paragraphs that came from outside of the conversation: what a sub-agent or a summary begins
    /// with was said by somebody else.
    pub(crate) heard: Box<[u64]>,
    /// Bytes of the prompt as the reference engine renders it; as it was sent where only hashes
    /// stand in for it.
    pub(crate) rendered_bytes: u64,
    /// Whether it looks like a health probe.
    pub(crate) probe: bool,
    /// Whether it says of itself that it is beside a conversation: a title, a suggestion.
    pub(crate) aside: bool,
    /// Whether it has images, sounds or files: their tokens are not those of any text.
    pub(crate) media: bool,
    /// Whether hashes of the recorder stand in for words that nobody kept.
    pub(crate) hashed: bool,
}

/// Who speaks in a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Role {
    /// The system, a developer, or the list of tools: shared by strangers, so it ties nobody
    /// together.
    System,
    /// The user.
    #[default]
    User,
    /// The model.
    Assistant,
    /// A tool, or anybody else.
    Other,
}

impl Role {
    /// Reads the word on the wire, or the one that stands in for it.
    pub(crate) fn of(word: &str) -> Self {
        match word {
            "system" | "developer" | "tools" => Self::System,
            "user" | "prompt" | "input" => Self::User,
            "assistant" | "model" => Self::Assistant,
            _ => Self::Other,
        }
    }
}

/// The identity of a message, as hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MessageHash {
    /// The hash of its identity.
    pub(crate) hash: u64,
    /// The same without what changes when it is sent again: ids, numbers, dates.
    pub(crate) loose: u64,
    /// Its length as it was sent.
    pub(crate) bytes: u32,
    /// Who speaks.
    pub(crate) role: Role,
}

impl MessageHash {
    /// Whether the system speaks.
    pub(crate) fn is_system(&self) -> bool {
        self.role == Role::System
    }
}

/// The identity of an answer, as hashes: those of the message that a client appends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AnswerHash {
    /// The hash of its identity.
    pub(crate) hash: u64,
    /// The same without what changes when it is sent again.
    pub(crate) loose: u64,
    /// Its length.
    pub(crate) bytes: u32,
    /// Its first paragraph, in a prompt that is one text.
    pub(crate) first: Option<u64>,
}

/// A prompt that is one text, by its paragraphs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PromptChain {
    /// The chain over all paragraphs.
    pub(crate) full: u64,
    /// The last paragraph.
    pub(crate) last: u64,
    /// Ends of paragraphs, the last ones: where an earlier prompt may have ended.
    pub(crate) ends: Box<[End]>,
}

/// The end of a paragraph inside a prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct End {
    /// The chain over the paragraphs up to here.
    pub(crate) chain: u64,
    /// The paragraph that follows.
    pub(crate) next: u64,
}

#[cfg(test)]
mod tests {
    use super::{MessageHash, Role};

    #[test]
    fn rows_stay_small() {
        assert_eq!(size_of::<MessageHash>(), 24);
    }

    #[test]
    fn the_system_is_whoever_strangers_share() {
        for word in ["system", "developer", "tools"] {
            assert_eq!(Role::of(word), Role::System);
        }
        assert_eq!(Role::of("assistant"), Role::Assistant);
        assert_eq!(Role::of("model"), Role::Assistant);
        assert_eq!(Role::of("function"), Role::Other);
        assert_eq!(Role::of("prompt"), Role::User);
    }
}
