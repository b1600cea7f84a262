//! GoReplay's files: HTTP messages as they crossed the wire, in the order in which they were
//! written, which is not that of time.
//!
//! A record is `type id nanoseconds duration` on a line, then the message; a line of three monkeys
//! ends it. Requests (1) become rows, each with the original answer (2) of its id, wherever in the
//! file that is; answers of an earlier replay (3) are no production.

use super::line::{TraceRow, Unusable, unusable};
use super::spoken;
use crate::error::Error;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::Path;
use truetape_schemas::capture::{Exchange, Header, LengthSource, Outcome};
use truetape_schemas::wire::{self, BodyEnd, Dialect, ResponseReader, session};

/// Ends a record.
const SEPARATOR: &[u8] = "\n🐵🙈🙉\n".as_bytes();

/// Bytes of a record at most: GoReplay itself cuts messages at 5 MB unless told otherwise.
const RECORD_BYTES_MAX: usize = 64 << 20;

/// Header fields of a head at most.
const FIELDS_MAX: usize = 128;

/// Headers that are kept: what the compiler reads. The others may hold secrets.
const KEPT: [&str; 2] = ["content-type", "x-stainless-retry-count"];

const US_NS: i64 = 1_000;

/// Calls `f` with every request, its number from 1 among the records, and its answer behind it.
pub(super) fn each_request(
    path: &Path,
    mut f: impl FnMut(u64, &[u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    let failed = |cause| Error::io(path, cause);
    let mut answers: HashMap<Vec<u8>, (u64, usize)> = HashMap::new();
    each_record(path, |_, offset, record| {
        if let Some(id) = id_of(record, b'2') {
            answers.insert(id.to_owned(), (offset, record.len()));
        }
        Ok(())
    })?;
    let mut again = File::open(path).map_err(failed)?;
    each_record(path, |number, _, record| {
        let Some(id) = id_of(record, b'1') else {
            // What is no record at all is the reader's to name.
            let known = id_of(record, b'2').or(id_of(record, b'3'));
            return known.map_or_else(|| f(number, record), |_| Ok(()));
        };
        let mut both = record.to_owned();
        if let Some((offset, length)) = answers.get(id).copied() {
            let mut answer = vec![0; length];
            again.seek(SeekFrom::Start(offset)).map_err(failed)?;
            again.read_exact(&mut answer).map_err(failed)?;
            both.extend_from_slice(SEPARATOR);
            both.extend_from_slice(&answer);
        }
        f(number, &both)
    })
}

/// The id of a record of a type.
fn id_of(record: &[u8], kind: u8) -> Option<&[u8]> {
    let rest = record.strip_prefix(&[kind, b' '])?;
    rest.split(u8::is_ascii_whitespace).next()
}

/// Calls `f` with the number, the offset and the bytes of every record that is not empty.
fn each_record(
    path: &Path,
    mut f: impl FnMut(u64, u64, &[u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    let failed = |cause| Error::io(path, cause);
    let mut reader = BufReader::with_capacity(1 << 16, File::open(path).map_err(failed)?);
    let (mut record, mut number, mut offset) = (Vec::new(), 0, 0_u64);
    loop {
        let end = record.len();
        let room = (RECORD_BYTES_MAX + SEPARATOR.len()).saturating_sub(end) as u64 + 1;
        let read = reader
            .by_ref()
            .take(room)
            .read_until(b'\n', &mut record)
            .map_err(failed)?;
        let ended = record.ends_with(SEPARATOR);
        // A separator at the start of a file has no line before it.
        let blank = record == SEPARATOR.get(1..).unwrap_or_default();
        if record.len() > RECORD_BYTES_MAX + SEPARATOR.len() {
            let problem = format!(
                "the record at byte {offset} is longer than {RECORD_BYTES_MAX} bytes; is this a file of GoReplay?"
            );
            return Err(Error::data(path.display(), problem));
        }
        if read > 0 && !ended && !blank {
            continue;
        }
        let length = if ended {
            record.len() - SEPARATOR.len()
        } else {
            record.len()
        };
        let body = record.get(..length).filter(|_| !blank).unwrap_or_default();
        if !body.trim_ascii().is_empty() {
            number += 1;
            f(number, offset, body)?;
        }
        offset += record.len() as u64;
        record.clear();
        if read == 0 {
            return Ok(());
        }
    }
}

/// Reads a request and its answer.
pub(super) fn read(record: &[u8]) -> Result<TraceRow, Unusable> {
    let at = memchr::memmem::find(record, SEPARATOR);
    let (request, answer) = match at {
        Some(at) => (
            record.get(..at).unwrap_or_default(),
            record.get(at + SEPARATOR.len()..),
        ),
        None => (record, None),
    };
    let (arrival, request) = stamped(request)?;
    let asked = Message::request(request)?;
    if !asked.whole {
        let found = asked.body.len();
        return unusable(
            "cut_short",
            format!("{found} bytes of a longer body; record it with a larger --copy-buffer-size"),
        );
    }
    let mut row = asked_row(asked);
    if let Some((answered, answer)) = answer.map(stamped).transpose()? {
        put_answer(&mut row, &arrival, &answered, Message::answer(answer)?);
    }
    Ok(TraceRow {
        timestamp_us: arrival.ns.div_euclid(US_NS),
        timestamp_rest_ns: i32::try_from(arrival.ns.rem_euclid(US_NS))
            .ok()
            .filter(|ns| *ns != 0),
        recorded: Some(Box::new(row)),
        ..TraceRow::default()
    })
}

/// When a message began, and how long it took.
struct Stamp {
    ns: i64,
    duration_ns: i64,
}

fn stamped(record: &[u8]) -> Result<(Stamp, &[u8]), Unusable> {
    let end = record
        .iter()
        .position(|byte| *byte == b'\n')
        .unwrap_or(record.len());
    let (line, rest) = record.split_at(end);
    let text = String::from_utf8_lossy(line);
    let words: Vec<&str> = text.split_whitespace().collect();
    let number = |word: Option<&&str>| word.and_then(|word| word.parse::<i64>().ok());
    match (words.first(), number(words.get(2)).filter(|ns| *ns >= 0)) {
        (Some(&("1" | "2")), Some(ns)) => Ok((
            Stamp {
                ns,
                duration_ns: number(words.get(3)).unwrap_or(0).max(0),
            },
            rest.strip_prefix(b"\n").unwrap_or(rest),
        )),
        _ => unusable(
            "not_a_record",
            format!("`{}`, wanted `1 id nanoseconds duration`", shortened(&text)),
        ),
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}

/// One HTTP message.
struct Message {
    method: String,
    path: String,
    status: u16,
    headers: Vec<Header>,
    body: Vec<u8>,
    /// Whether the body is as long as the head says: GoReplay cuts long ones.
    whole: bool,
}

impl Message {
    fn request(bytes: &[u8]) -> Result<Self, Unusable> {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut head = httparse::Request::new(&mut fields);
        let Ok(httparse::Status::Complete(length)) = head.parse(bytes) else {
            return unusable("not_http", "no whole head of an HTTP/1 request");
        };
        let (method, path) = (
            head.method.unwrap_or_default(),
            head.path.unwrap_or_default(),
        );
        Ok(Self {
            method: method.to_owned(),
            // A query can hold a key.
            path: path.split('?').next().unwrap_or_default().to_owned(),
            ..Self::of(head.headers, bytes.get(length..).unwrap_or_default())
        })
    }

    fn answer(bytes: &[u8]) -> Result<Self, Unusable> {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut head = httparse::Response::new(&mut fields);
        let Ok(httparse::Status::Complete(length)) = head.parse(bytes) else {
            return unusable("not_http", "no whole head of an HTTP/1 answer");
        };
        Ok(Self {
            status: head.code.unwrap_or_default(),
            ..Self::of(head.headers, bytes.get(length..).unwrap_or_default())
        })
    }

    fn of(fields: &[httparse::Header<'_>], body: &[u8]) -> Self {
        let headers: Vec<Header> = fields
            .iter()
            .map(|field| Header {
                name: field.name.to_ascii_lowercase(),
                value: String::from_utf8_lossy(field.value).into_owned(),
            })
            .collect();
        let mut message = Self {
            method: String::new(),
            path: String::new(),
            status: 0,
            headers,
            body: Vec::new(),
            whole: true,
        };
        let chunked = message.header("transfer-encoding");
        if chunked.is_some_and(|coding| coding.contains("chunked")) {
            (message.body, message.whole) = unchunked(body);
        } else {
            let length = message
                .header("content-length")
                .and_then(|n| n.trim().parse().ok());
            let length = length.unwrap_or(body.len());
            message.whole = length <= body.len();
            message.body = body.get(..length).unwrap_or(body).to_owned();
        }
        message
    }

    fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|header| header.name == name);
        found.map(|header| header.value.as_str())
    }

    fn kept(&self) -> Vec<Header> {
        let kept = |header: &&Header| KEPT.contains(&header.name.as_str());
        self.headers.iter().filter(kept).cloned().collect()
    }
}

/// A body without its chunks, and whether the last of them is there.
fn unchunked(mut body: &[u8]) -> (Vec<u8>, bool) {
    let mut whole = Vec::with_capacity(body.len());
    while let Ok(httparse::Status::Complete((start, size))) = httparse::parse_chunk_size(body) {
        if size == 0 {
            return (whole, true);
        }
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        let rest = body.get(start..).unwrap_or_default();
        let chunk = rest.get(..size).unwrap_or(rest);
        whole.extend_from_slice(chunk);
        let after = rest.get(chunk.len()..).unwrap_or_default();
        body = after.strip_prefix(b"\r\n").unwrap_or_default();
    }
    (whole, false)
}

fn bytes(body: &[u8]) -> Option<i64> {
    i64::try_from(body.len()).ok()
}

/// What a recorder would have written of the request.
fn asked_row(asked: Message) -> Exchange {
    let encoding = asked.header("content-encoding").map(str::to_owned);
    let plain = wire::coding::decode(encoding.as_deref(), &asked.body);
    let plain = plain.as_deref().unwrap_or(&asked.body);
    let dialect = Dialect::of(&asked.method, &asked.path).refined(plain);
    let facts = wire::read_request(dialect, plain);
    let session = session::session_of(&asked.headers, &facts);
    let row = Exchange {
        request_headers: asked.kept(),
        request_bytes: bytes(&asked.body),
        request_encoding: encoding,
        method: asked.method,
        path: asked.path,
        request_body: Some(asked.body),
        session_key: session.session_key,
        session_rule: session.session_rule,
        parent_session_key: session.parent_session_key,
        previous_response_id: session.previous_response_id,
        trace_id: session.trace_id,
        // Nobody recorded an answer; that it was one is all that can be said.
        outcome: Outcome::Complete,
        input_tokens_source: LengthSource::Absent,
        output_tokens_source: LengthSource::Absent,
        ..Exchange::default()
    };
    spoken::asked(row, dialect, facts)
}

/// What it would have written of the answer.
fn put_answer(row: &mut Exchange, arrival: &Stamp, answered: &Stamp, answer: Message) {
    let since_us = |ns: i64| ns.saturating_sub(arrival.ns).max(0).div_euclid(US_NS);
    let encoding = answer.header("content-encoding").map(str::to_owned);
    let mut reader = ResponseReader::new(
        Dialect::from_name(&row.dialect),
        answer.status,
        answer.header("content-type"),
        encoding.as_deref(),
    );
    reader.push(0, &answer.body);
    let end = if answer.whole {
        BodyEnd::Clean
    } else {
        BodyEnd::Cut
    };
    let facts = reader.finish(end);
    row.response_head_us = Some(since_us(answered.ns));
    row.end_us = Some(since_us(answered.ns.saturating_add(answered.duration_ns)));
    row.status = Some(answer.status.into());
    row.response_headers = answer.kept();
    row.response_encoding = encoding;
    row.response_bytes = bytes(&answer.body);
    row.response_body = Some(answer.body);
    row.outcome = facts.outcome;
    row.input_tokens = facts.input_tokens;
    row.input_tokens_source = facts.input_tokens_source;
    row.output_tokens = facts.output_tokens;
    row.output_tokens_source = facts.output_tokens_source;
    row.cached_tokens = facts.cached_tokens;
    row.cached_tokens_source = facts.cached_tokens_source;
    row.response_id = facts.response_id;
    row.error_code = facts.error_code;
    row.error_type = facts.error_type;
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: &str = "POST /v1/chat/completions?key=secret HTTP/1.1\r\nAuthorization: Bearer x\r\n\
         X-Session-Id: s1\r\nContent-Type: application/json\r\nContent-Length: 45\r\n\r\n\
         {\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}";

    fn chunked(body: &str) -> String {
        let (a, b) = body.split_at(body.len() / 2);
        let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
        format!("{}{}0\r\n\r\n", chunk(a), chunk(b))
    }

    fn rows(text: &str) -> Vec<Result<TraceRow, &'static str>> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.gor");
        std::fs::write(&path, text).unwrap();
        let mut rows = Vec::new();
        each_request(&path, |_, record| {
            rows.push(read(record).map_err(|bad| bad.reason));
            Ok(())
        })
        .unwrap();
        rows
    }

    fn ended() -> &'static str {
        std::str::from_utf8(SEPARATOR).unwrap()
    }

    #[test]
    fn a_request_has_its_answer_wherever_it_stands() {
        let answer = r#"{"id":"r","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"yo"}}],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#;
        let answer = format!(
            "2 a 1500000 500000\nHTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\
             Transfer-Encoding: chunked\r\n\r\n{}",
            chunked(answer)
        );
        let replayed = "3 a 9 9\nHTTP/1.1 500 X\r\n\r\n";
        let end = ended();
        for text in [
            format!("1 a 1000001 0\n{ASKED}{end}{answer}{end}{replayed}{end}"),
            format!("{end}{answer}{end}{replayed}{end}1 a 1000001 0\n{ASKED}"),
        ] {
            let rows = rows(&text);
            let [Ok(row)] = rows.as_slice() else {
                panic!("{rows:?}");
            };
            assert_eq!((row.timestamp_us, row.timestamp_rest_ns), (1_000, Some(1)));
            let row = row.recorded.as_deref().unwrap();
            assert_eq!(row.path, "/v1/chat/completions");
            assert_eq!(row.session_key.as_deref(), Some("s1"));
            assert_eq!((row.input_tokens, row.output_tokens), (Some(3), Some(2)));
            assert_eq!((row.response_head_us, row.end_us), (Some(499), Some(999)));
            let kept: Vec<&str> = row
                .request_headers
                .iter()
                .map(|h| h.name.as_str())
                .collect();
            assert_eq!(kept, ["content-type"], "no secret is kept");
        }
    }

    #[test]
    fn an_answer_that_was_cut_has_no_length() {
        let answer = "2 a 9000 0\nHTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n{\"id\":";
        let rows = rows(&format!("1 a 5 0\n{ASKED}{}{answer}", ended()));
        let row = rows[0].as_ref().unwrap().recorded.as_deref().unwrap();
        assert_eq!((row.outcome, row.output_tokens), (Outcome::Truncated, None));
    }

    #[test]
    fn what_cannot_be_used_has_a_reason() {
        let end = ended();
        let cases = [
            (format!("junk{end}"), "not_a_record"),
            (format!("1 a x 0\n{ASKED}{end}"), "not_a_record"),
            (format!("1 a 5 0\nGET{end}"), "not_http"),
        ];
        for (text, reason) in cases {
            let rows: Vec<_> = rows(&text).into_iter().map(|row| row.map(|_| ())).collect();
            assert_eq!(rows, [Err(reason)], "{text}");
        }
        let cut = ASKED.get(..ASKED.len() - 1).unwrap();
        let cut: Vec<_> = rows(&format!("1 a 5 0\n{cut}{end}"));
        assert!(matches!(cut.as_slice(), [Err("cut_short")]), "{cut:?}");
        assert!(rows("").is_empty() && rows(end).is_empty());
        let alone = rows(&format!("1 a 5 0\n{ASKED}{end}"));
        let row = alone[0].as_ref().unwrap().recorded.as_deref().unwrap();
        assert_eq!((row.status, row.output_tokens), (None, None));
    }
}
