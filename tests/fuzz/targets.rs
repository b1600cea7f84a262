//! What is fuzzed: everything that reads bytes somebody else wrote.
//!
//! Each function takes any bytes and panics where a promise does not hold. `cargo fuzz` drives them
//! with coverage; the test `fuzz` drives them with the seeds, whole, cut and mutated.

use std::path::Path;
use truetape_proxy::{seal, spool};
use truetape_schemas::capture::footer::Footer;
use truetape_schemas::capture::{Exchange, blob};
use truetape_schemas::file::key::Keyring;
use truetape_schemas::file::{self, Reader};
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
    assert_eq!(
        dialect.refined(bytes).refined(bytes),
        dialect.refined(bytes)
    );
    if let Some((skeleton, blobs)) = blob::take_out(bytes) {
        let whole = blob::put_back(&skeleton, &blobs, |_| None);
        assert!(whole.as_deref() == Some(bytes), "blobs do not go back");
    }
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

/// Codings are undone within their bound, and say the same, or that they cannot, in any pieces;
/// but see below for zstd.
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
        "zstd, gzip",
        "br, zstd",
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
    // The decoder of zstd holds a frame to the size that it states, but not where the frame comes in
    // pieces and its last block is empty: what is malformed so is refused or not by how it was cut.
    let lenient = label.is_some_and(|label| label.contains("zstd"));
    if lenient && whole.is_some() != pieces.is_some() {
        return;
    }
    assert!(whole == pieces, "{label:?} cut every {step} bytes");
}

/// Recovery takes what is whole and leaves what is torn, whatever a crash left behind.
pub(crate) fn spools(data: &[u8]) {
    with_spool(data, |path| {
        recover(data, path);
    });
    // No fuzzer guesses a checksum: with right ones it reaches what stands behind them.
    let framed = framed(data);
    with_spool(&framed, |path| {
        let items = recover(&framed, path).expect("it begins as a spool does");
        // A segment with rows takes 50 ms to write: one input of 16 gets there.
        let rows = items
            .iter()
            .filter(|item| matches!(item, spool::Item::Row(_)))
            .count();
        let sum = data.iter().copied().fold(0, u8::wrapping_add);
        if rows == 0 || sum % 16 == 0 {
            seals(path, rows);
        }
    });
}

/// Reads what is whole; of a spool that was cut this is how the whole one begins.
fn recover(data: &[u8], path: &Path) -> Option<Vec<spool::Item>> {
    let items = items(data.len(), path)?;
    let share = usize::from(data.last().copied().unwrap_or(0));
    let cut = data.get(..data.len() * share / 256).unwrap_or_default();
    with_spool(cut, |path| {
        let begun = self::items(cut.len(), path).expect("its whole is read");
        // As text: a number that is none does not equal itself.
        let shown = |items: &[spool::Item]| format!("{items:?}");
        let beginning = items
            .get(..begun.len())
            .expect("no more items than the whole");
        assert_eq!(
            shown(beginning),
            shown(&begun),
            "cut after {} bytes",
            cut.len()
        );
    });
    Some(items)
}

fn items(bytes: usize, path: &Path) -> Option<Vec<spool::Item>> {
    let mut reader = spool::Reader::open(path, &Keyring::default()).ok()?;
    let mut items = Vec::new();
    while let Some(item) = reader.next_item().expect("a file that can be read") {
        items.push(item);
        // Every frame has at least a head of 8 bytes, so there is an end.
        assert!(items.len() <= bytes / 8, "more frames than bytes");
    }
    assert!(reader.torn_bytes() <= bytes as u64);
    Some(items)
}

/// A spool with these frames and right checksums; the last takes what there is.
fn framed(data: &[u8]) -> Vec<u8> {
    let (mut pen, mut bytes) = spool::Pen::new(None).expect("no key, no salt");
    let mut rest = data.get(spool::MAGIC.len()..).unwrap_or_default();
    while let Some(([a, b, c, d, ..], tail)) = rest.split_first_chunk::<8>() {
        let length = usize::try_from(u32::from_le_bytes([*a, *b, *c, *d])).unwrap_or(usize::MAX);
        let (payload, after) = tail.split_at(length.min(tail.len()));
        let frame = spool::Frame::whole(payload.to_vec());
        pen.write(&frame, &mut bytes).expect("room for it");
        rest = after;
    }
    bytes
}

/// What is read is sealed: every row, once, in a segment whose ledger balances.
fn seals(spool: &Path, rows: usize) {
    let sealed = seal::seal(spool, &Keyring::default()).expect("what is read is sealed");
    assert!(sealed.ledger.balances() && sealed.ledger.rows() == rows as u64);
    let Some(path) = sealed.path else {
        assert_eq!(rows, 0);
        return;
    };
    let reader = Reader::<Exchange>::open(&path).expect("what was sealed is read");
    let footer = Footer::from_pairs(reader.footer());
    assert_eq!(footer.ledger, Some(sealed.ledger));
    let read = reader.read_all().expect("what was sealed is read");
    assert_eq!(read.len(), rows);
}

/// A capture file is read, or refused with an error.
pub(crate) fn captures(data: &[u8]) {
    const BATCHES_MAX: usize = 16;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("a.parquet");
    std::fs::write(&path, data).expect("room for it");
    drop(file::types(&path));
    let Ok(reader) = Reader::<Exchange>::open(&path) else {
        return;
    };
    drop(Footer::from_pairs(reader.footer()));
    for batch in reader.take(BATCHES_MAX) {
        if batch.is_err() {
            return;
        }
    }
}

fn with_spool(data: &[u8], read: impl FnOnce(&Path)) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("a.spool");
    std::fs::write(&path, data).expect("room for it");
    read(&path);
}
