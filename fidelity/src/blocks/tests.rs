use super::*;
use proptest::prelude::*;

/// The lists of the acceptance case "chained block ids", block size 4.
const A: &[u32] = &[1, 2, 3, 4, 1, 2, 3, 4, 5];
const B: &[u32] = &[1, 2, 3, 4, 9, 9, 9, 9];
const C: &[u32] = &[7, 7, 7, 7, 1, 2, 3, 4];
const D: &[u32] = &[1, 2, 3, 4, 1, 2, 3, 4, 5, 6, 7, 8];

fn key() -> BlockKey {
    BlockKey::new(b"test")
}

fn shared(one: &[u64], other: &[u64]) -> usize {
    one.iter().zip(other).take_while(|(a, b)| a == b).count()
}

#[test]
fn equal_blocks_at_different_places_differ() {
    let [a, b, c, d] = [A, B, C, D].map(|tokens| of_tokens(&key(), tokens, 4, true));
    assert_eq!((a[0], a[0], a[1]), (b[0], d[0], d[1]));
    assert_ne!(a[0], a[1]);
    assert_ne!(c[1], a[0]);
    assert_ne!(c[1], a[1]);
    assert_ne!(a[2], d[2]);
}

#[test]
fn full_blocks_are_shared_as_far_as_the_prefix_goes() {
    let [a, b, c, d] = [A, B, C, D].map(|tokens| of_tokens(&key(), tokens, 4, false));
    assert_eq!(
        [
            shared(&a, &b),
            shared(&a, &d),
            shared(&a, &c),
            shared(&b, &d)
        ],
        [1, 2, 0, 1]
    );
}

#[test]
fn the_partial_block_is_kept_or_left() {
    let counts = |keep| [A, B, C, D].map(|tokens| of_tokens(&key(), tokens, 4, keep).len());
    assert_eq!(counts(true), [3, 2, 2, 3]);
    assert_eq!(counts(false), [2, 2, 2, 3]);
}

/// The same, as the acceptance case itself has it, where it is at hand.
#[test]
fn the_acceptance_case_holds() {
    let case =
        |file: &str| truetape_testkit::shared::text(&format!("cases/o45_chained_block_ids/{file}"));
    let (Some(given), Some(expected)) = (case("tokens.json"), case("expected.json")) else {
        return;
    };
    let given: serde_json::Value = serde_json::from_str(&given).unwrap();
    let expected: serde_json::Value = serde_json::from_str(&expected).unwrap();
    let hashes = |name: &str, keep_partial| {
        let tokens: Vec<u32> = serde_json::from_value(given["prompts"][name].clone()).unwrap();
        let block_tokens = given["block_size"].as_u64().unwrap() as u32;
        of_tokens(&key(), &tokens, block_tokens, keep_partial)
    };
    // "A1" is block 1 of prompt A.
    let block = |id: &serde_json::Value| {
        let (name, place) = id.as_str().unwrap().split_at(1);
        hashes(name, true)[place.parse::<usize>().unwrap()]
    };
    for (relation, equal) in [("equal", true), ("different", false)] {
        for pair in expected["expect"][relation].as_array().unwrap() {
            assert_eq!(block(&pair[0]) == block(&pair[1]), equal, "{pair}");
        }
    }
    for (pair, count) in expected["expect"]["shared_full_blocks"]
        .as_object()
        .unwrap()
    {
        let (one, other) = pair.split_once('-').unwrap();
        assert_eq!(
            shared(&hashes(one, false), &hashes(other, false)) as u64,
            *count,
            "{pair}"
        );
    }
    for (rule, keep_partial) in [
        ("id_counts_with_partial", true),
        ("id_counts_full_only", false),
    ] {
        let counts = ["A", "B", "C", "D"].map(|name| hashes(name, keep_partial).len());
        assert_eq!(
            expected["expect"][rule],
            serde_json::json!(counts),
            "{rule}"
        );
    }
}

#[test]
fn salts_share_nothing() {
    let hashes = |salt: &[u8]| of_tokens(&BlockKey::new(salt), D, 4, true);
    assert!(
        hashes(b"one")
            .iter()
            .all(|hash| !hashes(b"two").contains(hash))
    );
}

/// The hashes themselves, as an implementation in another language computes them.
#[test]
fn the_golden_hashes_hold() {
    let golden = include_str!("../../testdata/block_hashes.txt");
    let mut lines = 0;
    for line in golden.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split('\t').collect();
        let [salt, block_tokens, tokens, hashes] = fields[..] else {
            panic!("{line:?}")
        };
        let tokens: Vec<u32> = tokens
            .split(' ')
            .map(|token| token.parse().unwrap())
            .collect();
        let found = of_tokens(
            &BlockKey::new(salt.as_bytes()),
            &tokens,
            block_tokens.parse().unwrap(),
            true,
        );
        let found: Vec<String> = found.iter().map(|hash| format!("{hash:016x}")).collect();
        assert_eq!(found.join(" "), hashes, "{line:?}");
        lines += 1;
    }
    assert_eq!(lines, 4);
}

#[test]
fn bytes_and_token_ids_agree() {
    let bytes = crate::tokens::render_ids(A);
    assert_eq!(
        of_rendered(&key(), &bytes, 4.0, 4),
        of_tokens(&key(), A, 4, true)
    );
}

#[test]
fn a_fractional_calibration_does_not_drift() {
    // 3.3 bytes a token, 10 tokens a block: 330 bytes are ten blocks, and 331 are eleven.
    assert_eq!(of_rendered(&key(), &[b'x'; 330], 3.3, 10).len(), 10);
    assert_eq!(of_rendered(&key(), &[b'x'; 331], 3.3, 10).len(), 11);
}

#[test]
fn a_calibration_that_is_no_number_ends() {
    for bytes_per_token in [f64::NAN, 0.0, -1.0] {
        assert_eq!(of_rendered(&key(), b"abc", bytes_per_token, 16).len(), 3);
    }
    assert_eq!(of_rendered(&key(), b"abc", f64::INFINITY, 16).len(), 1);
    assert_eq!(of_tokens(&key(), A, 0, true).len(), A.len());
}

proptest! {
    /// A change in block k keeps every hash before it and changes every one from it on.
    #[test]
    fn a_change_reaches_every_block_after_it(
        tokens in proptest::collection::vec(0u32..50, 1..80),
        place: prop::sample::Index,
        block_tokens in 1u32..9,
    ) {
        let place = place.index(tokens.len());
        let mut changed = tokens.clone();
        changed[place] += 1;
        let before = of_tokens(&key(), &tokens, block_tokens, true);
        let after = of_tokens(&key(), &changed, block_tokens, true);
        let block = place / block_tokens as usize;
        prop_assert_eq!(&before[..block], &after[..block]);
        for (old, new) in before[block..].iter().zip(&after[block..]) {
            prop_assert_ne!(old, new);
        }
    }

    /// What follows a prefix does not change the hashes of its full blocks.
    #[test]
    fn a_shared_prefix_shares_its_hashes(
        prefix in proptest::collection::vec(any::<u32>(), 0..60),
        tail in proptest::collection::vec(any::<u32>(), 0..60),
        block_tokens in 1u32..9,
    ) {
        let whole = [&prefix[..], &tail[..]].concat();
        let full = prefix.len() / block_tokens as usize;
        let alone = of_tokens(&key(), &prefix, block_tokens, false);
        prop_assert_eq!(alone.len(), full);
        prop_assert_eq!(&of_tokens(&key(), &whole, block_tokens, true)[..full], &alone[..]);
    }

    /// Blocks cover the bytes once each, whatever the calibration.
    #[test]
    fn every_byte_is_in_one_block(
        length in 0usize..3_000, bytes_per_token in 0.3f64..9.0, block_tokens in 1u32..64,
    ) {
        let hashes = of_rendered(&key(), &vec![b'x'; length], bytes_per_token, block_tokens);
        let block_bytes = (bytes_per_token * f64::from(block_tokens)).max(1.0);
        let expected = (0..).find(|&n| (f64::from(n) * block_bytes).round() as usize >= length);
        prop_assert_eq!(Some(hashes.len() as i32), expected);
    }
}
