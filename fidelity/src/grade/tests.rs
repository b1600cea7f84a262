//! Distortions are caught by their dimension, with the right direction.

use super::*;
use truetape_schemas::report::{Direction, Verdict};

mod asked;
mod evidence;
mod isolated;
mod known_good;
mod matrix;
mod public;
mod robust;
mod runs;
mod spec;

/// A dimension by id.
fn find<'a>(report: &'a Report, id: &str) -> &'a Dimension {
    let found = report
        .dimensions
        .iter()
        .find(|dimension| dimension.id == id);
    found.unwrap_or_else(|| panic!("no dimension {id}"))
}

/// Asserts that dimensions fail in a direction.
fn fails(report: &Report, expected: &[(&str, Direction)]) {
    for (id, direction) in expected {
        let dimension = find(report, id);
        assert_eq!(
            (dimension.verdict, dimension.direction),
            (Verdict::Fail, *direction),
            "{dimension:?}"
        );
    }
    assert_eq!(report.verdict, Verdict::Fail);
}

/// Ids of the dimensions with a verdict.
fn ids(report: &Report, verdict: Verdict) -> Vec<&str> {
    let with = report
        .dimensions
        .iter()
        .filter(|dimension| dimension.verdict == verdict);
    with.map(|dimension| dimension.id.as_str()).collect()
}
