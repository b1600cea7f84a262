//! What came of checking a case.

/// What came of a case.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    /// Keys of `expect` that were compared.
    pub(crate) keys: usize,
    /// Sentences of `must_not` that a machine could read.
    pub(crate) sentences: usize,
    /// What is wrong.
    pub(crate) wrong: Vec<Wrong>,
    /// How late the machine woke threads meanwhile.
    pub(crate) machine_ms: f64,
    /// What was allowed to be added to a time at most.
    pub(crate) noise_ms: f64,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    /// The key of `expect` that it is about; `None` when it is wrong whatever a case expects.
    pub(crate) key: Option<String>,
    /// A line for people.
    pub(crate) text: String,
}

impl Wrong {
    /// Wrong whatever the case expects.
    pub(crate) fn fault(text: impl Into<String>) -> Self {
        Self {
            key: None,
            text: text.into(),
        }
    }

    /// Wrong about a key.
    pub(crate) fn about(key: &str, text: String) -> Self {
        Self {
            key: Some(key.to_owned()),
            text,
        }
    }
}
