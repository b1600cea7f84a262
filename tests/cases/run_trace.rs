//! Runs `trace.*` and named traces: import, compile, and what a replay would send when.

use crate::Stop;
use crate::case::Case;
use crate::check::Seen;
use crate::compiled::{self, import};
use crate::replays::{self, Options};
use crate::server::{self, Target};
use crate::{run_messages, run_table};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use truetape_schemas::capture::Exchange;
use truetape_schemas::set::Turn;
use truetape_testkit::capture;
use truetape_testkit::process::Ended;
use truetape_testkit::tempdir::TempDir;

/// Formats that are chosen by the start of a file's name; any other file says itself what it is.
const NAMED: &[&str] = &["mooncake", "bailian"];

/// Runs the case.
pub(crate) fn run(case: &Case) -> Result<Vec<Seen>, Stop> {
    if case.has("server.json") {
        return crate::run_replay::run_lengths(case);
    }
    let mut all = Vec::new();
    for (stem, file) in case.traces() {
        if file.ends_with(".csv") {
            all.push(run_table::run(case, &file)?);
            continue;
        }
        if file.ends_with(".gor") {
            all.push(run_messages::run(case, &stem, &file)?);
            continue;
        }
        let traces = case.traces().len();
        let variant = if traces == 1 {
            String::new()
        } else {
            stem.clone()
        };
        let dir = TempDir::new(&case.id);
        let (ended, rows) = imported(&case.dir.join(&file), &stem, &dir.join("capture"))?;
        let mut seen = Seen::new(&variant, "import");
        put_rows(&mut seen, case, &rows, &ended, &case.lines(&file)?);
        put_sessions(&mut seen, case, &dir, &case.lines(&file)?)?;
        all.push(seen);
        if case.is_about("replay") {
            all.extend(bursts(case, &dir)?);
        }
    }
    Ok(all)
}

/// Imports a trace: by its name, by its keys, or as the format that its keys are most like.
pub(crate) fn imported(
    file: &Path,
    stem: &str,
    out: &Path,
) -> Result<(Ended, Vec<Exchange>), String> {
    let formats = match NAMED.iter().find(|name| stem.starts_with(**name)) {
        Some(name) => vec![*name],
        None => vec!["auto", "mooncake"],
    };
    let mut said = Vec::new();
    for format in formats {
        let ended = import(format, &[file.to_owned()], out, &[]);
        if ended.code == Some(0) {
            return Ok((ended, capture::rows(out)));
        }
        let (code, stderr) = (ended.code, &ended.stderr);
        said.push(format!("import {format} ended with {code:?}: {stderr}"));
    }
    Err(said.join("; "))
}

fn put_rows(seen: &mut Seen, case: &Case, rows: &[Exchange], ended: &Ended, lines: &[Value]) {
    let bad = bad_lines(&ended.stderr);
    let kept: Vec<usize> = (1..=lines.len())
        .filter(|line| !bad.contains(line))
        .collect();
    let mut by_line: BTreeMap<usize, &Exchange> = BTreeMap::new();
    for row in rows {
        let line = usize::try_from(row.conn_seq)
            .ok()
            .and_then(|at| kept.get(at));
        if let Some(line) = line {
            by_line.insert(*line, row);
        }
    }
    if by_line.len() != rows.len() || rows.len() + bad.len() != lines.len() {
        let (rows, bad, lines) = (rows.len(), bad.len(), lines.len());
        seen.faults
            .push(format!("{rows} rows and {bad} bad lines of {lines} lines"));
    }
    let first = rows.first().map_or(0, |row| row.arrival);
    let offset_us = |row: &Exchange| (row.arrival - first) as f64;
    let offsets = |unit_us: f64| {
        rows.iter()
            .map(|row| offset_us(row) / unit_us)
            .collect::<Vec<_>>()
    };
    seen.put("rows", rows.len());
    seen.put("requests", rows.len());
    seen.put("offsets_s", offsets(1e6));
    seen.put("offsets_ms", offsets(1e3));
    seen.put("offsets_100ns", offsets(0.1));
    seen.put("duration_ms", rows.last().map_or(0.0, offset_us) / 1e3);
    seen.put(
        "block_size",
        json!(rows.first().and_then(|row| row.block_tokens)),
    );
    seen.put("bad_lines", json!(bad));
    // A line that was left out was not reshaped; its length is what it says.
    let length = |line: usize| match by_line.get(&line) {
        Some(row) => json!(row.input_tokens),
        None => lines
            .get(line - 1)
            .map_or(Value::Null, |line| line["input_length"].clone()),
    };
    seen.put(
        "input_lengths",
        (1..=lines.len()).map(length).collect::<Vec<_>>(),
    );
    seen.put(
        "output_lengths",
        json!(rows.iter().map(|row| row.output_tokens).collect::<Vec<_>>()),
    );
    put_sharing(seen, case, &by_line);
    if ended.stderr.contains("clock of this trace steps") {
        seen.put("coarse_clock_noted", true);
    }
}

/// Lines that the importer named, from its own words.
fn bad_lines(said: &str) -> Vec<usize> {
    let named = said.lines().filter(|line| line.starts_with("left out: "));
    let number = |line: &str| {
        let digits = line.split("line ").nth(1)?.split(':').next()?;
        digits.trim().parse().ok()
    };
    named.filter_map(number).collect()
}

/// Which rows share prompt blocks; a key may name the rows it is about.
fn put_sharing(seen: &mut Seen, case: &Case, by_line: &BTreeMap<usize, &Exchange>) {
    let named = case.expect.keys().find_map(|key| {
        let (_, range) = key.split_once("_rows_")?;
        let (from, to) = range.split_once('_')?;
        Some((
            key.clone(),
            from.parse::<usize>().ok()?,
            to.parse::<usize>().ok()?,
        ))
    });
    let (from, to) = named
        .as_ref()
        .map_or((1, usize::MAX), |(_, from, to)| (*from, *to));
    let rows: Vec<(usize, &[u64])> = by_line
        .range(from..=to)
        .map(|(line, row)| (*line, row.block_hashes.as_deref().unwrap_or_default()))
        .collect();
    let mut pairs = Vec::new();
    for (at, (line, blocks)) in rows.iter().enumerate() {
        for (other, others) in rows.iter().skip(at + 1) {
            if blocks.iter().any(|block| others.contains(block)) {
                pairs.push(json!([line, other]));
            }
        }
    }
    let distinct: std::collections::BTreeSet<u64> = rows
        .iter()
        .flat_map(|(_, blocks)| blocks.iter().copied())
        .collect();
    seen.put("sharing_pairs", pairs);
    if let Some((key, _, _)) = named {
        seen.put(&key, distinct.len());
    }
    // A set must hold them as they were: 64 bits wide.
    seen.put("ids", json!(distinct));
}

fn put_sessions(
    seen: &mut Seen,
    case: &Case,
    dir: &TempDir,
    lines: &[Value],
) -> Result<(), String> {
    let recipe = compiled::RECIPE_LENGTHS;
    let set = compiled::compile(&[dir.join("capture")], &dir.join("store"), recipe)
        .map_err(|ended| format!("compile ended with {:?}: {}", ended.code, ended.stderr))?;
    let id = |turn: &Turn| {
        let line = lines.iter().find(|line| {
            line.get("chat_id")
                .is_some_and(|id| turn_is_chat(turn, id, &dir.join("capture")))
        });
        line.map_or(json!(turn.turn_id + 1), |line| line["chat_id"].clone())
    };
    let mut sessions: Vec<(&str, Vec<Value>)> = Vec::new();
    for turn in &set.turns {
        match sessions
            .iter_mut()
            .find(|(session, _)| *session == turn.session)
        {
            Some((_, members)) => members.push(id(turn)),
            None => sessions.push((&turn.session, vec![id(turn)])),
        }
    }
    seen.put(
        "sessions",
        sessions
            .into_iter()
            .map(|(_, ids)| json!(ids))
            .collect::<Vec<_>>(),
    );
    if let Some(ids) = seen.values.get("ids").and_then(Value::as_array) {
        let held: Vec<u64> = set
            .turns
            .iter()
            .flat_map(|t| t.block_hashes.iter().flatten())
            .copied()
            .collect();
        let lost = ids
            .iter()
            .filter_map(Value::as_u64)
            .any(|id| !held.contains(&id));
        if lost && set.turns.len() == lines.len() {
            seen.faults
                .push("the set lost a block id of the trace".to_owned());
        }
    }
    let _ = case;
    Ok(())
}

fn turn_is_chat(turn: &Turn, chat: &Value, captured: &Path) -> bool {
    let rows = capture::rows(captured);
    let row = rows.iter().find(|row| row.exchange_id == turn.exchange_id);
    row.and_then(|row| row.response_id.clone()) == Some(format!("chat-{chat}"))
}

/// Really replays the trace at each speed that the case names, and groups what was sent.
fn bursts(case: &Case, dir: &TempDir) -> Result<Vec<Seen>, String> {
    let speeds = case
        .expect
        .keys()
        .filter_map(|key| key.strip_prefix("speed"));
    let speeds: Vec<(String, f64)> = speeds
        .filter_map(|speed| Some((format!("speed{speed}"), speed.parse().ok()?)))
        .collect();
    let recipe = compiled::RECIPE_SYNTHETIC;
    let set = compiled::compile(&[dir.join("capture")], &dir.join("synthetic"), recipe)
        .map_err(|ended| format!("compile ended with {:?}: {}", ended.code, ended.stderr))?;
    let out = |name: &str| -> PathBuf { dir.join(&format!("run-{name}")) };
    std::thread::scope(|scope| {
        let runs: Vec<_> = speeds
            .iter()
            .map(|(name, speed)| {
                let (set, out) = (&set, out(name));
                scope.spawn(move || {
                    let upstream = server::start(Target::default());
                    let scale = speed.to_string();
                    let more = ["--rate-scale", scale.as_str()];
                    let ran = replays::replay(&set.dir, &upstream, &out, &Options { more: &more });
                    ran.map(|ran| groups(name, &ran))
                })
            })
            .collect();
        runs.into_iter()
            .map(|run| run.join().map_err(|_| "a run panicked".to_owned())?)
            .collect()
    })
}

/// Dispatches that are due together, in file order.
fn groups(name: &str, ran: &replays::Ran) -> Seen {
    let mut seen = Seen::new(name, "replay");
    seen.waited_ms = ran.waited_ms;
    seen.faults.extend(ran.faults.iter().cloned());
    let mut sent: Vec<(i64, i64, i64)> = ran
        .dispatches
        .iter()
        .filter_map(|dispatch| Some((dispatch.due_us, dispatch.sent_us?, dispatch.turn_id)))
        .collect();
    sent.sort_unstable();
    let zero = sent.first().map_or(0, |(_, sent_us, _)| *sent_us);
    let groups: Vec<&[(i64, i64, i64)]> = sent.chunk_by(|a, b| a.0 == b.0).collect();
    let at = |pick: fn(&[i64]) -> i64| -> Vec<f64> {
        let sents =
            |group: &&[(i64, i64, i64)]| group.iter().map(|(_, s, _)| *s).collect::<Vec<_>>();
        groups
            .iter()
            .map(|group| (pick(&sents(group)) - zero) as f64 / 1e3)
            .collect()
    };
    let first = at(|sents| sents.iter().min().copied().unwrap_or(0));
    let last = at(|sents| sents.iter().max().copied().unwrap_or(0));
    let spread = first
        .iter()
        .zip(&last)
        .map(|(a, b)| b - a)
        .fold(0.0, f64::max);
    seen.put(
        "group_sizes",
        json!(groups.iter().map(|group| group.len()).collect::<Vec<_>>()),
    );
    seen.put("spread_within_burst_ms", spread);
    seen.put("group_offsets_ms", first);
    seen.put("duration_ms", json!(last.last()));
    let in_order = groups
        .iter()
        .all(|group| group.windows(2).all(pair_in_order));
    if !in_order {
        seen.faults
            .push("a burst was not sent in file order".to_owned());
    }
    seen
}

fn pair_in_order(pair: &[(i64, i64, i64)]) -> bool {
    matches!(pair, [(_, sent_a, a), (_, sent_b, b)] if a < b || sent_a < sent_b)
}
