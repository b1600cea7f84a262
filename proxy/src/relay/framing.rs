//! Where the body of a message of HTTP/1 ends, and which of its bytes are content. It looks at the
//! bytes as they pass, and changes none.

use std::ops::Range;

/// What ends a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Framing {
    /// So many bytes more.
    Length(u64),
    /// The last chunk, and the trailers after it.
    Chunked(Chunks),
    /// The end of the connection.
    UntilClose,
}

/// A place in a chunked body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chunks {
    state: State,
    /// Of the size line, the value so far; of a chunk, what is left of it.
    left: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// In the digits of a size, of which so many were read.
    #[default]
    First,
    Size,
    Extension,
    SizeEnd,
    Data,
    DataEnd,
    DataLast,
    /// In the trailers, at the start of a line or within one.
    Line,
    InLine,
    LineEnd,
    InLineEnd,
    Over,
}

/// How far a body was followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Bytes of the input that belong to it.
    pub taken: usize,
    /// Whether it ends with them.
    pub over: bool,
}

/// The chunks cannot be read: where the body ends is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl Framing {
    /// No body.
    pub const NONE: Self = Self::Length(0);

    /// A chunked body from its start.
    pub fn chunked() -> Self {
        Self::Chunked(Chunks::default())
    }

    /// Follows the body through what came next, and notes which of it is content.
    pub fn follow(
        &mut self,
        input: &[u8],
        content: &mut Vec<Range<usize>>,
    ) -> Result<Step, Malformed> {
        match self {
            Self::Length(left) => {
                let here = usize::try_from(*left).unwrap_or(usize::MAX);
                let taken = input.len().min(here);
                *left -= taken as u64;
                note(content, 0..taken);
                let over = *left == 0;
                Ok(Step { taken, over })
            }
            Self::Chunked(chunks) => chunks.follow(input, content),
            Self::UntilClose => {
                note(content, 0..input.len());
                let (taken, over) = (input.len(), false);
                Ok(Step { taken, over })
            }
        }
    }
}

fn note(content: &mut Vec<Range<usize>>, range: Range<usize>) {
    if !range.is_empty() {
        content.push(range);
    }
}

impl Chunks {
    fn follow(&mut self, input: &[u8], content: &mut Vec<Range<usize>>) -> Result<Step, Malformed> {
        let mut at = 0;
        while self.state != State::Over {
            if self.state == State::Data {
                let here = usize::try_from(self.left).unwrap_or(usize::MAX);
                let end = at + here.min(input.len() - at);
                note(content, at..end);
                self.left -= (end - at) as u64;
                at = end;
                if self.left > 0 {
                    break;
                }
                self.state = State::DataEnd;
            }
            let Some(byte) = input.get(at) else { break };
            self.state = self.next(*byte).ok_or(Malformed)?;
            at += 1;
        }
        Ok(Step {
            taken: at,
            over: self.state == State::Over,
        })
    }

    /// The state after a byte outside of content. A line may end without its CR, as many readers
    /// allow.
    fn next(&mut self, byte: u8) -> Option<State> {
        Some(match (self.state, byte) {
            (State::First | State::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                let digit = char::from(byte).to_digit(16)?;
                self.left = self.left.checked_mul(16)?.checked_add(u64::from(digit))?;
                State::Size
            }
            (State::Size | State::Extension, b'\r') => State::SizeEnd,
            (State::Size | State::Extension | State::SizeEnd, b'\n') => {
                if self.left == 0 {
                    State::Line
                } else {
                    State::Data
                }
            }
            (State::Size, b';' | b' ' | b'\t') | (State::Extension, _) => State::Extension,
            (State::DataEnd, b'\r') => State::DataLast,
            (State::DataEnd | State::DataLast, b'\n') => State::First,
            (State::Line, b'\r') => State::LineEnd,
            (State::Line | State::LineEnd, b'\n') => State::Over,
            (State::InLine, b'\r') => State::InLineEnd,
            (State::InLine | State::InLineEnd, b'\n') => State::Line,
            (State::Line | State::InLine, _) => State::InLine,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Framing, Malformed, Step};
    use proptest::prelude::*;

    /// Follows a body that comes in pieces: its content, the bytes that belong to it, whether it is
    /// over.
    fn follow(mut framing: Framing, pieces: &[&[u8]]) -> Result<(Vec<u8>, usize, bool), Malformed> {
        let (mut all, mut taken, mut over) = (Vec::new(), 0, false);
        for piece in pieces {
            let mut content = Vec::new();
            let step: Step = framing.follow(piece, &mut content)?;
            all.extend(content.into_iter().flat_map(|range| piece[range].to_vec()));
            taken += step.taken;
            over = step.over;
            if over {
                break;
            }
        }
        Ok((all, taken, over))
    }

    #[test]
    fn a_chunked_body_ends_after_its_trailers_and_its_content_is_told() {
        let body = b"5;a=\"b\"\r\nhello\r\n1 \r\n!\r\n000\r\nx-sum: 1\r\nx: 2\r\n\r\nGET /";
        let whole = body.len() - b"GET /".len();
        let bare = b"2\nhi\n0\n\n";
        assert_eq!(
            follow(Framing::chunked(), &[body]),
            Ok((b"hello!".to_vec(), whole, true))
        );
        assert_eq!(
            follow(Framing::chunked(), &[bare]),
            Ok((b"hi".to_vec(), bare.len(), true))
        );
        assert_eq!(
            follow(Framing::chunked(), &[&body[..12]]),
            Ok((b"hel".to_vec(), 12, false))
        );
    }

    #[test]
    fn chunks_that_cannot_be_read_are_said_so() {
        for wrong in [
            &b"\r\n"[..],
            b"x\r\n",
            b"-1\r\n",
            b"5\r\nhello!",
            b"5\r\nhello\rx",
            b"1\r1",
            b"0\r\n\rx",
            b"11111111111111111\r\n",
        ] {
            let shown = String::from_utf8_lossy(wrong);
            assert_eq!(
                follow(Framing::chunked(), &[wrong]),
                Err(Malformed),
                "{shown}"
            );
        }
    }

    #[test]
    fn a_length_ends_a_body_and_a_close_ends_the_other() {
        assert_eq!(
            follow(Framing::Length(3), &[b"ab", b"cde"]),
            Ok((b"abc".to_vec(), 3, true))
        );
        assert_eq!(follow(Framing::NONE, &[b"ab"]), Ok((Vec::new(), 0, true)));
        assert_eq!(
            follow(Framing::UntilClose, &[b"ab", b"c"]),
            Ok((b"abc".to_vec(), 3, false))
        );
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(
            chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..40), 0..6),
            cuts in proptest::collection::vec(1..9_usize, 1..60),
        ) {
            let mut body: Vec<u8> = Vec::new();
            for chunk in &chunks {
                body.extend(format!("{:x}\r\n", chunk.len()).bytes());
                body.extend(chunk);
                body.extend(b"\r\n");
            }
            body.extend(b"0\r\n\r\nnext");
            let (mut rest, mut pieces) = (&body[..], Vec::new());
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (piece, after) = rest.split_at(rest.len().min(*cut));
                pieces.push(piece);
                rest = after;
            }
            let followed = follow(Framing::chunked(), &pieces);
            prop_assert_eq!(followed, Ok((chunks.concat(), body.len() - 4, true)));
        }

        #[test]
        fn nothing_is_taken_twice_or_out_of_order(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut content = Vec::new();
            if let Ok(step) = Framing::chunked().follow(&body, &mut content) {
                prop_assert!(step.taken <= body.len());
                let mut end = 0;
                for range in content {
                    prop_assert!(range.start >= end && range.end <= step.taken);
                    end = range.end;
                }
            }
        }
    }
}
