//! Whether a set is what its name says: digest, content, dependencies.

use super::Findings;
use crate::error::Error;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use truetape_schemas::ids::{DIGEST_SHORT_CHARS, content_id};
use truetape_schemas::set::manifest::{Manifest, Stage};
use truetape_schemas::set::{Turn, store};

pub(super) fn verify(dir: &Path) -> Result<Findings, Error> {
    let mut findings = Findings::of("set");
    let manifest = store::manifest(dir)?;
    let ids = content_ids(dir, &mut findings)?;
    let mut turns = Turns::new(&ids);
    let digest = digest(dir, &manifest, &ids, &mut turns)?;
    if digest != manifest.digest {
        let problem = format!("digest {}, its rows have {digest}", manifest.digest);
        findings.fault(store::MANIFEST, problem);
    }
    findings.rows = turns.sessions.len() as u64;
    findings.take(turns.findings);
    check_counts(&manifest, findings.rows, &ids, &mut findings);
    Ok(findings)
}

/// The digest of the rows, which are checked on the way: a set may hold more than memory does.
fn digest(
    dir: &Path,
    manifest: &Manifest,
    ids: &[String],
    turns: &mut Turns<'_>,
) -> Result<String, Error> {
    let mut broken = None;
    let batches = store::read_turns(dir)?.map_while(|batch| {
        let batch = batch.map_err(|cause| broken = Some(cause));
        batch.ok()
    });
    let rows = batches.flatten().inspect(|turn| turns.check(turn));
    let digest = store::digest_of(&manifest.recipe, &manifest.sources, rows, ids.iter());
    match broken {
        Some(cause) => Err(cause.into()),
        None => Ok(digest),
    }
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

/// Turns as they come, with what later ones are held against.
struct Turns<'a> {
    known: HashSet<&'a str>,
    numbers: HashMap<String, u32>,
    /// By turn so far: the number of its session.
    sessions: Vec<u32>,
    start_us: i64,
    findings: Findings,
}

impl<'a> Turns<'a> {
    fn new(ids: &'a [String]) -> Self {
        Self {
            known: ids.iter().map(String::as_str).collect(),
            numbers: HashMap::new(),
            sessions: Vec::new(),
            start_us: i64::MIN,
            findings: Findings::default(),
        }
    }

    fn session(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
        self.numbers.insert(name.to_owned(), number);
        number
    }

    fn check(&mut self, turn: &Turn) {
        let session = self.session(&turn.session);
        let row = i64::try_from(self.sessions.len()).unwrap_or(i64::MAX);
        let mut fault = |problem: String| self.findings.fault(format!("turn {row}"), problem);
        if turn.turn_id != row {
            fault(format!("turn_id {}, wanted its row {row}", turn.turn_id));
        }
        if turn.start_us < self.start_us {
            fault(format!(
                "starts at {} us, before the turn above it",
                turn.start_us
            ));
        }
        // Only earlier rows: so there are no cycles.
        let links = [turn.parent, turn.retry_of].into_iter().flatten();
        for other in links.chain(turn.depends_on.iter().copied()) {
            let earlier = usize::try_from(other).ok();
            match earlier.and_then(|other| self.sessions.get(other)) {
                None => fault(format!("depends on {other}, wanted an earlier turn")),
                Some(of_other) if *of_other != session => {
                    fault(format!("depends on turn {other} of another session"));
                }
                Some(_) => {}
            }
        }
        let parts = turn.template.iter().chain(&turn.content);
        for missing in parts.filter(|id| !self.known.contains(id.as_str())) {
            fault(format!("content {missing} is not there"));
        }
        if turn.gap_us.is_some_and(|gap| gap < 0) {
            fault("a negative gap".to_owned());
        }
        self.start_us = self.start_us.max(turn.start_us);
        self.sessions.push(session);
    }
}

fn check_counts(manifest: &Manifest, turns: u64, ids: &[String], findings: &mut Findings) {
    let counts = &manifest.counts;
    let found = [
        ("turns", counts.turns, turns),
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
