//! HTTP/1.1 messages as bytes: what a library would normalise away is what the tests look at.

/// The start line and the header fields of a message, in wire order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The request line or the status line, without its line end.
    pub start: String,
    /// Names and values, as they were sent.
    pub headers: Vec<(String, String)>,
    /// Every byte up to and including the empty line.
    pub raw: Vec<u8>,
}

impl Head {
    /// Splits a head off the front of `bytes`, when it is whole.
    pub fn split(bytes: &[u8]) -> Option<(Self, usize)> {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
        let raw = bytes.get(..end)?.to_vec();
        let text = String::from_utf8_lossy(&raw).into_owned();
        let mut lines = text.split("\r\n");
        let start = lines.next().unwrap_or_default().to_owned();
        let headers = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
            .collect();
        Some((
            Self {
                start,
                headers,
                raw,
            },
            end,
        ))
    }

    /// All values of a field, in order; names compare without case.
    pub fn values(&self, name: &str) -> Vec<&str> {
        let same = |(n, _): &&(String, String)| n.eq_ignore_ascii_case(name);
        self.headers
            .iter()
            .filter(same)
            .map(|(_, value)| value.as_str())
            .collect()
    }

    /// Whether the connection ends after the answer to this request.
    pub fn is_last(&self) -> bool {
        let tokens = self.values("connection").join(",").to_lowercase();
        let says = |word: &str| tokens.split(',').any(|token| token.trim() == word);
        says("close") || (self.start.ends_with("HTTP/1.0") && !says("keep-alive"))
    }

    /// The first value of a field.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.values(name).first().copied()
    }

    /// The status of a status line; 0 when there is none.
    pub fn status(&self) -> u16 {
        self.start
            .split(' ')
            .nth(1)
            .and_then(|code| code.parse().ok())
            .unwrap_or(0)
    }

    /// The method of a request line.
    pub fn method(&self) -> &str {
        self.start.split(' ').next().unwrap_or_default()
    }

    /// How the body of this request is framed.
    pub fn request_framing(&self) -> Framing {
        self.stated_framing().unwrap_or(Framing::Length(0))
    }

    /// How the body of this response to a `method` request is framed.
    pub fn response_framing(&self, method: &str) -> Framing {
        let status = self.status();
        if method == "HEAD" || status < 200 || status == 204 || status == 304 {
            return Framing::Length(0);
        }
        self.stated_framing().unwrap_or(Framing::Close)
    }

    fn stated_framing(&self) -> Option<Framing> {
        let chunked = self
            .value("transfer-encoding")
            .is_some_and(|v| v.contains("chunked"));
        if chunked {
            return Some(Framing::Chunked);
        }
        self.value("content-length")
            .and_then(|v| v.parse().ok())
            .map(Framing::Length)
    }
}

/// Where a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// After so many bytes.
    Length(u64),
    /// After the last chunk.
    Chunked,
    /// When the connection closes.
    Close,
}

/// Takes a body out of its framing, byte by byte.
#[derive(Clone, Debug)]
pub struct BodyReader {
    framing: Framing,
    state: State,
    /// The body so far.
    pub body: Vec<u8>,
    /// Trailer lines, as they were sent.
    pub trailers: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Data(u64),
    Unbounded,
    Size(Vec<u8>),
    AfterData(u8),
    Trailer(Vec<u8>),
    Done,
    Broken,
}

impl BodyReader {
    /// Starts a body.
    pub fn new(framing: Framing) -> Self {
        let state = match framing {
            Framing::Length(0) => State::Done,
            Framing::Length(length) => State::Data(length),
            Framing::Chunked => State::Size(Vec::new()),
            Framing::Close => State::Unbounded,
        };
        Self {
            framing,
            state,
            body: Vec::new(),
            trailers: Vec::new(),
        }
    }

    /// Takes what belongs to the body off the front of `bytes`, and says how much that was.
    pub fn push(&mut self, bytes: &[u8]) -> usize {
        let mut used = 0;
        while used < bytes.len() && self.state != State::Done && self.state != State::Broken {
            used += self.step(bytes.get(used..).unwrap_or_default());
        }
        used
    }

    /// Whether the framing said that the body has ended.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Whether the framing cannot be understood.
    pub fn is_broken(&self) -> bool {
        self.state == State::Broken
    }

    /// Whether a close of the connection at this point is a clean end.
    pub fn is_whole_at_close(&self) -> bool {
        self.is_done() || self.state == State::Unbounded
    }

    fn step(&mut self, bytes: &[u8]) -> usize {
        match &mut self.state {
            State::Unbounded => {
                self.body.extend_from_slice(bytes);
                bytes.len()
            }
            State::Data(left) => {
                let take = usize::try_from(*left)
                    .unwrap_or(usize::MAX)
                    .min(bytes.len());
                self.body.extend(bytes.iter().take(take));
                *left -= take as u64;
                if *left == 0 {
                    let chunked = self.framing == Framing::Chunked;
                    self.state = if chunked {
                        State::AfterData(0)
                    } else {
                        State::Done
                    };
                }
                take
            }
            State::AfterData(seen) => {
                *seen += 1;
                if *seen == 2 {
                    self.state = State::Size(Vec::new());
                }
                1
            }
            State::Size(line) | State::Trailer(line) if bytes.first() != Some(&b'\n') => {
                line.extend(bytes.first());
                1
            }
            State::Size(line) => {
                self.state = after_size(line);
                1
            }
            State::Trailer(line) => {
                let text = String::from_utf8_lossy(line).trim_end().to_owned();
                line.clear();
                if text.is_empty() {
                    self.state = State::Done;
                } else {
                    self.trailers.push(text);
                }
                1
            }
            State::Done | State::Broken => 0,
        }
    }
}

fn after_size(line: &[u8]) -> State {
    let text = String::from_utf8_lossy(line);
    let digits = text.split(';').next().unwrap_or_default().trim();
    match u64::from_str_radix(digits, 16) {
        Ok(0) => State::Trailer(Vec::new()),
        Ok(length) => State::Data(length),
        Err(_) => State::Broken,
    }
}

/// Frames bytes as one chunk.
pub fn chunk(bytes: &[u8]) -> Vec<u8> {
    let mut framed = format!("{:x}\r\n", bytes.len()).into_bytes();
    framed.extend_from_slice(bytes);
    framed.extend_from_slice(b"\r\n");
    framed
}

/// The chunk that ends a body.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_come_out_whole_however_they_are_cut() {
        let wire = b"a\r\n{\"model\":\"\r\n2;note=1\r\nok\r\n0\r\nx-end: 1\r\n\r\nnext";
        for cut in 0..wire.len() {
            let mut reader = BodyReader::new(Framing::Chunked);
            let (first, second) = wire.split_at(cut);
            let used = reader.push(first);
            let used = used + reader.push(if used == first.len() { second } else { b"" });
            assert!(reader.is_done(), "cut at {cut}");
            assert_eq!(reader.body, b"{\"model\":\"ok");
            assert_eq!(reader.trailers, ["x-end: 1"]);
            assert_eq!(used.min(wire.len() - 4), wire.len() - 4);
        }
    }

    #[test]
    fn a_close_is_clean_only_where_the_framing_says_so() {
        let mut cut = BodyReader::new(Framing::Chunked);
        cut.push(b"5\r\nhello\r\n");
        assert!(!cut.is_whole_at_close());
        assert!(BodyReader::new(Framing::Close).is_whole_at_close());
        assert!(!BodyReader::new(Framing::Length(3)).is_whole_at_close());
        let mut broken = BodyReader::new(Framing::Chunked);
        broken.push(b"zz\r\n");
        assert!(broken.is_broken());
    }
}
