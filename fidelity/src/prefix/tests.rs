use super::*;
use crate::mix::mix;
use proptest::prelude::*;

fn curve(requests: &[Vec<u64>], capacities: &[usize]) -> Curve {
    hit_curve(requests.iter().map(Vec::as_slice), capacities)
}

/// A list that is searched from the top: the definition, at one capacity.
fn naive_lru(requests: &[Vec<u64>], capacity: usize) -> Vec<u32> {
    let mut cache: Vec<u64> = Vec::new();
    let mut hits = Vec::new();
    for blocks in requests {
        hits.push(
            blocks
                .iter()
                .take_while(|block| cache.contains(block))
                .count() as u32,
        );
        for block in blocks.iter().rev() {
            cache.retain(|cached| cached != block);
            cache.insert(0, *block);
        }
        cache.truncate(capacity);
    }
    hits
}

/// Requests with chained blocks: a block is known by all the choices that led to it.
fn chained() -> impl Strategy<Value = Vec<Vec<u64>>> {
    let choices = proptest::collection::vec(0u64..3, 0..7);
    proptest::collection::vec(choices, 0..60)
        .prop_map(|requests| requests.iter().map(|choices| chain_of(choices)).collect())
}

fn chain_of(choices: &[u64]) -> Vec<u64> {
    let mut parent = 0;
    choices
        .iter()
        .map(|choice| {
            parent = mix(parent ^ (choice + 1));
            parent
        })
        .collect()
}

#[test]
fn a_small_sequence_by_hand() {
    let requests = [vec![1, 2, 3], vec![1, 2, 4], vec![5], vec![1, 2, 3]];
    let found = curve(&requests, &[0, 1, 2, 3, 4, 5]);
    assert_eq!((found.refs, found.unique, found.infinite_hits), (10, 5, 5));
    // Second request: 1 and 2 at depths 0 and 1. Last: above 1 lies 5, above 2 also 1, and above
    // 3 also 4: depths 1, 2, 4.
    assert_eq!(found.hits, [0, 1, 3, 4, 4, 5]);
}

#[test]
fn nothing_referred_to_has_no_ratio() {
    let found = curve(&[], &[1]);
    assert_eq!(
        (found.infinite_hit_ratio(), found.hit_ratios()),
        (None, vec![])
    );
}

#[test]
fn a_clock_that_runs_out_is_compacted() {
    // 3 blocks of which each is moved far more often than the clock has slots.
    let requests: Vec<Vec<u64>> = (0..5_000).map(|i| vec![i % 3]).collect();
    let found = curve(&requests, &[2, 3]);
    assert_eq!((found.unique, found.infinite_hits), (3, 4_997));
    assert_eq!(found.hits, [0, 4_997]);
}

proptest! {
    /// One pass over the stack says what a cache of each capacity would have done.
    #[test]
    fn every_capacity_agrees_with_a_plain_lru(requests in chained(), capacity in 0usize..40) {
        let naive = naive_lru(&requests, capacity);
        let slices = || requests.iter().map(Vec::as_slice);
        prop_assert_eq!(&hits_per_request(slices(), Some(capacity)), &naive);
        let total: u64 = naive.iter().map(|&hits| u64::from(hits)).sum();
        prop_assert_eq!(curve(&requests, &[capacity]).hits, vec![total]);
    }

    /// Chained blocks hit as a prefix: no block beyond the leading run is in the cache.
    #[test]
    fn hits_form_a_prefix(requests in chained(), capacity in 0usize..40) {
        let mut cache: Vec<u64> = Vec::new();
        for blocks in &requests {
            let present: Vec<bool> = blocks.iter().map(|block| cache.contains(block)).collect();
            prop_assert!(present.is_sorted_by(|earlier, later| earlier >= later));
            for block in blocks.iter().rev() {
                cache.retain(|cached| cached != block);
                cache.insert(0, *block);
            }
            cache.truncate(capacity);
        }
    }

    /// Ids that are no chain are counted by their leading run, too.
    #[test]
    fn ids_that_are_no_chain_agree_with_a_plain_lru(
        requests in proptest::collection::vec(proptest::collection::vec(0u64..12, 0..6), 0..40),
        capacity in 0usize..14,
    ) {
        let slices = requests.iter().map(Vec::as_slice);
        prop_assert_eq!(hits_per_request(slices, Some(capacity)), naive_lru(&requests, capacity));
    }

    /// More room never hits less, and enough room hits as no bound does.
    #[test]
    fn the_curve_rises_to_its_bound(requests in chained()) {
        let found = curve(&requests, &(0..60).collect::<Vec<_>>());
        prop_assert!(found.hits.is_sorted());
        let enough = curve(&requests, &[found.unique as usize]);
        prop_assert_eq!(enough.hits, vec![found.infinite_hits]);
    }

    /// Compaction is invisible: long sequences cross it many times.
    #[test]
    fn long_sequences_agree_with_a_plain_lru(seed: u64, capacity in 1usize..80) {
        let requests: Vec<Vec<u64>> = (0..900)
            .map(|i| {
                let choices: Vec<u64> = (0..4).map(|level| mix(seed ^ i ^ level) % 4).collect();
                chain_of(&choices)
            })
            .collect();
        let found = hits_per_request(requests.iter().map(Vec::as_slice), Some(capacity));
        prop_assert_eq!(found, naive_lru(&requests, capacity));
    }
}

/// Sums of a table are the curve, at every capacity and without bound.
#[test]
fn a_table_of_hits_adds_up_to_the_curve() {
    let requests: Vec<Vec<u64>> = (0..400)
        .map(|i| chain_of(&[mix(i) % 3, mix(i + 9) % 4, mix(i + 99) % 5]))
        .collect();
    let slices = || requests.iter().map(Vec::as_slice);
    let capacities = [1, 7, 30];
    let (table, curve) = (
        hit_table(slices(), &capacities),
        curve(&requests, &capacities),
    );
    let sum = |place: usize| -> u64 {
        (0..requests.len())
            .map(|request| u64::from(table.of(request)[place]))
            .sum()
    };
    assert_eq!([sum(0), sum(1), sum(2)], curve.hits[..]);
    assert_eq!(sum(3), curve.infinite_hits);
    assert!(table.of(requests.len()).is_empty());
}

#[test]
fn a_sample_of_everything_is_exact() {
    let requests: Vec<Vec<u64>> = (0..3_000)
        .map(|i| chain_of(&[0, mix(i) % 3, mix(i + 9) % 9, mix(i + 99) % 50, i / 2]))
        .collect();
    let capacities = [1, 5, 40, 900, 3_000];
    let exact = curve(&requests, &capacities);
    let sample = sampled::hit_curve(requests.iter().map(Vec::as_slice), &capacities, 1);
    assert_eq!(sample, exact);
    let slices = || requests.iter().map(Vec::as_slice);
    let table = sampled::hit_table(slices(), &capacities, 1);
    assert_eq!(table, hit_table(slices(), &capacities));
}

#[test]
fn many_references_are_sampled_and_few_are_not() {
    assert_eq!(sampled::one_in(sampled::REFS_EXACT_MAX), 1);
    assert_eq!(sampled::one_in(sampled::REFS_EXACT_MAX + 1), 5);
}

/// A tenth of the blocks, and a twentieth, say what all of them do.
#[test]
fn the_sampled_curve_of_the_public_conversation_trace() {
    let Some(rows) = crate::testdata::mooncake("mooncake/conversation_trace.jsonl") else {
        return;
    };
    let requests: Vec<Vec<u64>> = rows.into_iter().map(|row| row.blocks).collect();
    let capacities = [1_000, 2_000, 5_000, 10_000, 20_000, 40_000, 80_000, 160_000];
    let exact = curve(&requests, &capacities).hit_ratios();
    for (one_in, most) in [(10, 0.005), (20, 0.01)] {
        let slices = requests.iter().map(Vec::as_slice);
        let sample = sampled::hit_curve(slices, &capacities, one_in);
        let errors = sample
            .hit_ratios()
            .into_iter()
            .zip(&exact)
            .map(|(a, b)| (a - b).abs());
        let mae = errors.sum::<f64>() / exact.len() as f64;
        println!("one in {one_in}: {mae:.5}");
        assert!(mae < most, "one in {one_in}: {mae}");
        assert_eq!(sample.refs, 288_500);
        let table = sampled::hit_table(requests.iter().map(Vec::as_slice), &[20_000], one_in);
        let hits: u64 = (0..requests.len())
            .map(|at| u64::from(table.of(at)[0]))
            .sum();
        let error = hits as f64 / 288_500.0 - exact[4];
        assert!(error.abs() < 2.0 * most, "one in {one_in}: {error}");
    }
}

/// Numbers measured by another implementation on a public trace, where it is at hand.
#[test]
fn the_curve_of_the_public_conversation_trace() {
    let trace = "traces/mooncake/conversation_trace.jsonl";
    let Some(text) = truetape_testkit::shared::text(trace) else {
        return;
    };
    let requests: Vec<Vec<u64>> = text
        .lines()
        .map(|line| {
            let row: serde_json::Value = serde_json::from_str(line).unwrap();
            row["hash_ids"]
                .as_array()
                .unwrap()
                .iter()
                .map(|id| id.as_u64().unwrap())
                .collect()
        })
        .collect();
    let capacities = [1_000, 2_000, 5_000, 10_000, 20_000, 40_000, 80_000, 160_000];
    let started = std::time::Instant::now();
    let found = curve(&requests, &capacities);
    let ns_per_ref = started.elapsed().as_nanos() / u128::from(found.refs);
    println!("{ns_per_ref} ns a reference");
    assert_eq!((found.refs, found.unique), (288_500, 182_790));
    let shown: Vec<String> = found
        .hit_ratios()
        .iter()
        .map(|ratio| format!("{ratio:.4}"))
        .collect();
    let golden = [
        "0.0445", "0.0543", "0.1118", "0.2116", "0.2878", "0.3514", "0.3615", "0.3664",
    ];
    assert_eq!(shown, golden);
    assert_eq!(
        format!("{:.6}", found.infinite_hit_ratio().unwrap()),
        "0.366412"
    );
}
