//! What the model says.

use std::borrow::Cow;
use truetape_fidelity::tokens;

/// The opening of a tool call's arguments.
const ARGUMENTS_OPEN: &str = "{\"q\":\"";

/// Their end.
const ARGUMENTS_CLOSE: &str = "\"}";

/// Arguments of one token, which has no room for words.
const ARGUMENTS_EMPTY: &str = "{  }";

/// Everything that a request makes the model say, token by token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Speech {
    pub(super) seed: u64,
    /// Tokens, at least one.
    pub(super) tokens: u64,
    /// The function it calls, if that is what it does.
    pub(super) tool: Option<String>,
}

impl Speech {
    /// The text of one token: always four bytes of ASCII.
    ///
    /// Arguments are whole JSON whatever their length: the model plans them to end with its last
    /// token. Their words are shifted by the two bytes that the opening takes.
    pub(super) fn token(&self, index: u64) -> Cow<'static, str> {
        if self.tool.is_none() {
            return Cow::Borrowed(tokens::output_word(self.seed, index));
        }
        let (first, last) = (index == 0, index + 1 == self.tokens);
        match (first, last) {
            (true, true) => Cow::Borrowed(ARGUMENTS_EMPTY),
            (true, false) => Cow::Owned(ARGUMENTS_OPEN.chars().take(4).collect()),
            _ => {
                let before: String = match index {
                    1 => ARGUMENTS_OPEN.chars().skip(4).collect(),
                    _ => tokens::output_word(self.seed, index - 2)
                        .chars()
                        .skip(2)
                        .collect(),
                };
                let after = match last {
                    true => ARGUMENTS_CLOSE.to_owned(),
                    false => tokens::output_word(self.seed, index - 1)
                        .chars()
                        .take(2)
                        .collect(),
                };
                Cow::Owned(before + &after)
            }
        }
    }

    /// All of it.
    pub(super) fn text(&self) -> String {
        (0..self.tokens).map(|index| self.token(index)).collect()
    }

    /// The id of its tool call.
    pub(super) fn call_id(&self) -> String {
        format!("call_{:016x}", self.seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_of_any_length_are_whole_json_of_that_many_tokens() {
        for tokens in 1..40 {
            let speech = Speech {
                seed: 3,
                tokens,
                tool: Some("find".to_owned()),
            };
            let text = speech.text();
            assert_eq!(tokens::count(text.as_bytes()), tokens);
            assert_eq!(text.len() as u64, tokens * 4);
            let parsed: serde_json::Value = serde_json::from_str(&text).unwrap();
            let words: String = (0..tokens.saturating_sub(2))
                .map(|index| tokens::output_text(3, index))
                .collect();
            let expected = (tokens > 1).then_some(words.as_str());
            assert_eq!(
                parsed.get("q").and_then(serde_json::Value::as_str),
                expected
            );
        }
    }

    #[test]
    fn words_are_those_of_the_tokenizer() {
        let speech = Speech {
            seed: 3,
            tokens: 2,
            tool: None,
        };
        assert_eq!(
            speech.text(),
            tokens::output_text(3, 0) + &tokens::output_text(3, 1)
        );
    }
}
