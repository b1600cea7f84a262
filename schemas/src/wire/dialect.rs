//! Which language a request speaks.

/// An API whose requests and answers can be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// OpenAI chat completions, as spoken by OpenAI, vLLM, SGLang, llama.cpp and many gateways.
    OpenaiChat,
    /// OpenAI text completions, likewise.
    OpenaiCompletions,
    /// A row of an imported length trace: there was no request to read.
    Trace,
    /// Any other traffic. It is recorded, with its lengths NULL.
    #[default]
    Unknown,
}

impl Dialect {
    /// The word in the column `dialect`.
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenaiChat => "openai_chat",
            Self::OpenaiCompletions => "openai_completions",
            Self::Trace => "trace",
            Self::Unknown => "unknown",
        }
    }

    /// Reads the word in the column; a word of a later version is [`Dialect::Unknown`].
    pub fn from_name(name: &str) -> Self {
        match name {
            "openai_chat" => Self::OpenaiChat,
            "openai_completions" => Self::OpenaiCompletions,
            "trace" => Self::Trace,
            _ => Self::Unknown,
        }
    }

    /// Tells the dialect of a request. The path may be an absolute URL, carry a query and have a
    /// prefix, as in `/openai/v1/chat/completions?api-version=1`.
    pub fn of(method: &str, path: &str) -> Self {
        if method != "POST" {
            return Self::Unknown;
        }
        let path = path.split(['?', '#']).next().unwrap_or_default();
        let path = path.trim_end_matches('/');
        if path.ends_with("/chat/completions") {
            Self::OpenaiChat
        } else if path.ends_with("/completions") {
            Self::OpenaiCompletions
        } else {
            Self::Unknown
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Dialect;

    #[test]
    fn a_dialect_is_told_by_method_and_path() {
        let cases = [
            ("POST", "/v1/chat/completions", Dialect::OpenaiChat),
            (
                "POST",
                "/openai/deployments/x/chat/completions?api-version=2",
                Dialect::OpenaiChat,
            ),
            ("POST", "/v1/chat/completions/", Dialect::OpenaiChat),
            (
                "POST",
                "http://h/v1/completions#x",
                Dialect::OpenaiCompletions,
            ),
            (
                "POST",
                "/v1/completions?next=/chat/completions",
                Dialect::OpenaiCompletions,
            ),
            ("POST", "/completions", Dialect::OpenaiCompletions),
            ("GET", "/v1/chat/completions", Dialect::Unknown),
            ("POST", "/v1/xchat/completions2", Dialect::Unknown),
            ("POST", "/v1/embeddings", Dialect::Unknown),
            ("POST", "", Dialect::Unknown),
        ];
        for (method, path, dialect) in cases {
            assert_eq!(Dialect::of(method, path), dialect, "{method} {path}");
        }
    }

    #[test]
    fn a_name_is_read_back() {
        for dialect in [
            Dialect::OpenaiChat,
            Dialect::OpenaiCompletions,
            Dialect::Trace,
            Dialect::Unknown,
        ] {
            assert_eq!(Dialect::from_name(dialect.name()), dialect);
        }
        assert_eq!(Dialect::from_name("of a later version"), Dialect::Unknown);
    }
}
