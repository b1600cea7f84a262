//! The spec page quotes what the code does.

use super::known_good::population;
use super::runs::Replay;
use super::*;
use crate::direction::PRIORS;

const PAGE: &str = include_str!("../../../../schemas/spec/report-v1.md");

#[test]
fn the_spec_lists_every_dimension_with_its_threshold() {
    let source = population(60);
    let level1 = set_against_source(&source, &source, &SetContext::default());
    let mut replay = Replay::faithful();
    for turn in &mut replay.turns {
        turn.cached_tokens = Some(0);
    }
    replay.run.counters = Some(truetape_schemas::run::metrics::Counters::default());
    let level2 = replay.report();
    let dimensions = level1.dimensions.iter().chain(&level2.dimensions);
    for dimension in dimensions.filter(|dimension| dimension.id != "set.graded") {
        let row = format!(
            "| `{}` | {} | {} |",
            dimension.id, dimension.unit, dimension.threshold
        );
        assert!(
            PAGE.contains(&row),
            "the page must have a row that starts: {row}"
        );
    }
    let rows = PAGE.lines().filter(|line| {
        let unit = line.split('|').nth(2).unwrap_or_default().trim();
        [
            "relative",
            "rank_points",
            "ratio_points",
            "share",
            "ln_ratio",
            "ms",
        ]
        .contains(&unit)
    });
    let listed = rows.count();
    assert_eq!(
        listed,
        level1.dimensions.len() + level2.dimensions.len() - 1,
        "rows of the page"
    );
}

#[test]
fn the_spec_lists_every_prior() {
    for prior in PRIORS {
        let row = format!(
            "| `{}` | {} | {} | {} |",
            prior.id,
            prior.lower.name(),
            prior.higher.name(),
            prior.size
        );
        assert!(PAGE.contains(&row), "the page must have the row: {row}");
    }
}
