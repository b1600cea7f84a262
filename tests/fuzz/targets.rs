//! What is fuzzed: everything that reads bytes somebody else wrote.
//!
//! Each function takes any bytes and panics where a promise does not hold. `cargo fuzz` drives them
//! with coverage; the test `fuzz` drives them with the seeds, whole, cut and mutated.

use std::io::Write as _;
use std::path::Path;
use truetape_proxy::spool;
use truetape_schemas::capture::Exchange;
use truetape_schemas::file::Reader;
use truetape_schemas::file::key::Keyring;
use truetape_schemas::wire::{self, BodyEnd, Dialect, ResponseReader, coding, ndjson, sse};

/// A target by name.
pub(crate) type Target = (&'static str, fn(&[u8]));

/// All of them.
pub(crate) const TARGETS: &[Target] = &[
    ("sse", sse_streams),
    ("dialects", dialects),
    ("codings", codings),
    ("spool", spools),
    ("capture", captures),
];

/// Longest line in these tests: small, so that the bound is met.
const LINE_BYTES_MAX: usize = 512;

/// Most that a decoder may say here.
const DECODED_BYTES_MAX: usize = 1 << 16;

/// Event streams and lines of JSON say the same however they are cut.
pub(crate) fn sse_streams(data: &[u8]) {
    let Some((&step, bytes)) = data.split_first() else {
        return;
    };
    let step = usize::from(step).max(1);
    let events = |step: usize| {
        let mut decoder = sse::Decoder::new(LINE_BYTES_MAX);
        let mut said = Vec::new();
        for piece in bytes.chunks(step) {
            decoder.push(piece, |event| {
                said.push([event.name, event.data, event.id].map(<[u8]>::to_vec));
            });
        }
        decoder.finish(|event| said.push([event.name, event.data, event.id].map(<[u8]>::to_vec)));
        (said, decoder.skipped())
    };
    let whole = bytes.len().max(1);
    assert_eq!(events(whole), events(step), "cut every {step} bytes");
    let lines = |step: usize| {
        let mut decoder = ndjson::Decoder::new(LINE_BYTES_MAX);
        let mut said = Vec::new();
        for piece in bytes.chunks(step) {
            decoder.push(piece, |line| said.push(line.to_vec()));
        }
        decoder.finish(|line| said.push(line.to_vec()));
        (said, decoder.skipped())
    };
    assert_eq!(lines(whole), lines(step), "cut every {step} bytes");
}

/// Every dialect reads any body, in any pieces, and says the same.
pub(crate) fn dialects(data: &[u8]) {
    let Some(([chosen, step, status], bytes)) = data.split_first_chunk::<3>() else {
        return;
    };
    let dialect = Dialect::ALL
        .get(usize::from(*chosen) % Dialect::ALL.len())
        .copied()
        .unwrap_or_default();
    let facts = wire::read_request(dialect, bytes);
    drop(wire::read_messages(dialect, bytes));
    drop(wire::session::session_of(&[], &facts));
    let status = if status % 4 == 0 { 500 } else { 200 };
    let content_type = match status % 3 {
        0 => Some("text/event-stream"),
        1 => Some("application/json"),
        _ => None,
    };
    let read = |step: usize, end: BodyEnd| {
        let mut reader = ResponseReader::new(dialect, status, content_type, None);
        for piece in bytes.chunks(step) {
            // One time for all: pieces are what differs.
            reader.push(7, piece);
        }
        format!("{:?}", reader.finish(end))
    };
    let step = usize::from(*step).max(1);
    let whole = bytes.len().max(1);
    for end in [BodyEnd::Clean, BodyEnd::Cut] {
        assert_eq!(read(whole, end), read(step, end), "cut every {step} bytes");
    }
}

/// Codings are undone within their bound, in any pieces, and never panic.
pub(crate) fn codings(data: &[u8]) {
    const LABELS: &[&str] = &[
        "gzip",
        "deflate",
        "br",
        "zstd",
        "gzip, br",
        "deflate, zstd",
        "identity",
        "x-gzip",
    ];
    let Some(([chosen, step], bytes)) = data.split_first_chunk::<2>() else {
        return;
    };
    let label = LABELS.get(usize::from(*chosen) % LABELS.len()).copied();
    let decode = |step: usize| {
        let mut decoder = coding::Decoder::within(label, DECODED_BYTES_MAX).ok()?;
        let mut said = Vec::new();
        for piece in bytes.chunks(step) {
            said.extend_from_slice(&decoder.push(piece).ok()?);
        }
        assert!(said.len() <= DECODED_BYTES_MAX || label == Some("identity"));
        Some(said)
    };
    let step = usize::from(*step).max(1);
    let (whole, pieces) = (decode(bytes.len().max(1)), decode(step));
    if let (Some(whole), Some(pieces)) = (whole, pieces) {
        assert!(whole == pieces, "{label:?} cut every {step} bytes");
    }
}

/// Recovery takes what is whole and leaves what is torn, whatever a crash left behind.
pub(crate) fn spools(data: &[u8]) {
    with_file(data, |path| {
        let Ok(mut reader) = spool::Reader::open(path, &Keyring::default()) else {
            return;
        };
        // Every frame has at least a head of 8 bytes, so there is an end.
        let mut items = 0;
        while let Ok(Some(_)) = reader.next_item() {
            items += 1;
            assert!(items <= data.len() / 8, "more frames than bytes");
        }
        assert!(reader.torn_bytes() <= data.len() as u64);
    });
}

/// A capture file is read, or refused with an error.
pub(crate) fn captures(data: &[u8]) {
    with_file(data, |path| {
        let Ok(reader) = Reader::<Exchange>::open(path) else {
            return;
        };
        for batch in reader.take(64) {
            if batch.is_err() {
                return;
            }
        }
    });
}

fn with_file(data: &[u8], read: impl FnOnce(&Path)) {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(data).expect("room for it");
    read(file.path());
}
