//! What is chosen, where it is placed, and what the manifest tells about both.

use crate::fixture::{Talk, compiled, hold, options, turns, write};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use truetape_compiler::compile::{Compiled, compile};
use truetape_schemas::blame::{Blame, Blamed as _};
use truetape_schemas::capture::Exchange;
use truetape_schemas::set::manifest::{Arrangement, Selection};

/// Sixty conversations: most start in one of five bursts, on one of two replicas.
fn rows() -> Vec<Exchange> {
    let talk = |at: i64| Talk {
        name: format!("t{at:02}"),
        start_us: if at % 4 == 0 {
            at * 9_000_000
        } else {
            at % 5 * 120_000_000 + at * 1_000
        },
        turns: 1 + at as usize % 3,
        keyed: true,
    };
    let on = |at: i64, row: Exchange| Exchange {
        upstream: format!("10.0.0.{}:8000", 1 + at % 2),
        ..row
    };
    (0..60)
        .flat_map(|at| hold(&talk(at)).into_iter().map(move |row| on(at, row)))
        .collect()
}

fn one_replica() -> Vec<Exchange> {
    rows()
        .into_iter()
        .map(|row| Exchange {
            upstream: "10.0.0.9:80".into(),
            ..row
        })
        .collect()
}

fn capture(dir: &Path, rows: &[Exchange]) -> PathBuf {
    write(&dir.join("c/0.parquet"), rows);
    dir.join("c")
}

fn selection(set: &Compiled) -> &Selection {
    set.manifest.selection.as_ref().unwrap()
}

fn arrangement(set: &Compiled) -> &Arrangement {
    set.manifest.arrangement.as_ref().unwrap()
}

/// By exchange: where it was in its session, in the set.
fn offsets(set: &Compiled) -> BTreeMap<String, i64> {
    let mut first: BTreeMap<String, i64> = BTreeMap::new();
    let turns = turns(set);
    assert!(turns.is_sorted_by_key(|turn| turn.start_us));
    for (at, turn) in turns.iter().enumerate() {
        assert_eq!(turn.turn_id, at as i64);
        assert!(turn.depends_on.iter().all(|id| *id < turn.turn_id));
    }
    turns
        .into_iter()
        .map(|turn| {
            let first = *first.entry(turn.session).or_insert(turn.start_us);
            (turn.exchange_id, turn.start_us - first)
        })
        .collect()
}

#[test]
fn a_captured_replica_is_the_budget_and_its_routing_the_reference() {
    let dir = tempfile::tempdir().unwrap();
    let set = compiled(&[capture(dir.path(), &rows())], "", dir.path());
    let told = selection(&set);
    assert_eq!(
        (told.routing.as_deref(), told.replicas),
        (Some("captured"), Some(2))
    );
    assert!(
        (told.share - 0.5).abs() < 1e-9 && (told.share_got - 0.5).abs() < 0.03,
        "{told:?}"
    );
    assert!(told.simulated > 1);
    let chosen_on = told
        .engines
        .iter()
        .filter(|engine| engine.chosen_on)
        .count();
    assert_eq!((told.engines.len(), chosen_on), (7, 5));
    assert!(
        told.residuals
            .iter()
            .any(|residual| residual.held_out && residual.group == "joint")
    );
    assert!(
        told.residuals
            .iter()
            .any(|residual| !residual.held_out && residual.group == "hits")
    );
}

#[test]
fn one_replica_is_taken_whole() {
    let dir = tempfile::tempdir().unwrap();
    let recipe = "[select]\nmethod = \"replica\"";
    let set = compiled(&[capture(dir.path(), &rows())], recipe, dir.path());
    let turns = turns(&set);
    let upstreams: BTreeSet<&str> = turns.iter().map(|turn| turn.upstream.as_str()).collect();
    assert_eq!(upstreams.len(), 1, "{upstreams:?}");
    let wanted = rows()
        .iter()
        .filter(|row| upstreams.contains(row.upstream.as_str()))
        .count();
    assert_eq!(turns.len(), wanted);
}

#[test]
fn a_fleet_view_says_how_much_smaller_its_cache_is() {
    let dir = tempfile::tempdir().unwrap();
    let recipe = "view = \"fleet\"\n[select]\ntoken_share = 0.3\n[tokens]\nblock_tokens = 4";
    let set = compiled(&[capture(dir.path(), &one_replica())], recipe, dir.path());
    let told = selection(&set);
    assert_eq!(told.unit, "family");
    assert!((told.cache_factor.unwrap() - told.share_got).abs() < 1e-5);
    assert!(told.hot_blocks.is_some() && told.routing.is_none());
}

#[test]
fn what_is_captured_shows_no_replicas_where_there_is_one_address() {
    let dir = tempfile::tempdir().unwrap();
    let recipe = "[select]\nrouting = \"captured\"";
    let capture = capture(dir.path(), &one_replica());
    let refused = compile(&options(&[capture], recipe, dir.path(), 1)).unwrap_err();
    assert_eq!(refused.blame(), Blame::Config);
    assert!(refused.to_string().contains("one upstream"), "{refused}");
}

#[test]
fn only_whole_sessions_move() {
    let dir = tempfile::tempdir().unwrap();
    let capture = [capture(dir.path(), &one_replica())];
    let select = "[select]\ntoken_share = 0.5\n";
    let recorded = compiled(&capture, &format!("name = \"a\"\n{select}"), dir.path());
    for arrange in [
        "rate = \"shape\"",
        "idle_max = \"10s\"",
        "rate = \"shape\"\nidle_max = \"1s\"",
    ] {
        let recipe = format!("name = \"b\"\n{select}[arrange]\n{arrange}");
        let moved = compiled(&capture, &recipe, dir.path());
        assert_eq!(offsets(&moved), offsets(&recorded), "{arrange}");
        let told = arrangement(&moved);
        assert!(
            told.invariants.iter().all(|told| told.holds != Some(false)),
            "{told:?}"
        );
        assert_eq!(
            told.idle_cut_us > 0,
            arrange.contains("idle_max"),
            "{told:?}"
        );
        assert_ne!(turns(&moved), turns(&recorded), "{arrange}");
    }
}

#[test]
fn stress_is_several_samples_and_no_more_than_there_are() {
    let dir = tempfile::tempdir().unwrap();
    let capture = [capture(dir.path(), &one_replica())];
    let recipe = |copies: u32| {
        format!("[select]\ntoken_share = 0.2\n[arrange]\nrate = \"stress\"\ncopies = {copies}")
    };
    let set = compiled(&capture, &recipe(2), dir.path());
    assert!(
        (selection(&set).share_got - 0.4).abs() < 0.03,
        "{:?}",
        selection(&set)
    );
    assert_eq!(
        selection(&set).engines,
        [],
        "two replicas' users have no latencies of one"
    );
    let refused = compile(&options(&capture, &recipe(6), dir.path(), 1)).unwrap_err();
    assert_eq!(refused.blame(), Blame::Config);
    assert!(refused.to_string().contains("allowed are 5"), "{refused}");
}

#[test]
fn a_lead_in_brings_the_sessions_before_a_window() {
    let dir = tempfile::tempdir().unwrap();
    let capture = [capture(dir.path(), &one_replica())];
    let window = "[select]\nmethod = \"window\"\nwindow = { start = \"240s\", length = \"60s\" }\n";
    let plain = compiled(&capture, &format!("name = \"a\"\n{window}"), dir.path());
    let lead_in = format!("name = \"b\"\n{window}[arrange]\nlead_in = \"130s\"");
    let led = compiled(&capture, &lead_in, dir.path());
    let (plain, with) = (offsets(&plain), offsets(&led));
    assert!(plain.keys().all(|exchange| with.contains_key(exchange)));
    let told = arrangement(&led);
    assert!(
        told.lead_in_turns > 0 && with.len() > plain.len(),
        "{told:?}"
    );
}
