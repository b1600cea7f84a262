//! Whether a set is what its name says: digest, content, dependencies.

use super::Findings;
use crate::error::Error;
use std::collections::HashSet;
use std::path::Path;
use truetape_schemas::ids::{DIGEST_SHORT_CHARS, content_id};
use truetape_schemas::set::manifest::{Manifest, Stage};
use truetape_schemas::set::{Turn, store};

pub(super) fn verify(dir: &Path) -> Result<Findings, Error> {
    let mut findings = Findings::of("set");
    let manifest = store::manifest(dir)?;
    let turns = store::turns(dir)?;
    findings.rows = turns.len() as u64;
    let ids = content_ids(dir, &mut findings)?;
    let digest = store::digest_of(
        &manifest.recipe,
        &manifest.sources,
        turns.iter(),
        ids.iter(),
    );
    if digest != manifest.digest {
        let problem = format!("digest {}, its rows have {digest}", manifest.digest);
        findings.fault(store::MANIFEST, problem);
    }
    check_turns(&turns, &ids, &mut findings);
    check_counts(&manifest, &turns, &ids, &mut findings);
    Ok(findings)
}

/// Reads the content, part by part: each must be what its name says.
fn content_ids(dir: &Path, findings: &mut Findings) -> Result<Vec<String>, Error> {
    let mut ids = Vec::new();
    for batch in store::content(dir)? {
        for part in batch? {
            if content_id(&part.body) != part.content_id {
                let subject = format!("{}: part {}", store::CONTENT, part.content_id);
                findings.fault(subject, "is not what its name says");
            }
            ids.push(part.content_id);
        }
    }
    Ok(ids)
}

/// Whether the directory of a set is called what its digest says.
pub(super) fn check_dir(dir: &Path, findings: &mut Findings) -> Result<(), Error> {
    check_name(dir, &store::manifest(dir)?, findings);
    Ok(())
}

fn check_name(dir: &Path, manifest: &Manifest, findings: &mut Findings) {
    let short: String = manifest.digest.chars().take(DIGEST_SHORT_CHARS).collect();
    // `.` and links have no name of their own to compare.
    let Ok(real) = dir.canonicalize() else { return };
    let name = real
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    if name != short {
        findings.fault(
            &name,
            format!("the directory of a set with digest {short}…"),
        );
    }
}

fn check_turns(turns: &[Turn], ids: &[String], findings: &mut Findings) {
    let known: HashSet<&str> = ids.iter().map(String::as_str).collect();
    let mut before = i64::MIN;
    for (row, turn) in (0_i64..).zip(turns) {
        let mut fault = |problem: String| findings.fault(format!("turn {row}"), problem);
        if turn.turn_id != row {
            fault(format!("turn_id {}, wanted its row {row}", turn.turn_id));
        }
        if turn.start_us < before {
            fault(format!(
                "starts at {} us, before the turn above it",
                turn.start_us
            ));
        }
        before = before.max(turn.start_us);
        // Only earlier rows: so there are no cycles.
        let links = [turn.parent, turn.retry_of].into_iter().flatten();
        for other in links.chain(turn.depends_on.iter().copied()) {
            let earlier = usize::try_from(other).ok().filter(|_| other < row);
            match earlier.and_then(|other| turns.get(other)) {
                None => fault(format!("depends on {other}, wanted an earlier turn")),
                Some(other) if other.session != turn.session => {
                    fault(format!(
                        "depends on turn {} of another session",
                        other.turn_id
                    ));
                }
                Some(_) => {}
            }
        }
        let parts = turn.template.iter().chain(&turn.content);
        for missing in parts.filter(|id| !known.contains(id.as_str())) {
            fault(format!("content {missing} is not there"));
        }
        if turn.gap_us.is_some_and(|gap| gap < 0) {
            fault("a negative gap".to_owned());
        }
    }
}

fn check_counts(manifest: &Manifest, turns: &[Turn], ids: &[String], findings: &mut Findings) {
    let counts = &manifest.counts;
    let found = [
        ("turns", counts.turns, turns.len() as u64),
        ("content_parts", counts.content_parts, ids.len() as u64),
    ];
    for (what, stated, found) in found {
        if stated != found {
            findings.fault(
                store::MANIFEST,
                format!("{stated} {what}, there are {found}"),
            );
        }
    }
    let balances = |stage: &Stage| stage.read == stage.taken + stage.left.values().sum::<u64>();
    for stage in manifest.stages.iter().filter(|stage| !balances(stage)) {
        let subject = format!("{}: stage {}", store::MANIFEST, stage.name);
        findings.fault(subject, "does not balance: read = taken + left");
    }
}
