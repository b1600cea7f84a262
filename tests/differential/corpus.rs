//! Files of entries: a script for the client, one for the upstream, and what the capture must say.
//!
//! ```text
//! === a name that is a sentence
//! on http1 http2            protocols; both when it is not said
//! slow                      it mostly waits: it gets a proxy of its own
//! tls                       it is played over TLS too
//! row COLUMN=VALUE ...      what the capture says; `row none` that it says nothing
//! > POST /v1/completions    the client, act by act
//! > content-type: text/plain
//! > body hello
//! < 200 OK                  the upstream, once the whole request has come; another head after the
//! < chunked                 end of an answer is for the next request
//! < data data: 1\n\n
//! < end
//! ```
//!
//! Acts: `chat` (what most clients ask) and `events` (how most answers begin), `body TEXT` (with its length), `chunked`, `length N`, `data TEXT`, `each TEXT` (byte by
//! byte), `trailers NAME: VALUE; ...`, `end`, `raw TEXT`, `pause MS`, `stall MS` (does not even
//! read), `leave`, `reset [CODE]`, `half-close`, `hang-up`, `go-away CODE`, `await
//! head|interim|message|gone|bytes N|tunnelled N`; for the upstream also `at head` (begins before
//! the body has come) and `next` (what follows is for the next request).

use crate::text;
use bytes::Bytes;
use std::path::Path;
use std::time::Duration;
use truetape_testkit::talk::server::Part;
use truetape_testkit::talk::{Act, Awaited, Protocol};

/// One exchange, or a few on one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) protocols: Vec<Protocol>,
    pub(crate) slow: bool,
    pub(crate) tls: bool,
    pub(crate) row: Option<Vec<(String, String)>>,
    pub(crate) client: Vec<Act>,
    pub(crate) server: Vec<Part>,
}

/// Every entry of the corpus.
pub(crate) fn all() -> Vec<Entry> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/differential/corpus");
    let mut files: Vec<_> = std::fs::read_dir(&dir)
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    files.sort();
    let mut entries = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        match parse(&text) {
            Ok(parsed) => entries.extend(parsed),
            Err(wrong) => panic!("{}: {wrong}", file.display()),
        }
    }
    entries
}

/// Reads a file.
pub(crate) fn parse(text: &str) -> Result<Vec<Entry>, String> {
    let mut entries: Vec<Entry> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim_end();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix("=== ") {
            entries.push(Entry {
                name: name.to_owned(),
                protocols: vec![Protocol::Http1, Protocol::Http2],
                ..Entry::default()
            });
            continue;
        }
        let entry = entries.last_mut().ok_or("a line before the first entry")?;
        parse_line(entry, line).map_err(|wrong| format!("line {number}: {line}: {wrong}"))?;
    }
    Ok(entries)
}

fn parse_line(entry: &mut Entry, line: &str) -> Result<(), String> {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    match word {
        "on" => {
            let protocols: Option<Vec<Protocol>> = rest.split(' ').map(protocol).collect();
            entry.protocols = protocols.ok_or("not a protocol")?;
        }
        "slow" => entry.slow = true,
        "tls" => entry.tls = true,
        "row" => {
            let pair = |pair: &str| {
                let (column, value) = pair.split_once('=')?;
                Some((column.to_owned(), value.to_owned()))
            };
            let pairs = match rest {
                "none" => Some(Vec::new()),
                _ => rest.split(' ').map(pair).collect(),
            };
            entry.row = Some(pairs.ok_or("not COLUMN=VALUE")?);
        }
        ">" => acts(&mut entry.client, rest)?,
        "<" => answer(&mut entry.server, rest)?,
        _ => return Err("neither a word of an entry nor an act".to_owned()),
    }
    Ok(())
}

fn protocol(name: &str) -> Option<Protocol> {
    [Protocol::Http1, Protocol::Http2]
        .into_iter()
        .find(|protocol| protocol.name() == name)
}

fn answer(parts: &mut Vec<Part>, text: &str) -> Result<(), String> {
    let ended = |part: &Part| matches!(part.acts.last(), Some(act) if is_last(act));
    let begins = text
        .bytes()
        .next()
        .is_some_and(|byte| byte.is_ascii_digit());
    let next = match parts.last() {
        None => true,
        Some(part) => begins && ended(part),
    };
    if next || text == "next" || text == "at head" && parts.last().is_some_and(ended) {
        parts.push(Part::default());
    }
    let part = parts.last_mut().ok_or("no part")?;
    match text {
        "next" => Ok(()),
        "at head" => {
            part.at_head = true;
            Ok(())
        }
        _ => acts(&mut part.acts, text),
    }
}

fn is_last(act: &Act) -> bool {
    matches!(
        act,
        Act::End | Act::Trailers(_) | Act::Leave | Act::Reset(_) | Act::HangUp | Act::GoAway(_)
    )
}

fn acts(acts: &mut Vec<Act>, text: &str) -> Result<(), String> {
    if let Some((name, value)) = field(text) {
        return add_field(acts, name, value);
    }
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    let millis = || {
        rest.parse()
            .map(Duration::from_millis)
            .map_err(|e| format!("{e}"))
    };
    let act = match word {
        "chat" => return shorthand(acts, CHAT),
        "events" => return shorthand(acts, EVENTS),
        "chunked" => return add_field(acts, "Transfer-Encoding", "chunked"),
        "length" => return add_field(acts, "Content-Length", rest),
        "body" => {
            let body = text::bytes(rest)?;
            add_field(acts, "Content-Length", &body.len().to_string())?;
            acts.push(Act::Data(body));
            Act::End
        }
        "data" => Act::Data(text::bytes(rest)?),
        "each" => {
            let bytes = text::bytes(rest)?;
            acts.extend((0..bytes.len()).map(|at| Act::Data(bytes.slice(at..=at))));
            return Ok(());
        }
        "trailers" => Act::Trailers(rest.split("; ").filter_map(field).map(owned).collect()),
        "end" => Act::End,
        "raw" => Act::Raw(text::bytes(rest)?),
        "pause" => Act::Pause(millis()?),
        "stall" => Act::Stall(millis()?),
        "leave" => Act::Leave,
        "hang-up" => Act::HangUp,
        "half-close" => Act::HalfClose,
        "reset" if rest.is_empty() => Act::Reset(INTERNAL_ERROR),
        "reset" => Act::Reset(rest.parse().map_err(|e| format!("{e}"))?),
        "go-away" => Act::GoAway(rest.parse().map_err(|e| format!("{e}"))?),
        "await" => Act::Await(awaited(rest)?),
        _ => return begin(acts, word, rest),
    };
    acts.push(act);
    Ok(())
}

/// What most clients ask.
const CHAT: &[&str] = &[
    "POST /v1/chat/completions",
    "Content-Type: application/json",
    r#"body {"model":"m","stream":true,"messages":[{"role":"user","content":"ping"}]}"#,
];

/// How most answers begin.
const EVENTS: &[&str] = &["200 OK", "Content-Type: text/event-stream", "chunked"];

fn shorthand(list: &mut Vec<Act>, lines: &[&str]) -> Result<(), String> {
    lines.iter().try_for_each(|line| acts(list, line))
}

/// What a reset says that names no code.
const INTERNAL_ERROR: u32 = 2;

fn begin(acts: &mut Vec<Act>, word: &str, rest: &str) -> Result<(), String> {
    let upper = word.bytes().all(|byte| byte.is_ascii_uppercase());
    acts.push(match word.parse::<u16>() {
        Ok(status) => Act::Response {
            status,
            reason: rest.to_owned(),
            fields: Vec::new(),
        },
        Err(_) if upper && !word.is_empty() => Act::Request {
            method: word.to_owned(),
            target: rest.to_owned(),
            fields: vec![("Host".to_owned(), "model.test".to_owned())],
        },
        Err(_) => return Err("not an act".to_owned()),
    });
    Ok(())
}

fn awaited(text: &str) -> Result<Awaited, String> {
    let (word, count) = text.split_once(' ').unwrap_or((text, "0"));
    let count = count.parse().map_err(|e| format!("{e}"))?;
    Ok(match word {
        "head" => Awaited::Head,
        "interim" => Awaited::Interim,
        "message" => Awaited::Message,
        "gone" => Awaited::Gone,
        "bytes" => Awaited::Bytes(count),
        "tunnelled" => Awaited::Tunnelled(count),
        _ => return Err("nothing to await".to_owned()),
    })
}

/// `Name: value`.
fn field(text: &str) -> Option<(&str, &str)> {
    let (name, value) = text.split_once(':')?;
    let token = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    token.then(|| (name, value.trim_start()))
}

fn owned((name, value): (&str, &str)) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

/// Adds to the head that was begun last. A `Host` of its own replaces the usual one.
fn add_field(acts: &mut [Act], name: &str, value: &str) -> Result<(), String> {
    let fields = match acts.last_mut() {
        Some(Act::Request { fields, .. } | Act::Response { fields, .. }) => fields,
        _ => return Err("a field without a head".to_owned()),
    };
    let value: Bytes = text::bytes(value)?;
    let value = String::from_utf8_lossy(&value).into_owned();
    if let Some((_, count)) = name.split_once("-times-") {
        // `X-times-150: v` stands for `X-1: v` to `X-150: v`.
        let count: usize = count.parse().map_err(|e| format!("{e}"))?;
        let stem = name.split("-times-").next().unwrap_or_default();
        fields.extend((1..=count).map(|at| (format!("{stem}-{at}"), value.clone())));
        return Ok(());
    }
    if name == "Host" {
        fields.retain(|(name, _): &(String, String)| name != "Host");
    }
    if !(name == "Host" && value.is_empty()) {
        fields.push((name.to_owned(), value));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_entries() {
        let entries = parse(
            "# about\n=== one\non http1\n> POST /a\n> X-A: 1\n> body hi\n< 100 Continue\n\
             < 200 OK\n< chunked\n< each ab\n< end\n< at head\n< 413 No\n< end\n=== two\nrow none\n",
        )
        .unwrap();
        assert_eq!(entries.len(), 2);
        let [one, two] = &entries[..] else { panic!() };
        assert_eq!(one.protocols, [Protocol::Http1]);
        assert_eq!(one.client.len(), 3);
        assert_eq!(one.server.len(), 2, "{:?}", one.server);
        assert!(one.server[1].at_head);
        let Act::Request { fields, .. } = &one.client[0] else {
            panic!()
        };
        assert_eq!(fields.len(), 3);
        assert_eq!(two.row, Some(Vec::new()));
        assert!(parse("=== a\n> nonsense\n").is_err());
    }
}
