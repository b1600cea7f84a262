//! Shards of one run become one run with one report.

use crate::error::Error;
use crate::load::Loaded;
use crate::{arrivals, row, verdict};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use truetape_fidelity::grade;
use truetape_schemas::report::Report;
use truetape_schemas::run::{self, Dispatch, Run};
use truetape_schemas::time::format_utc;

/// A run that is a part of another.
#[derive(Clone, Debug)]
pub struct Part {
    /// Where it lies.
    pub dir: PathBuf,
    /// What it was.
    pub run: Run,
    /// Its dispatches.
    pub rows: Vec<Dispatch>,
}

impl Part {
    /// Reads a part.
    pub fn open(dir: &Path) -> Result<Self, Error> {
        Ok(Self {
            dir: dir.to_owned(),
            run: run::open(dir)?,
            rows: run::dispatches(dir)?,
        })
    }

    fn refuse(&self, problem: String) -> Error {
        Error::Set {
            subject: self.dir.display().to_string(),
            problem,
        }
    }
}

/// Which shard a run is, as `I/N`; none when it is whole.
pub fn shard(run: &Run) -> Option<&str> {
    run.flags.get("shard")?.as_str()
}

/// Merges all shards of a run. What they do not agree on is refused: a report of two runs at once is
/// of neither.
pub fn merge(mut parts: Vec<Part>, set: &Loaded) -> Result<(Run, Report), Error> {
    let own = |part: &Part| shard(&part.run).and_then(|word| super::Shard::parse(word).ok());
    parts.sort_by_key(|part| own(part).map(|shard| shard.index));
    agree(&parts, set)?;
    let mut rows: Vec<Dispatch> = Vec::new();
    for part in &mut parts {
        rows.append(&mut part.rows);
    }
    rows.sort_by_key(|row| row.turn_id);
    let Some(first) = parts.first() else {
        return Err(Error::config("RUN", "none given"));
    };
    let steps: Vec<arrivals::Step> = first
        .run
        .steps
        .iter()
        .map(|step| arrivals::Step {
            rate_scale: step.rate_scale,
            from_us: step.from_us,
            to_us: step.to_us,
        })
        .collect();
    let zero_us = parts.iter().map(|part| part.run.zero_us).min().unwrap_or(0);
    let run = Run {
        flags: flags(&parts),
        zero: format_utc(zero_us),
        zero_us,
        duration_us: parts
            .iter()
            .map(|part| part.run.duration_us)
            .max()
            .unwrap_or(0),
        validity: validity(&parts),
        validity_reasons: said(&parts, |run| &run.validity_reasons),
        account: row::account(&rows),
        summary: verdict::summary(&rows),
        steps: verdict::steps(&steps, &rows),
        findings: findings(&parts),
        ..first.run.clone()
    };
    let level1 = set.level1.as_ref();
    let report = grade::run_against_set(&set.manifest, &set.turns, &run, &rows, level1);
    Ok((run, report))
}

fn agree(parts: &[Part], set: &Loaded) -> Result<(), Error> {
    let Some(first) = parts.first() else {
        return Ok(());
    };
    let mut count = 0;
    for (part, place) in parts.iter().zip(1..) {
        let word = shard(&part.run).unwrap_or_default();
        let shard = super::Shard::parse(word)
            .map_err(|_| part.refuse("it is no shard; report it by itself".to_owned()))?;
        let expected = (&first.run.run_id, &first.run.plan_digest);
        if (&part.run.run_id, &part.run.plan_digest) != expected {
            return Err(part.refuse(format!(
                "shard {word} is of another run or plan than {}: run {} and {}, plans {} and {}; merge the \
                 shards of one run, made with the same flags",
                first.dir.display(),
                part.run.run_id,
                first.run.run_id,
                part.run.plan_digest,
                first.run.plan_digest,
            )));
        }
        if part.run.set_digest != set.manifest.digest {
            return Err(part.refuse(format!(
                "it is of set {}, and --set is {}",
                part.run.set_digest, set.manifest.digest
            )));
        }
        if shard.index != place {
            let problem = if shard.index < place {
                "given twice"
            } else {
                "missing"
            };
            let which = shard.index.min(place);
            return Err(part.refuse(format!("shard {which} of {} is {problem}", shard.count)));
        }
        count = shard.count;
    }
    match u32::try_from(parts.len()) {
        Ok(found) if found == count => Ok(()),
        _ => Err(first.refuse(format!(
            "{} shards of {count} are given; name all of them",
            parts.len()
        ))),
    }
}

/// The worst: one bad ruler spoils the measure.
fn validity(parts: &[Part]) -> String {
    let any = |word: &str| parts.iter().any(|part| part.run.validity == word);
    let worst = [verdict::INVALID, verdict::STOPPED]
        .into_iter()
        .find(|word| any(word));
    worst.unwrap_or(verdict::VALID).to_owned()
}

/// The flags that they share, and each one's own lateness.
fn flags(parts: &[Part]) -> BTreeMap<String, Value> {
    let mut flags = parts
        .first()
        .map(|part| part.run.flags.clone())
        .unwrap_or_default();
    flags.remove("shard");
    let told = |part: &Part| {
        json!({
            "shard": shard(&part.run),
            "validity": part.run.validity,
            "zero_us": part.run.zero_us,
            "sent": part.run.account.sent,
            "lateness_ms": part.run.summary.get("lateness_ms"),
        })
    };
    flags.insert("shards".to_owned(), parts.iter().map(told).collect());
    flags
}

/// Sentences: once where all shards say the same, else with the shard that says them.
fn said(parts: &[Part], of: impl Fn(&Run) -> &Vec<String>) -> Vec<String> {
    let mut said = Vec::new();
    for part in parts {
        for sentence in of(&part.run) {
            let is_common = parts.iter().all(|other| of(&other.run).contains(sentence));
            let sentence = match shard(&part.run) {
                Some(word) if !is_common => format!("shard {word}: {sentence}"),
                _ => sentence.clone(),
            };
            if !said.contains(&sentence) {
                said.push(sentence);
            }
        }
    }
    said
}

fn findings(parts: &[Part]) -> Vec<String> {
    let zeros = || parts.iter().map(|part| part.run.zero_us);
    let apart_us = zeros().max().unwrap_or(0) - zeros().min().unwrap_or(0);
    let mut findings = vec![format!(
        "merged from {} shards, whose schedules began {:.3} ms apart by their own clocks",
        parts.len(),
        apart_us as f64 / 1e3
    )];
    let own =
        |sentence: &String| sentence.starts_with("shard ") && sentence.contains(super::MERGES);
    let all = said(parts, |run| &run.findings);
    findings.extend(all.into_iter().filter(|sentence| !own(sentence)));
    findings
}

/// One line a shard, for people.
pub fn lines(run: &Run) -> Vec<String> {
    let shards = run.flags.get("shards").and_then(Value::as_array);
    let line = |shard: &Value| {
        let text = |key: &str| {
            shard
                .get(key)
                .and_then(Value::as_str)
                .unwrap_or("unknown")
                .to_owned()
        };
        let late = |key: &str| {
            let ms = shard
                .get("lateness_ms")
                .and_then(|late| late.get(key))
                .and_then(Value::as_f64);
            ms.map_or_else(|| "unknown".to_owned(), |ms| format!("{ms:.3}"))
        };
        format!(
            "  shard {:<16} {}; {} sent; lateness p50 {}, p99 {}, max {}",
            text("shard"),
            text("validity"),
            shard.get("sent").and_then(Value::as_u64).unwrap_or(0),
            late("p50"),
            late("p99"),
            late("max"),
        )
    };
    shards.into_iter().flatten().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use truetape_schemas::capture::Outcome;
    use truetape_schemas::set::Turn;
    use truetape_schemas::set::manifest::Manifest;

    fn set() -> Loaded {
        let turn = |turn_id| Turn {
            turn_id,
            session: format!("s{turn_id}"),
            ..Turn::default()
        };
        Loaded {
            dir: "set".into(),
            manifest: Manifest {
                digest: "d".into(),
                ..Manifest::default()
            },
            turns: (0..6).map(turn).collect(),
            contents: vec![],
            level1: None,
            findings: vec![],
        }
    }

    fn part(index: u32, count: u32) -> Part {
        let shard = super::super::Shard { index, count };
        let own = set()
            .turns
            .into_iter()
            .filter(|turn| shard.has(&turn.session));
        let row = |turn: Turn| Dispatch {
            turn_id: turn.turn_id,
            session: turn.session,
            ready_us: Some(0),
            sent_us: Some(i64::from(index)),
            lateness_us: Some(i64::from(index)),
            outcome: Some(Outcome::Complete),
            ..Dispatch::default()
        };
        let rows: Vec<Dispatch> = own.map(row).collect();
        Part {
            dir: format!("run-{index}").into(),
            run: Run {
                run_id: "r".into(),
                set_digest: "d".into(),
                plan_digest: "p".into(),
                validity: "valid".into(),
                flags: [("shard".to_owned(), json!(shard.word()))].into(),
                account: row::account(&rows),
                summary: verdict::summary(&rows),
                zero_us: i64::from(index) * 500,
                findings: vec!["common".into(), format!("own {index}"), shard.finding(3)],
                ..Run::default()
            },
            rows,
        }
    }

    #[test]
    fn shards_become_one_run_whatever_their_order() {
        let (run, report) = merge(vec![part(2, 3), part(3, 3), part(1, 3)], &set()).unwrap();
        assert_eq!(
            (run.account.due, run.account.sent, run.account.answered),
            (6, 6, 6)
        );
        assert!(run.account.balances());
        assert_eq!(run.validity, "valid");
        assert_eq!(run.flags["shards"].as_array().map(Vec::len), Some(3));
        assert_eq!(run.flags["shards"][1]["lateness_ms"]["max"], 0.002);
        assert!(!run.flags.contains_key("shard"));
        let expected = [
            "merged from 3 shards, whose schedules began 1.000 ms apart by their own clocks",
            "common",
            "shard 1/3: own 1",
            "shard 2/3: own 2",
            "shard 3/3: own 3",
        ];
        assert_eq!(run.findings, expected);
        let completed = report
            .dimensions
            .iter()
            .find(|found| found.id == "run.completed");
        assert_eq!(completed.unwrap().value, Some(1.0));
        assert_eq!(lines(&run).len(), 3);
    }

    #[test]
    fn what_is_not_one_run_is_refused() {
        let other = |change: fn(&mut Run)| {
            let mut other = part(2, 2);
            change(&mut other.run);
            vec![part(1, 2), other]
        };
        let cases: [(Vec<Part>, &str); 7] = [
            (
                other(|run| run.run_id = "q".into()),
                "of another run or plan",
            ),
            (
                other(|run| run.plan_digest = "q".into()),
                "of another run or plan",
            ),
            (other(|run| run.set_digest = "q".into()), "it is of set q"),
            (
                other(|run| {
                    run.flags.remove("shard");
                }),
                "it is no shard",
            ),
            (vec![part(1, 2), part(1, 2)], "shard 1 of 2 is given twice"),
            (vec![part(1, 3), part(3, 3)], "shard 2 of 3 is missing"),
            (vec![part(1, 3), part(2, 3)], "2 shards of 3 are given"),
        ];
        for (parts, expected) in cases {
            let error = merge(parts, &set()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn one_bad_ruler_spoils_the_measure() {
        let mut late = part(2, 2);
        late.run.validity = "invalid".into();
        late.run.validity_reasons = vec!["it was late".into()];
        let (run, _) = merge(vec![part(1, 2), late], &set()).unwrap();
        assert_eq!(run.validity, "invalid");
        assert_eq!(run.validity_reasons, ["shard 2/2: it was late"]);
    }
}
