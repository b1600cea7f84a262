use super::*;
use proptest::prelude::*;
use truetape_schemas::file::key::{Key, Keyring};

fn exchange(request: Option<Vec<u8>>, response: Option<Vec<u8>>) -> Exchange {
    Exchange {
        exchange_id: "e".to_owned(),
        arrival: 7,
        temperature: Some(0.1),
        block_hashes: Some(vec![u64::MAX]),
        request_body: request,
        response_body: response,
        ..Exchange::default()
    }
}

fn keys() -> Keyring {
    Keyring::of(Key::new(vec![1; 16]).unwrap())
}

/// A spool that holds its head and these rows, and where each of its frames ends.
fn spool_of(encrypted: bool, rows: &[Exchange]) -> (Vec<u8>, Vec<usize>) {
    let keys = keys();
    let (mut pen, mut bytes) = Pen::new(keys.writing().filter(|_| encrypted)).unwrap();
    let mut ends = vec![0, bytes.len()];
    let rows = rows.iter().map(|exchange| row(exchange.clone()));
    for frame in std::iter::once(super::head(&head())).chain(rows) {
        let length = pen.write(&frame.unwrap(), &mut bytes).unwrap();
        assert_eq!(ends.last().unwrap() + length as usize, bytes.len());
        ends.push(bytes.len());
    }
    (bytes, ends)
}

fn head() -> Head {
    Head {
        opened: ClockAnchor {
            wall_us: 5,
            mono_us: 1,
        },
        terms: Terms {
            config_digest: "d".to_owned(),
            redaction_profile: "r".to_owned(),
            ..Terms::default()
        },
        tool_version: "0".to_owned(),
        columns: columns().to_vec(),
    }
}

/// A spool of the build before, which had a column more, one less, and another order.
#[test]
fn the_rows_of_another_version_are_found_by_their_names() {
    #[derive(Serialize)]
    struct Before {
        gone: Vec<u8>,
        status: Option<i32>,
        exchange_id: String,
        block_hashes: Option<Vec<u64>>,
        outcome: truetape_schemas::capture::Outcome,
    }
    let before = Before {
        gone: vec![1, 2],
        status: Some(429),
        exchange_id: "e".to_owned(),
        block_hashes: Some(vec![u64::MAX]),
        outcome: truetape_schemas::capture::Outcome::Error,
    };
    let rest = serde_json::to_value(Exchange::default()).unwrap();
    let mut names: Vec<String> = ["gone", "status", "exchange_id", "block_hashes", "outcome"]
        .map(str::to_owned)
        .to_vec();
    let mut list = rmp_serde::to_vec(&before).unwrap();
    // A list of up to 15 is one byte; the columns that must be there follow in a longer one.
    let others: Vec<_> = rest
        .as_object()
        .unwrap()
        .iter()
        .filter(|(name, value)| {
            (!value.is_null() || name.ends_with("_body")) && !names.contains(name)
        })
        .collect();
    let count = u16::try_from(names.len() + others.len()).unwrap();
    let mut long = vec![0xdc];
    long.extend(count.to_be_bytes());
    long.extend(list.drain(1..));
    for (name, value) in others {
        names.push(name.clone());
        long.extend(rmp_serde::to_vec(value).unwrap());
    }
    let mut payload = vec![ROW];
    for length in [u32_of(long.len()).unwrap(), NO_BODY, 2] {
        payload.extend(length.to_le_bytes());
    }
    payload.extend(long);
    payload.extend(b"hi");
    let (mut pen, mut bytes) = Pen::new(None).unwrap();
    let first = super::head(&Head {
        columns: names,
        ..head()
    })
    .unwrap();
    pen.write(&first, &mut bytes).unwrap();
    pen.write(&Frame::whole(payload), &mut bytes).unwrap();
    let (items, torn) = read(&bytes);
    let [Item::Head(_), Item::Row(row)] = &items[..] else {
        panic!("{items:?}");
    };
    assert_eq!(
        (row.status, row.exchange_id.as_str(), torn),
        (Some(429), "e", 0)
    );
    assert_eq!(row.block_hashes, Some(vec![u64::MAX]));
    assert_eq!(row.response_body.as_deref(), Some(&b"hi"[..]));
    assert_eq!(row.arrival, 0);
}

fn read(bytes: &[u8]) -> (Vec<Item>, u64) {
    use std::io::Write as _;
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    let mut reader = Reader::open(file.path(), &keys()).unwrap();
    let mut items = Vec::new();
    while let Some(item) = reader.next_item().unwrap() {
        items.push(item);
    }
    (items, reader.torn_bytes())
}

fn body() -> impl Strategy<Value = Option<Vec<u8>>> {
    proptest::option::of(proptest::collection::vec(any::<u8>(), 0..40))
}

proptest! {
    /// Wherever a crash cuts a spool, the rows before the cut are read, and no others.
    #[test]
    fn a_torn_tail_costs_only_itself(
        bodies in proptest::collection::vec((body(), body()), 0..6),
        cut in 0.0f64..=1.0,
        encrypted in any::<bool>(),
    ) {
        let rows: Vec<Exchange> = bodies.into_iter().map(|(q, s)| exchange(q, s)).collect();
        let (bytes, ends) = spool_of(encrypted, &rows);
        let cut = (bytes.len() as f64 * cut) as usize;
        let whole = ends[3..].iter().filter(|end| **end <= cut).count();
        let (items, torn) = read(&bytes[..cut]);
        let found: Vec<Exchange> = items.into_iter().filter_map(|item| match item {
            Item::Row(row) => Some(*row),
            _ => None,
        }).collect();
        prop_assert_eq!(&found, &rows[..whole]);
        let last = ends.into_iter().filter(|end| *end <= cut).max().unwrap();
        prop_assert_eq!(torn, (cut - last) as u64);
    }

    /// A flipped bit is never read as a row, and what comes before it is.
    #[test]
    fn a_flipped_bit_is_found(
        at in any::<proptest::sample::Index>(),
        bit in 0u8..8,
        encrypted in any::<bool>(),
    ) {
        let first = exchange(Some(b"request".to_vec()), None);
        let second = exchange(None, Some(b"response".to_vec()));
        let (mut bytes, ends) = spool_of(encrypted, &[first.clone(), second]);
        let from = ends[3];
        let at = from + at.index(bytes.len() - from);
        bytes[at] ^= 1 << bit;
        let (items, torn) = read(&bytes);
        prop_assert_eq!(items.len(), 2);
        prop_assert_eq!(&items[1], &Item::Row(Box::new(first)));
        prop_assert_eq!(torn, (bytes.len() - from) as u64);
    }

    /// Whoever can write to the disk can make checksums, and still no row.
    #[test]
    fn a_forged_frame_is_counted_and_not_read(
        at in any::<proptest::sample::Index>(),
        bit in 0u8..8,
    ) {
        let row = exchange(Some(b"request".to_vec()), None);
        let (mut bytes, ends) = spool_of(true, &[row]);
        let payload = ends[2] + FRAME_HEAD_BYTES;
        let at = payload + at.index(bytes.len() - payload);
        bytes[at] ^= 1 << bit;
        let crc = crc32fast::hash(&bytes[payload..]);
        bytes[payload - 4..payload].copy_from_slice(&crc.to_le_bytes());
        prop_assert_eq!(read(&bytes), (vec![Item::Head(head()), Item::Unreadable], 0));
    }
}

#[test]
fn noise_is_no_spool_and_no_allocation() {
    let (items, torn) = read(&[0xff; 64]);
    assert_eq!((items.len(), torn), (0, 64));
    let (mut bytes, _) = spool_of(false, &[]);
    bytes.extend_from_slice(&[0xff; 64]);
    let (items, torn) = read(&bytes);
    assert_eq!((items.len(), torn), (1, 64));
}

#[test]
fn a_note_comes_back() {
    let mut ledger = Ledger {
        offered: 3,
        ..Ledger::default()
    };
    ledger.dropped.insert("disk".to_owned(), 2);
    let kept = Note {
        ledger,
        anchor: ClockAnchor {
            wall_us: 1,
            mono_us: 2,
        },
        closed: true,
    };
    let (mut pen, mut bytes) = Pen::new(None).unwrap();
    pen.write(&note(&kept).unwrap(), &mut bytes).unwrap();
    assert_eq!(read(&bytes).0, [Item::Note(kept)]);
}
