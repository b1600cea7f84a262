//! Exchanges that were cut at any byte, or damaged.

use crate::support::{Exchange, exchanges};
use proptest::prelude::*;
use std::sync::LazyLock;
use truetape_schemas::wire::{ResponseFacts, read_messages, read_request};

/// Every exchange, read once.
static EXCHANGES: LazyLock<Vec<Exchange>> = LazyLock::new(|| {
    exchanges()
        .into_iter()
        .map(|(_, exchange)| exchange)
        .collect()
});

/// Reads an answer as it came, but with one of its reads cut in two.
fn cut(exchange: &Exchange, read: usize, at: usize) -> (bool, ResponseFacts) {
    let mut reader = exchange.reader();
    for (index, (at_us, bytes)) in exchange.reads.iter().enumerate() {
        let at = if index == read { at } else { 0 };
        let (one, other) = bytes.split_at(at.min(bytes.len()));
        reader.push(*at_us, one);
        reader.push(*at_us, other);
    }
    (reader.done_seen(), reader.finish(exchange.end))
}

#[test]
fn a_read_that_is_cut_in_two_at_any_byte_is_the_same_read() {
    for exchange in EXCHANGES.iter() {
        let whole = exchange.answer(usize::MAX);
        for (read, (_, bytes)) in exchange.reads.iter().enumerate() {
            for at in 1..bytes.len() {
                let path = &exchange.path;
                assert_eq!(cut(exchange, read, at), whole, "{path} read {read} at {at}");
            }
        }
    }
}

/// A change of a byte string.
#[derive(Clone, Debug)]
enum Damage {
    Set(usize, u8),
    Remove(usize, usize),
    Repeat(usize, usize),
    Insert(usize, &'static str),
}

/// What JSON, events and their readers care about.
const PIECES: [&str; 14] = [
    "{", "}", "[", "]", "\"", "\\u", "\\ud800", ":", ",", "null", "-1", "1e999", "\n\n", "data: ",
];

fn damage() -> impl Strategy<Value = Damage> {
    let at = any::<usize>();
    prop_oneof![
        (at, any::<u8>()).prop_map(|(at, byte)| Damage::Set(at, byte)),
        (any::<usize>(), 1..40_usize).prop_map(|(at, length)| Damage::Remove(at, length)),
        (any::<usize>(), 1..200_usize).prop_map(|(at, length)| Damage::Repeat(at, length)),
        (any::<usize>(), prop::sample::select(&PIECES[..]))
            .prop_map(|(at, piece)| Damage::Insert(at, piece)),
    ]
}

fn damaged(bytes: &[u8], damages: &[Damage]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for damage in damages {
        let length = bytes.len();
        let place = |at: usize| at % length.max(1);
        match *damage {
            _ if length == 0 => {}
            Damage::Set(at, byte) => bytes[place(at)] = byte,
            Damage::Remove(at, count) => {
                let at = place(at);
                bytes.drain(at..(at + count).min(length));
            }
            Damage::Repeat(at, count) => {
                let at = place(at);
                let piece = bytes[at..(at + count).min(length)].to_vec();
                bytes.splice(at..at, piece);
            }
            Damage::Insert(at, piece) => {
                bytes.splice(place(at)..place(at), piece.bytes());
            }
        }
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_damaged_exchange_is_read_as_far_as_it_goes(
        which in any::<prop::sample::Index>(),
        damages in prop::collection::vec(damage(), 1..6),
        cut in 1..90_usize,
    ) {
        let exchange = which.get(&EXCHANGES);
        let body = damaged(&exchange.request_body, &damages);
        read_request(exchange.dialect(), &body);
        read_messages(exchange.dialect(), &body);

        let all: Vec<u8> = exchange.reads.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
        let all = damaged(&all, &damages);
        let read = |piece_bytes: usize| {
            let mut reader = exchange.reader();
            all.chunks(piece_bytes).for_each(|piece| reader.push(7, piece));
            reader.finish(exchange.end)
        };
        let facts = read(usize::MAX);
        prop_assert_eq!(&read(cut), &facts);
        prop_assert_eq!(facts.token_event_offsets_us.len(), facts.token_event_choices.len());
        let lengths = [
            facts.input_tokens, facts.output_tokens, facts.cached_tokens, facts.reasoning_tokens,
        ];
        prop_assert!(lengths.iter().flatten().all(|length| *length >= 0), "{:?}", lengths);
    }
}
