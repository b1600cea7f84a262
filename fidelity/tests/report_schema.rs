//! The published schema of report/1 against what this build writes.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use boon::{Compiler, SchemaIndex, Schemas};
use serde_json::{Value, json};
use std::path::Path;
use truetape_fidelity::facts::Facts;
use truetape_fidelity::grade::{SetContext, set_against_source};
use truetape_fidelity::population::{Population, PopulationTurn};
use truetape_schemas::report::{
    CheckPoint, Dimension, Direction, FORMAT, Level, Push, Report, SimulatedEngine,
    SimulatedMeasure, Simulation, Verdict,
};

fn published() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../schemas/spec/report-v1.schema.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// The schema as it is published, or the same with keys that it does not name refused.
fn schema(strict: bool) -> (Schemas, SchemaIndex) {
    let mut schema = published();
    if strict {
        close(&mut schema);
    }
    let mut schemas = Schemas::new();
    let mut compiler = Compiler::new();
    let id = schema["$id"].as_str().unwrap().to_owned();
    compiler.add_resource(&id, schema).unwrap();
    let index = compiler.compile(&id, &mut schemas).unwrap();
    (schemas, index)
}

fn close(schema: &mut Value) {
    if let Some(object) = schema.as_object_mut() {
        if object.contains_key("properties") {
            object.insert("additionalProperties".to_owned(), json!(false));
        }
        object.values_mut().for_each(close);
    }
}

fn check(report: &Value, strict: bool) -> Result<(), String> {
    let (schemas, index) = schema(strict);
    schemas
        .validate(report, index)
        .map_err(|error| format!("{error:#}"))
}

/// Sessions of two turns, with blocks.
fn population(output_tokens: Option<u64>) -> Population {
    let turns = (0..400i64).map(|index| PopulationTurn {
        session: u32::try_from(index / 2).unwrap(),
        arrival_us: index * 1_700_003,
        end_us: Some(index * 1_700_003 + 900_000),
        input_tokens: Some(64 + u64::try_from(index % 7).unwrap() * 16),
        output_tokens,
        cached_tokens: Some(32),
        blocks: (1..5)
            .chain([u64::try_from(index).unwrap() + 100])
            .collect(),
        facts: 0,
        tenant: None,
        replica: None,
    });
    Population {
        turns: turns.collect(),
        sessions: 200,
        block_tokens: Some(16),
        clock_resolution_us: None,
        facts: Facts::default(),
    }
}

fn reports() -> Vec<Report> {
    let context = SetContext {
        set_name: "chat".to_owned(),
        set_digest: "0123456789abcdef".to_owned(),
        view: "fleet".to_owned(),
        rate: "recorded".to_owned(),
        ..SetContext::default()
    };
    let nothing = Population::default();
    vec![
        set_against_source(&population(Some(80)), &population(Some(80)), &context),
        set_against_source(&population(Some(80)), &population(Some(40)), &context),
        set_against_source(&population(None), &population(Some(40)), &context),
        set_against_source(&nothing, &nothing, &SetContext::default()),
    ]
}

/// A report with every word that there is.
fn every_word() -> Report {
    let mut report = reports().remove(0);
    let directions = [
        Direction::Optimistic,
        Direction::Pessimistic,
        Direction::Neutral,
        Direction::Mixed,
        Direction::Unknown,
    ];
    let verdicts = [Verdict::Pass, Verdict::Unknown, Verdict::Fail];
    let levels = [Level::SetAgainstSource, Level::RunAgainstSet, Level::Noise];
    for (index, direction) in directions.into_iter().enumerate() {
        report.dimensions.push(Dimension {
            id: format!("every.word_{index}"),
            level: levels[index % levels.len()],
            verdict: verdicts[index % verdicts.len()],
            direction,
            note: Some("a note".to_owned()),
            ..report.dimensions[0].clone()
        });
        report.pushes.push(Push {
            dimension: "every.word".to_owned(),
            direction,
            reason: "so".to_owned(),
        });
    }
    report.simulations.push(Simulation {
        level: Level::Noise,
        direction: Direction::Mixed,
        note: None,
        replicas: 2,
        target_turns: 9,
        turns: 8,
        engines: vec![SimulatedEngine {
            kv_tokens: 1,
            busy: 0.6,
            measures: vec![SimulatedMeasure {
                name: "ttft_p99".to_owned(),
                target: Some(1.0),
                value: None,
                change: None,
            }],
        }],
    });
    report.run_id = Some("r".to_owned());
    report.target = Some("http://127.0.0.1:1".to_owned());
    report.checklist[6] = CheckPoint {
        verdict: Verdict::Fail,
        ..report.checklist[6].clone()
    };
    report
}

#[test]
fn what_this_build_writes_is_what_the_schema_says_and_nothing_more() {
    for report in reports().iter().chain([&every_word()]) {
        let value = serde_json::to_value(report).unwrap();
        check(&value, true).unwrap_or_else(|error| panic!("{error}\n{value:#}"));
    }
    let format = published();
    assert_eq!(
        format["properties"]["format"]["const"],
        json!(FORMAT.to_string())
    );
}

#[test]
fn the_schema_refuses_what_is_no_report_and_lets_later_keys_pass() {
    let good = serde_json::to_value(&reports()[1]).unwrap();
    let changed = |pointer: &str, to: Value| {
        let mut report = good.clone();
        *report.pointer_mut(pointer).unwrap() = to;
        report
    };
    for (pointer, wrong) in [
        ("/format", json!("report/2")),
        ("/verdict", json!("pass")),
        ("/direction", json!("UP")),
        ("/dimensions/0/threshold", json!(-1)),
        ("/dimensions/0/value", json!("12")),
        ("/dimensions/0/unit", json!("furlongs")),
        ("/dimensions/0/level", json!("level 1")),
        ("/checklist", json!([])),
        ("/checklist/0/number", json!(8)),
        ("/unknown", json!([1])),
    ] {
        check(&changed(pointer, wrong), false).expect_err(pointer);
    }
    let required = published().pointer("/required").unwrap().clone();
    for key in required.as_array().unwrap() {
        let key = key.as_str().unwrap();
        let mut report = good.clone();
        report.as_object_mut().unwrap().remove(key).unwrap();
        check(&report, false).expect_err(key);
    }
    let mut later = good.clone();
    later["of_a_later_writer"] = json!(1);
    check(&later, false).unwrap();
    check(&later, true).unwrap_err();
}
