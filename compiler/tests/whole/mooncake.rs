//! Golden numbers of the Mooncake conversation trace, where it is at hand.

use crate::fixture::{compiled, contents, turns};
use std::path::{Path, PathBuf};
use truetape_compiler::import::format::TraceFormat;
use truetape_compiler::import::{ImportOptions, import};
use truetape_compiler::{profile, verify};
use truetape_fidelity::tokens::{count, render_completion};

fn trace() -> Option<PathBuf> {
    truetape_testkit::shared::path("traces/mooncake/conversation_trace.jsonl")
}

fn capture(trace: PathBuf, out: &Path) {
    let options = ImportOptions {
        format: TraceFormat::Mooncake,
        files: vec![trace],
        out: out.to_owned(),
        block_tokens: None,
        start_us: 0,
        strict: true,
    };
    let imported = import(&options).unwrap();
    assert_eq!(imported.ledger.recorded, 12_031);
    assert_eq!(imported.clock_resolution_us, Some(3_000_000));
}

const CURVE: [(usize, f64); 8] = [
    (1_000, 0.0445),
    (2_000, 0.0543),
    (5_000, 0.1118),
    (10_000, 0.2116),
    (20_000, 0.2878),
    (40_000, 0.3514),
    (80_000, 0.3615),
    (160_000, 0.3664),
];

#[test]
fn the_profile_has_the_known_numbers() {
    let Some(trace) = trace() else { return };
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("capture");
    capture(trace, &out);
    let options = profile::ProfileOptions {
        capacities_blocks: CURVE.iter().map(|(capacity, _)| *capacity).collect(),
        windows_s: Vec::new(),
        block_tokens: None,
        threads: 2,
    };
    let references = [out.display().to_string()];
    let (profile, _) = profile::of(&references, None, &options).unwrap();
    let input = &profile.input_tokens;
    let quantiles = [input.p50, input.p90, input.p99].map(|q| q.unwrap().round());
    assert_eq!(quantiles, [6_909.0, 27_367.0, 85_400.0]);
    assert_eq!((profile.turns, profile.sessions), (12_031, 8_056));
    assert_eq!(
        (profile.prefix.refs, profile.prefix.unique),
        (288_500, 182_790)
    );
    assert!((profile.prefix.infinite_hit_ratio.unwrap() - 0.366_412).abs() < 1e-6);
    for (point, (capacity, wanted)) in profile.prefix.curve.iter().zip(CURVE) {
        let found = point.hit_ratio.unwrap();
        assert!(
            (found - wanted).abs() < 6e-5,
            "{capacity}: {found}, wanted {wanted}"
        );
    }
}

#[test]
fn a_tenth_of_the_tokens_is_a_set_that_renders_to_its_lengths() {
    let Some(trace) = trace() else { return };
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("capture");
    capture(trace, &out);
    let recipe = "name = \"mooncake\"\n[select]\nmethod = \"random\"";
    let set = compiled(&[out], recipe, &dir.path().join("store"));
    let counts = &set.manifest.counts;
    let share = (counts.input_tokens + counts.output_tokens) as f64 / (144_793_823.0 + 4_122_048.0);
    assert!((share - 0.1).abs() < 0.001, "{share}");
    assert_eq!(
        verify::of(set.dir.to_str().unwrap(), None).unwrap().faults,
        Vec::<String>::new()
    );
    let contents = contents(&set);
    for turn in turns(&set) {
        let parts = turn.content.iter().map(|id| contents[id].body.as_slice());
        let prompt = String::from_utf8(parts.collect::<Vec<_>>().concat()).unwrap();
        assert_eq!(
            Some(count(&render_completion(&prompt))),
            turn.input_tokens.map(|n| n as u64)
        );
    }
}
