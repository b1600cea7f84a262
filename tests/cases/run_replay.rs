//! Runs what is about turns and lengths: `session.jsonl`, and traces against targets that differ.

use crate::Stop;
use crate::case::Case;
use crate::check::Seen;
use crate::compiled::{self, RECIPE_LENGTHS, RECIPE_SYNTHETIC, Set};
use crate::replays::{Options, Ran, replay};
use crate::run_trace::imported;
use crate::server::{self, Target, generations, prompt_tokens};
use serde_json::{Map, Value, json};
use truetape_replay::arrivals::Placing;
use truetape_replay::body::Library;
use truetape_replay::cli::{Output, Pacing};
use truetape_replay::plan::{Settings, TargetFacts, plan};
use truetape_replay::schedule::in_virtual_time::{self, Answer};
use truetape_replay::schedule::{Node, Schedule};
use truetape_schemas::capture::footer::Footer;
use truetape_schemas::capture::{Exchange, LengthSource};
use truetape_schemas::run::Dispatch;
use truetape_testkit::capture;
use truetape_testkit::tempdir::TempDir;
use truetape_testkit::upstream::Upstream;

fn number(value: &Value, key: &str) -> Option<i64> {
    value.get(key).and_then(Value::as_i64)
}

pub(crate) fn compile(dir: &TempDir, name: &str, recipe: &str) -> Result<Set, String> {
    compiled::compile(&[dir.join("capture")], &dir.join(name), recipe)
        .map_err(|ended| format!("compile ended with {:?}: {}", ended.code, ended.stderr))
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
        let service_ms = number(&service, "service_ms").unwrap_or(0);
        for (key, pacing, speed) in paces(&case.expect) {
            seen.put(&key, sends(&set, pacing, speed, service_ms)?);
        }
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
        placing: Placing::stressed(rate_scale),
        shard: None,
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

/// How a set is paced, as keys name it: `closed_loop_speed2_ms`, `open_loop_speed0_5_ms`.
const PACINGS: &[(&str, Pacing)] = &[
    ("closed_loop_speed", Pacing::Closed),
    ("open_loop_speed", Pacing::Open),
    ("hybrid_speed", Pacing::Hybrid),
];

/// The paces that keys ask for, at whatever speed.
fn paces(expect: &Map<String, Value>) -> Vec<(String, Pacing, f64)> {
    let mut all = Vec::new();
    for (key, want) in expect {
        all.extend(want.as_object().map(paces).into_iter().flatten());
        all.extend(PACINGS.iter().filter_map(|(name, pacing)| {
            let speed = key.strip_prefix(name)?.strip_suffix("_ms")?;
            let speed: f64 = speed.replace('_', ".").parse().ok()?;
            (speed > 0.0).then(|| (key.clone(), *pacing, speed))
        }));
    }
    all
}

/// When each turn would be sent, in virtual time, against a server of fixed service time.
fn sends(set: &Set, pacing: Pacing, speed: f64, service_ms: i64) -> Result<Vec<f64>, String> {
    let settings = settings(pacing, speed, 1.0 / speed);
    let target = TargetFacts {
        enforces_lengths: true,
        ..TargetFacts::default()
    };
    let library = Library::new(set.contents.clone());
    let plan = plan(&set.turns, library, &settings, &target).map_err(|e| e.to_string())?;
    let dispatches = plan.dispatches.iter();
    let nodes: Vec<Node> = dispatches.map(|planned| planned.node.clone()).collect();
    Ok(virtual_sends_ms(nodes, pacing, service_ms * 1000))
}

/// Walks a schedule from deadline to deadline and from end to end.
fn virtual_sends_ms(nodes: Vec<Node>, pacing: Pacing, service_us: i64) -> Vec<f64> {
    let mut sends = vec![f64::NAN; nodes.len()];
    let schedule = Schedule::new(nodes, pacing, usize::MAX);
    let walked = in_virtual_time::walk(schedule, |_| Answer::after(service_us));
    for sent in walked.sends {
        if let Some(send) = sends.get_mut(sent.index as usize) {
            *send = sent.sent_us as f64 / 1e3;
        }
    }
    sends
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_is_read_off_its_key_whatever_its_speed() {
        let expect = json!({"closed_loop_speed4_ms": [0], "think_ms": [1], "open_loop_speed_ms": 1,
            "all_variants": {"open_loop_speed0_5_ms": [0]}});
        let paces = paces(expect.as_object().unwrap());
        let speeds: Vec<(&str, f64)> = paces.iter().map(|(k, _, s)| (k.as_str(), *s)).collect();
        let mut expected = vec![
            ("closed_loop_speed4_ms", 4.0),
            ("open_loop_speed0_5_ms", 0.5),
        ];
        expected.retain(|pace| !speeds.contains(pace));
        assert!(expected.is_empty() && speeds.len() == 2, "{speeds:?}");
    }
}
