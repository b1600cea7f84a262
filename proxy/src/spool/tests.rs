use super::*;
use proptest::prelude::*;

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

fn head() -> Head {
    Head {
        opened: ClockAnchor {
            wall_us: 5,
            mono_us: 1,
        },
        config_digest: "d".to_owned(),
        redaction_profile: "r".to_owned(),
        tool_version: "0".to_owned(),
    }
}

fn read(bytes: &[u8]) -> (Vec<Item>, u64) {
    use std::io::Write as _;
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    let mut reader = Reader::open(file.path()).unwrap();
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
    ) {
        let mut bytes = begin(&head()).unwrap();
        let mut ends = vec![];
        let mut wanted = vec![];
        for (request, response) in bodies {
            let row = exchange(request, response);
            bytes.extend_from_slice(&super::row(row.clone()).unwrap());
            ends.push(bytes.len());
            wanted.push(Item::Row(Box::new(row)));
        }
        let cut = (bytes.len() as f64 * cut) as usize;
        let whole = ends.iter().filter(|end| **end <= cut).count();
        let (items, torn) = read(&bytes[..cut]);
        let rows: Vec<&Item> = items.iter().filter(|i| matches!(i, Item::Row(_))).collect();
        prop_assert_eq!(rows, wanted[..whole].iter().collect::<Vec<_>>());
        let starts = [0, MAGIC.len(), begin(&head()).unwrap().len()];
        let last = starts.into_iter().chain(ends).filter(|end| *end <= cut).max().unwrap();
        prop_assert_eq!(torn, (cut - last) as u64);
    }

    /// A flipped bit is never read as a row, and what comes before it is.
    #[test]
    fn a_flipped_bit_is_found(at in any::<proptest::sample::Index>(), bit in 0u8..8) {
        let first = exchange(Some(b"request".to_vec()), None);
        let mut bytes = begin(&head()).unwrap();
        bytes.extend_from_slice(&row(first.clone()).unwrap());
        let from = bytes.len();
        bytes.extend_from_slice(&row(exchange(None, Some(b"response".to_vec()))).unwrap());
        let at = from + at.index(bytes.len() - from);
        bytes[at] ^= 1 << bit;
        let (items, torn) = read(&bytes);
        prop_assert_eq!(items.len(), 2);
        prop_assert_eq!(&items[1], &Item::Row(Box::new(first)));
        prop_assert_eq!(torn, (bytes.len() - from) as u64);
    }
}

#[test]
fn noise_is_no_spool_and_no_allocation() {
    let (items, torn) = read(&[0xff; 64]);
    assert_eq!((items.len(), torn), (0, 64));
    let mut bytes = begin(&head()).unwrap();
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
    let mut bytes = begin(&head()).unwrap();
    bytes.extend_from_slice(&note(&kept).unwrap());
    assert_eq!(read(&bytes).0, [Item::Head(head()), Item::Note(kept)]);
}
