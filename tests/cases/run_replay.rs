//! Runs what is about the replayer: schedules, sessions, lengths, results, and a recorder that is
//! killed.

use crate::Stop;
use crate::case::Case;
use crate::check::Seen;
use crate::compiled::{self, RECIPE_LENGTHS, RECIPE_SYNTHETIC, Set};
use crate::replays::{Options, Ran, replay};
use crate::run_trace::imported;
use crate::server::{self, Target, generations, prompt_tokens};
use crate::stream::millis;
use serde_json::{Value, json};
use std::time::Duration;
use truetape_fidelity::quantile::quantile;
use truetape_replay::body::Library;
use truetape_replay::cli::{Output, Pacing};
use truetape_replay::plan::{Settings, TargetFacts, plan};
use truetape_replay::schedule::{Node, Schedule};
use truetape_schemas::capture::footer::Footer;
use truetape_schemas::capture::{Exchange, LengthSource};
use truetape_schemas::run::Dispatch;
use truetape_testkit::capture;
use truetape_testkit::tempdir::TempDir;
use truetape_testkit::upstream::{Record, Upstream};

fn number(value: &Value, key: &str) -> Option<i64> {
    value.get(key).and_then(Value::as_i64)
}

fn compile(dir: &TempDir, name: &str, recipe: &str) -> Result<Set, String> {
    compiled::compile(&[dir.join("capture")], &dir.join(name), recipe)
        .map_err(|ended| format!("compile ended with {:?}: {}", ended.code, ended.stderr))
}

/// `schedule.jsonl` against a server of fixed service time, with the client's cap and without.
pub(crate) fn run_schedule(case: &Case) -> Result<Vec<Seen>, Stop> {
    let server = case.json("server.json")?;
    let target = Target {
        service: millis(
            server
                .get("service_ms")
                .and_then(Value::as_f64)
                .unwrap_or(0.0),
        ),
        ..Target::default()
    };
    let dir = TempDir::new(&case.id);
    let rows = case.lines("schedule.jsonl")?;
    let line = |(at, row): (usize, &Value)| {
        let (timestamp, input) = (&row["offset_ms"], &row["input_length"]);
        let output = &row["output_length"];
        json!({"timestamp": timestamp, "input_length": input, "output_length": output, "hash_ids": [at]})
    };
    let trace: String = rows
        .iter()
        .enumerate()
        .map(|row| format!("{}\n", line(row)))
        .collect();
    compiled::write(&dir.join("mooncake.jsonl"), &trace);
    imported(
        &dir.join("mooncake.jsonl"),
        "mooncake",
        &dir.join("capture"),
    )?;
    let set = compile(&dir, "store", RECIPE_SYNTHETIC)?;
    let cap = server
        .get("max_concurrency_of_client")
        .and_then(Value::as_u64);
    let upstream = server::start(target.clone());
    let cap_text = cap.map(|cap| cap.to_string()).unwrap_or_default();
    let capped: Vec<&str> = match cap {
        Some(_) => vec!["--max-in-flight", &cap_text],
        None => Vec::new(),
    };
    let ran = replay(
        &set.dir,
        &upstream,
        &dir.join("run"),
        &Options { more: &capped },
    )?;
    let mut seen = latencies(&ran, &late_ms(&upstream, target.service), cap);
    if cap.is_some() {
        let upstream = server::start(target);
        let free = replay(&set.dir, &upstream, &dir.join("free"), &Options::default())?;
        if free.run.validity != "valid" {
            let reasons = &free.run.validity_reasons;
            seen.faults.push(format!(
                "without the cap the run is flagged too: {reasons:?}"
            ));
        }
    }
    Ok(vec![seen])
}

/// How much longer than its service time the target took, by order of arrival.
fn late_ms(upstream: &Upstream, service: Duration) -> Vec<f64> {
    let late = |(record, _): (Record, Value)| {
        let took = record.done_at.first().map(|at| *at - record.read_at)?;
        Some(took.saturating_sub(service).as_secs_f64() * 1e3)
    };
    generations(upstream).into_iter().filter_map(late).collect()
}

/// Both clocks of a run: from the send, and from the time it was due. What the target took too long
/// is taken off, once for each request that waited for it.
fn latencies(ran: &Ran, late_ms: &[f64], cap: Option<u64>) -> Seen {
    let mut seen = Seen::new("", "replay");
    seen.faults.extend(ran.faults.iter().cloned());
    let mut sent: Vec<&Dispatch> = ran
        .dispatches
        .iter()
        .filter(|d| d.sent_us.is_some())
        .collect();
    sent.sort_by_key(|dispatch| (dispatch.due_us, dispatch.turn_id));
    let ms = |us: i64| us as f64 / 1e3;
    let delay = |d: &&Dispatch| d.sent_us.unwrap_or(0) - d.due_us;
    let last = |d: &&Dispatch| d.last_token_us.or(d.end_us).unwrap_or(0);
    let late = |at: usize| late_ms.get(at).copied().unwrap_or(0.0);
    let waited = |at: usize| match cap {
        Some(1) => (0..at).map(late).sum(),
        _ => 0.0,
    };
    let send: Vec<f64> = sent
        .iter()
        .enumerate()
        .map(|(at, d)| ms(last(d)) - late(at))
        .collect();
    let delays: Vec<f64> = sent
        .iter()
        .enumerate()
        .map(|(at, d)| ms(delay(d)) - waited(at))
        .collect();
    let scheduled: Vec<f64> = send
        .iter()
        .zip(&delays)
        .map(|(send, delay)| send + delay)
        .collect();
    put_quantiles(&mut seen, "scheduled_latency", &scheduled);
    put_quantiles(&mut seen, "send_latency", &send);
    seen.put("dispatch_delay_ms", delays);
    seen.put("scheduled_latency_ms", scheduled);
    seen.put("send_latency_ms", send);
    seen.put("schedule_kept", ran.run.validity == "valid");
    seen
}

fn put_quantiles(seen: &mut Seen, name: &str, values: &[f64]) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    for (word, q) in [
        ("p50", 0.5),
        ("p90", 0.9),
        ("p95", 0.95),
        ("p99", 0.99),
        ("max", 1.0),
    ] {
        seen.put(&format!("{name}_{word}_ms"), json!(quantile(&sorted, q)));
    }
}

/// `session.jsonl`: turns with ends give think times; turns with lengths give prompts.
pub(crate) fn run_session(case: &Case) -> Result<Vec<Seen>, Stop> {
    let rows = case.lines("session.jsonl")?;
    let dir = TempDir::new(&case.id);
    let timed = rows.iter().any(|row| row.get("end_ms").is_some());
    if timed {
        let exchanges: Vec<Exchange> = rows
            .iter()
            .zip(0..)
            .map(|(row, at)| timed_row(row, at))
            .collect();
        capture::write(&dir.join("capture"), &exchanges, &Footer::default());
    } else {
        let trace: String = rows.iter().map(|row| format!("{row}\n")).collect();
        compiled::write(&dir.join("mooncake.jsonl"), &trace);
        imported(
            &dir.join("mooncake.jsonl"),
            "mooncake",
            &dir.join("capture"),
        )?;
    }
    let mut seen = Seen::new("", "set");
    put_lengths(&mut seen, &compile(&dir, "lengths", RECIPE_LENGTHS)?);
    let set = compile(&dir, "synthetic", RECIPE_SYNTHETIC)?;
    put_wire(&mut seen, &set)?;
    if timed {
        let service = if case.has("server.json") {
            case.json("server.json")?
        } else {
            Value::Null
        };
        put_sends(&mut seen, &set, number(&service, "service_ms").unwrap_or(0))?;
    }
    Ok(vec![seen])
}

fn timed_row(row: &Value, at: i32) -> Exchange {
    let start_ms = number(row, "start_ms").unwrap_or(0);
    let session = row
        .get("session")
        .or_else(|| row.get("session_id"))
        .and_then(Value::as_str);
    Exchange {
        exchange_id: format!("00000000-0000-7000-8000-{at:012}"),
        proxy_id: "import:case".to_owned(),
        conn_id: -1,
        conn_seq: at,
        arrival: start_ms * 1000,
        arrival_mono_us: start_ms * 1000,
        request_end_us: Some(0),
        end_us: number(row, "end_ms").map(|end_ms| (end_ms - start_ms) * 1000),
        method: "POST".to_owned(),
        dialect: "trace".to_owned(),
        input_tokens: number(row, "input_length"),
        input_tokens_source: LengthSource::Usage,
        output_tokens: number(row, "output_length"),
        output_tokens_source: LengthSource::Usage,
        session_key: session.map(str::to_owned),
        session_rule: Some("trace:session_id".to_owned()),
        ..Exchange::default()
    }
}

fn put_lengths(seen: &mut Seen, set: &Set) {
    let gaps = set.turns.iter().filter_map(|turn| turn.gap_us);
    seen.put(
        "think_ms",
        gaps.map(|us| us as f64 / 1e3).collect::<Vec<_>>(),
    );
    let mut new = Vec::new();
    let mut history = 0;
    for turn in &set.turns {
        let input = turn.input_tokens.unwrap_or(0);
        new.push(input - history);
        history = input + turn.output_tokens.unwrap_or(0);
    }
    seen.put("new_tokens", new);
    seen.put(
        "input_lengths",
        json!(set.turns.iter().map(|t| t.input_tokens).collect::<Vec<_>>()),
    );
    let sessions: std::collections::BTreeSet<&str> =
        set.turns.iter().map(|turn| turn.session.as_str()).collect();
    seen.put("session_count", sessions.len());
}

/// The settings of a plan that asks for the recorded lengths.
pub(crate) fn settings(pacing: Pacing, rate_scale: f64, think_scale: f64) -> Settings {
    Settings {
        duration_us: None,
        rate_scale,
        pacing,
        think_scale,
        output: Output::Enforce,
        cache_salt: None,
        model: None,
        token_budget: None,
        needs_content: true,
    }
}

/// The bodies that a plan would send, in order.
pub(crate) fn bodies(set: &Set, settings: &Settings) -> Result<Vec<Value>, String> {
    let library = Library::new(set.contents.clone());
    let target = TargetFacts {
        enforces_lengths: true,
        ..TargetFacts::default()
    };
    let plan = plan(&set.turns, library, settings, &target).map_err(|e| e.to_string())?;
    let body = |bytes: Vec<u8>| serde_json::from_slice(&bytes).map_err(|e| e.to_string());
    plan.dispatches
        .iter()
        .map(|planned| body(planned.body.bytes(&plan.library).to_vec()))
        .collect()
}

fn put_wire(seen: &mut Seen, set: &Set) -> Result<(), String> {
    let bodies = bodies(set, &settings(Pacing::Hybrid, 1.0, 1.0))?;
    seen.put(
        "wire_prompt_tokens",
        bodies.iter().map(prompt_tokens).collect::<Vec<_>>(),
    );
    Ok(())
}

/// When each turn would be sent, in virtual time, against a server of fixed service time.
fn put_sends(seen: &mut Seen, set: &Set, service_ms: i64) -> Result<(), String> {
    let runs = [
        ("closed_loop_speed1_ms", Pacing::Closed, 1.0),
        ("closed_loop_speed2_ms", Pacing::Closed, 2.0),
        ("open_loop_speed1_ms", Pacing::Open, 1.0),
        ("hybrid_speed1_ms", Pacing::Hybrid, 1.0),
    ];
    for (key, pacing, speed) in runs {
        let settings = settings(pacing, speed, 1.0 / speed);
        let target = TargetFacts {
            enforces_lengths: true,
            ..TargetFacts::default()
        };
        let plan = plan(
            &set.turns,
            Library::new(set.contents.clone()),
            &settings,
            &target,
        )
        .map_err(|e| e.to_string())?;
        let nodes: Vec<Node> = plan
            .dispatches
            .iter()
            .map(|planned| planned.node.clone())
            .collect();
        seen.put(key, virtual_sends_ms(nodes, pacing, service_ms * 1000));
    }
    Ok(())
}

/// Walks a schedule from deadline to deadline and from end to end.
fn virtual_sends_ms(nodes: Vec<Node>, pacing: Pacing, service_us: i64) -> Vec<f64> {
    let mut sends = vec![f64::NAN; nodes.len()];
    let mut schedule = Schedule::new(nodes, pacing, usize::MAX);
    let mut ends: Vec<(i64, u32)> = Vec::new();
    let mut releases = Vec::new();
    let mut now_us = 0;
    loop {
        ends.sort_unstable();
        while ends.first().is_some_and(|(end_us, _)| *end_us <= now_us) {
            let (end_us, index) = ends.remove(0);
            schedule.ended(index, end_us);
        }
        schedule.take_due(now_us, &mut releases);
        for release in releases.drain(..) {
            if let Some(send) = sends.get_mut(release.index as usize) {
                *send = now_us as f64 / 1e3;
            }
            ends.push((now_us + service_us, release.index));
        }
        let next_end = ends.iter().map(|(end_us, _)| *end_us).min();
        let next = [schedule.next_deadline_us(), next_end]
            .into_iter()
            .flatten()
            .min();
        match next {
            Some(next) if next > now_us => now_us = next,
            Some(_) => {}
            None => return sends,
        }
    }
}

/// A trace against servers that differ in what they take: `server.json` names them.
pub(crate) fn run_lengths(case: &Case) -> Result<Vec<Seen>, Stop> {
    let server = case.json("server.json")?;
    let (stem, file) = case
        .traces()
        .into_iter()
        .next()
        .ok_or_else(|| "no trace".to_owned())?;
    let dir = TempDir::new(&case.id);
    imported(&case.dir.join(&file), &stem, &dir.join("capture"))?;
    let set = compile(&dir, "store", RECIPE_SYNTHETIC)?;
    let mut all = Vec::new();
    for (name, what) in server.as_object().into_iter().flatten() {
        let Some(what) = what.as_str() else { continue };
        let refuses = what.strip_prefix("400 on ").map(str::to_owned);
        let upstream = server::start(Target {
            context_tokens: server.get("max_model_len").and_then(Value::as_u64),
            refuses: refuses.into_iter().collect(),
            ..Target::default()
        });
        let ran = replay(&set.dir, &upstream, &dir.join(name), &Options::default())?;
        all.push(lengths_seen(name, &ran, &upstream));
    }
    Ok(all)
}

fn lengths_seen(name: &str, ran: &Ran, upstream: &Upstream) -> Seen {
    let mut seen = Seen::new(name, "replay");
    seen.faults.extend(ran.faults.iter().cloned());
    let bodies: Vec<Value> = generations(upstream)
        .into_iter()
        .map(|(_, body)| body)
        .collect();
    let asked = |key: &str| {
        bodies
            .iter()
            .filter_map(|body| number(body, key))
            .collect::<Vec<_>>()
    };
    seen.put("wire_max_tokens", asked("max_tokens"));
    let crossed = bodies
        .iter()
        .filter(|body| number(body, "min_tokens") > number(body, "max_tokens"));
    for body in crossed.filter(|body| number(body, "max_tokens").is_some()) {
        seen.faults
            .push(format!("min_tokens above max_tokens: {body}"));
    }
    let row = |dispatch: &Dispatch| dispatch.turn_id + 1;
    let over = |d: &&Dispatch| {
        d.not_sent_reason
            .as_deref()
            .is_some_and(|r| r.contains("context"))
    };
    seen.put(
        "overflow_rows",
        ran.dispatches
            .iter()
            .filter(over)
            .map(row)
            .collect::<Vec<_>>(),
    );
    for dispatch in &ran.dispatches {
        seen.put(
            &format!("row{}_sent", row(dispatch)),
            dispatch.sent_us.is_some(),
        );
    }
    let sent: Vec<&Dispatch> = ran
        .dispatches
        .iter()
        .filter(|d| d.sent_us.is_some())
        .collect();
    let enforced = sent
        .iter()
        .all(|dispatch| dispatch.enforcement == "enforce");
    seen.put("length_enforced", enforced && !sent.is_empty());
    seen.put(
        "mid_run_400",
        sent.iter().filter(|d| d.status == Some(400)).count(),
    );
    if !enforced
        && !ran
            .run
            .findings
            .iter()
            .any(|finding| finding.contains("enforced"))
    {
        let findings = &ran.run.findings;
        seen.faults.push(format!(
            "nothing says that lengths are not enforced: {findings:?}"
        ));
    }
    seen
}

/// `results.jsonl`: statuses and latencies, as the report counts them.
pub(crate) fn run_results(case: &Case) -> Result<Vec<Seen>, Stop> {
    crate::results::run(case)
}

/// `plan.json`: traffic, a kill, and a restart.
pub(crate) fn run_plan(case: &Case) -> Result<Vec<Seen>, Stop> {
    crate::killed::run(case)
}
