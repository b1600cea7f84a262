//! The messages, rendered once. Their ends are marked, so that telling a whole message costs one
//! comparison, whatever a proxy did to its head.

/// Header that asks for a stream: events and microseconds between them.
const STREAM_HEADER: &str = "x-bench-stream";

/// Ends every request.
pub(crate) const REQUEST_END: &[u8] = b",\"user\":\"bench\"}";

/// Ends an answer that is no stream.
pub(crate) const RESPONSE_END: &[u8] = b",\"system_fingerprint\":\"fp_bench\"}";

/// Ends an answer that is a stream.
pub(crate) const STREAM_END: &[u8] = b"\r\n0\r\n\r\n";

/// Precedes the instant at which an event was sent.
pub(crate) const STAMP_MARK: &[u8] = b"\"fp_";

/// Digits of that instant, in nanoseconds.
pub(crate) const STAMP_DIGITS: usize = 20;

/// Bytes of a chat request's body, as a short conversation has.
const REQUEST_BYTES: usize = 1000;

fn post(body: &str, more: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: engine\r\nUser-Agent: bench/1\r\n\
         Authorization: Bearer sk-bench-0123456789abcdef\r\nAccept: */*\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n{more}\r\n{body}"
    )
    .into_bytes()
}

fn chat(stream: &str) -> String {
    let end = String::from_utf8_lossy(REQUEST_END);
    let head = "{\"model\":\"bench-8b\",\"messages\":[{\"role\":\"system\",\"content\":\"You are a \
                helpful assistant.\"},{\"role\":\"user\",\"content\":\"";
    let tail = format!("\"}}],\"max_tokens\":64,\"temperature\":0.7{stream}{end}");
    let words = "the quick brown fox jumps over the lazy dog and ";
    let fill = REQUEST_BYTES - head.len() - tail.len();
    let text: String = words.chars().cycle().take(fill).collect();
    format!("{head}{text}{tail}")
}

/// A chat request of about 1 KB that is answered by one document.
pub(crate) fn small_request() -> Vec<u8> {
    post(&chat(""), "")
}

/// A chat request that is answered by a stream.
pub(crate) fn stream_request(events: u32, every_us: u64) -> Vec<u8> {
    let more = format!("{STREAM_HEADER}: {events},{every_us}\r\n");
    let stream = ",\"stream\":true,\"stream_options\":{\"include_usage\":true}";
    post(&chat(stream), &more)
}

/// What a request asks for: events and time between them; `None` for one document.
pub(crate) fn asked(request: &[u8]) -> Option<(u32, u64)> {
    let head = request.get(..memchr::memmem::find(request, b"\r\n\r\n")?)?;
    // A proxy may send the name in another case.
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let line = head
        .lines()
        .find_map(|line| line.strip_prefix(STREAM_HEADER))?;
    let (events, every) = line.trim_start_matches([':', ' ']).split_once(',')?;
    Some((events.trim().parse().ok()?, every.trim().parse().ok()?))
}

/// An answer of about 600 bytes with usage.
pub(crate) fn small_response() -> Vec<u8> {
    let text = "and runs away ".repeat(20);
    let end = String::from_utf8_lossy(RESPONSE_END);
    let body = format!(
        "{{\"id\":\"chatcmpl-0123456789abcdef\",\"object\":\"chat.completion\",\"created\":1764500000,\
         \"model\":\"bench-8b\",\"choices\":[{{\"index\":0,\"message\":{{\"role\":\"assistant\",\
         \"content\":\"{text}\"}},\"logprobs\":null,\"finish_reason\":\"stop\"}}],\"usage\":\
         {{\"prompt_tokens\":231,\"completion_tokens\":64,\"total_tokens\":295}}{end}"
    );
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\ndate: Mon, 30 Nov 2026 12:00:00 GMT\r\nserver: uvicorn\r\n\
         content-length: {length}\r\ncontent-type: application/json\r\n\r\n{body}"
    )
    .into_bytes()
}

/// The head of a stream.
pub(crate) fn stream_head() -> Vec<u8> {
    b"HTTP/1.1 200 OK\r\ndate: Mon, 30 Nov 2026 12:00:00 GMT\r\nserver: uvicorn\r\n\
      content-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
        .to_vec()
}

/// An event as a chunk with room for the instant it is sent at.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    bytes: Vec<u8>,
    stamp: usize,
}

impl Event {
    fn new(data: &str, after: &str) -> Self {
        let length = data.len();
        let bytes = format!("{length:x}\r\n{data}\r\n{after}").into_bytes();
        let mark = memchr::memmem::find(&bytes, STAMP_MARK).unwrap_or(0);
        let stamp = mark + STAMP_MARK.len();
        Self { bytes, stamp }
    }

    fn chunk(choices: &str, usage: &str) -> String {
        format!(
            "data: {{\"id\":\"chatcmpl-0123456789abcdef\",\"object\":\"chat.completion.chunk\",\
             \"created\":1764500000,\"model\":\"bench-8b\",\"system_fingerprint\":\"fp_{:020}\",\
             \"choices\":[{choices}]{usage}}}\n\n",
            0
        )
    }

    /// One token.
    pub(crate) fn token() -> Self {
        let choice = "{\"index\":0,\"delta\":{\"content\":\" token\"},\"finish_reason\":null}";
        Self::new(&Self::chunk(choice, ""), "")
    }

    /// The last one: usage, the end of the stream, and of the body.
    pub(crate) fn last() -> Self {
        let usage =
            ",\"usage\":{\"prompt_tokens\":231,\"completion_tokens\":63,\"total_tokens\":294}";
        let data = Self::chunk("", usage) + "data: [DONE]\n\n";
        Self::new(&data, "0\r\n\r\n")
    }

    /// The bytes as they are sent at an instant.
    pub(crate) fn at(&mut self, mut ns: u64) -> &[u8] {
        for digit in self.bytes[self.stamp..self.stamp + STAMP_DIGITS]
            .iter_mut()
            .rev()
        {
            *digit = b'0' + u8::try_from(ns % 10).unwrap_or(0);
            ns /= 10;
        }
        &self.bytes
    }
}

/// Takes the next instant out of what was received, and what it was found in.
pub(crate) fn next_stamp(received: &[u8]) -> Option<(u64, usize)> {
    let at = memchr::memmem::find(received, STAMP_MARK)? + STAMP_MARK.len();
    let digits = received.get(at..at + STAMP_DIGITS)?;
    let ns = digits
        .iter()
        .fold(0, |ns, digit| ns * 10 + u64::from(digit.wrapping_sub(b'0')));
    Some((ns, at + STAMP_DIGITS))
}
