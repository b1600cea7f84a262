use super::*;
use crate::arrivals::Placing;
use crate::cli::{Output, Pacing};
use proptest::prelude::*;
use truetape_schemas::set::{Content, ContentKind};

fn settings() -> Settings {
    Settings {
        duration_us: None,
        placing: Placing::default(),
        shard: None,
        pacing: Pacing::Hybrid,
        think_scale: 1.0,
        output: Output::Enforce,
        cache_salt: None,
        model: None,
        token_budget: None,
        needs_content: true,
    }
}

fn target() -> TargetFacts {
    TargetFacts {
        enforces_lengths: true,
        ..TargetFacts::default()
    }
}

fn turn(turn_id: i64, session: &str, start_ms: i64) -> Turn {
    Turn {
        turn_id,
        session: session.to_owned(),
        turn: 1,
        start_us: start_ms * 1_000,
        dialect: "openai_chat".into(),
        path: "/v1/chat/completions".into(),
        stream: Some(true),
        content: vec!["m".into()],
        input_tokens: Some(10),
        output_tokens: Some(3),
        ..Turn::default()
    }
}

fn library() -> Library {
    let body = br#"{"role":"user","content":"hi"}"#.to_vec();
    let kind = ContentKind::Message;
    Library::new(vec![Content {
        content_id: "m".into(),
        kind,
        tokens: None,
        body,
    }])
}

fn planned_with(turns: &[Turn], settings: &Settings, target: &TargetFacts) -> Plan {
    plan(turns, library(), settings, target).unwrap()
}

fn reasons(plan: &Plan) -> Vec<(i64, &'static str)> {
    plan.unsent
        .iter()
        .map(|unsent| (unsent.turn_id, unsent.reason))
        .collect()
}

/// The trace of case o34: four groups of requests with equal timestamps.
fn bursts() -> Vec<Turn> {
    let groups = [(0, 4), (2_999, 3), (6_000, 5), (9_001, 2)];
    let at = groups
        .iter()
        .flat_map(|&(ms, count)| std::iter::repeat_n(ms, count));
    at.zip(0..)
        .map(|(ms, id)| turn(id, &format!("s{id}"), ms))
        .collect()
}

#[test]
fn a_burst_stays_a_burst_at_any_speed() {
    for (rate_scale, offsets_us) in [
        (1.0, [0, 2_999_000, 6_000_000, 9_001_000]),
        (2.0, [0, 1_499_500, 3_000_000, 4_500_500]),
    ] {
        let plan = planned_with(
            &bursts(),
            &Settings {
                placing: Placing::stressed(rate_scale),
                ..settings()
            },
            &target(),
        );
        let due: Vec<i64> = plan
            .dispatches
            .iter()
            .map(|planned| planned.node.due_us)
            .collect();
        let groups: Vec<(i64, usize)> = due
            .chunk_by(|a, b| a == b)
            .map(|group| (group[0], group.len()))
            .collect();
        let expected: Vec<(i64, usize)> = offsets_us.into_iter().zip([4, 3, 5, 2]).collect();
        assert_eq!(groups, expected);
        let ids: Vec<i64> = plan
            .dispatches
            .iter()
            .map(|planned| planned.turn_id)
            .collect();
        assert_eq!(ids, (0..14).collect::<Vec<i64>>());
    }
}

#[test]
fn a_faster_rate_moves_sessions_and_not_the_turns_inside() {
    let mut second = turn(1, "s", 14_000);
    second.depends_on = vec![0];
    second.gap_us = Some(1_000_000);
    let turns = [turn(0, "s", 10_000), second];
    let plan = planned_with(
        &turns,
        &Settings {
            placing: Placing::stressed(2.0),
            ..settings()
        },
        &target(),
    );
    let nodes: Vec<&Node> = plan
        .dispatches
        .iter()
        .map(|planned| &planned.node)
        .collect();
    assert_eq!([nodes[0].due_us, nodes[1].due_us], [5_000_000, 9_000_000]);
    assert_eq!(nodes[1].think_us, Some(1_000_000));
    assert_eq!(nodes[1].depends_on, [0]);
}

#[test]
fn what_does_not_fit_the_context_is_counted_and_what_just_fits_is_sent() {
    // Case o38: 50+0, 50+1, 50+100, 4000+96, 4000+97, 4097+1 against 4096.
    let lengths = [
        (50, 0),
        (50, 1),
        (50, 100),
        (4_000, 96),
        (4_000, 97),
        (4_097, 1),
    ];
    let turns: Vec<Turn> = lengths
        .into_iter()
        .zip(0..)
        .map(|((input, output), id)| Turn {
            input_tokens: Some(input),
            output_tokens: Some(output),
            ..turn(id, &format!("s{id}"), id * 100)
        })
        .collect();
    let target = TargetFacts {
        context_tokens_max: Some(4_096),
        ..target()
    };
    let plan = planned_with(&turns, &settings(), &target);
    assert_eq!(
        reasons(&plan),
        [(4, reason::OVER_CONTEXT), (5, reason::OVER_CONTEXT)]
    );
    assert_eq!(plan.dispatches.len(), 4);
    assert!(
        plan.findings
            .contains(&"not sent: 2 of 6 turns: over_context".to_owned())
    );
    let bodies: Vec<serde_json::Value> = plan
        .dispatches
        .iter()
        .map(|planned| serde_json::from_slice(&planned.body.bytes(&plan.library)).unwrap())
        .collect();
    let asked: Vec<i64> = bodies
        .iter()
        .map(|body| body["max_tokens"].as_i64().unwrap())
        .collect();
    assert_eq!(asked, [1, 1, 100, 96]);
    assert!(
        bodies
            .iter()
            .all(|body| body["min_tokens"] == body["max_tokens"])
    );
}

#[test]
fn a_target_that_refuses_enforcement_is_a_finding() {
    let target = TargetFacts {
        enforces_lengths: false,
        ..target()
    };
    let plan = planned_with(&[turn(0, "s", 0)], &settings(), &target);
    assert_eq!(plan.dispatches[0].enforcement, Enforcement::Cap);
    assert!(
        plan.findings
            .iter()
            .any(|finding| finding.starts_with("lengths: the target refuses"))
    );
}

#[test]
fn every_reason_not_to_send_has_a_name() {
    let mut unreadable = turn(1, "b", 0);
    unreadable.content = vec!["nowhere".into()];
    let mut lengths = turn(2, "c", 0);
    lengths.content.clear();
    let mut other = turn(3, "d", 0);
    other.dialect = "unknown".into();
    let turns = [
        turn(0, "a", 5_000),
        unreadable,
        lengths,
        other,
        turn(4, "e", 4_999),
    ];
    let duration_us = Some(5_000_000);
    let plan = planned_with(
        &turns,
        &Settings {
            duration_us,
            ..settings()
        },
        &target(),
    );
    let expected = [
        (1, reason::NO_CONTENT),
        (2, reason::NO_CONTENT),
        (3, reason::UNSUPPORTED_DIALECT),
        (0, reason::AFTER_DURATION),
    ];
    assert_eq!(reasons(&plan), expected);
    assert_eq!(plan.dispatches.len(), 1);
}

#[test]
fn the_budget_cuts_the_rest_and_not_the_longest() {
    let mut turns: Vec<Turn> = (0..4).map(|id| turn(id, &format!("s{id}"), id)).collect();
    turns[2].input_tokens = Some(100);
    turns[3].input_tokens = Some(1);
    let budget = Settings {
        token_budget: Some(40),
        ..settings()
    };
    let plan = planned_with(&turns, &budget, &target());
    assert_eq!(
        reasons(&plan),
        [(2, reason::TOKEN_BUDGET), (3, reason::TOKEN_BUDGET)]
    );
    assert_eq!(plan.input_tokens + plan.output_tokens, 26);
}

#[test]
fn past_the_budget_nothing_is_sent_whatever_else_is_left_out() {
    let mut turns: Vec<Turn> = (0..5).map(|id| turn(id, &format!("s{id}"), id)).collect();
    turns[1].input_tokens = Some(100);
    turns[2].content = vec![];
    let budget = Settings {
        token_budget: Some(40),
        ..settings()
    };
    let plan = planned_with(&turns, &budget, &target());
    let over = reason::TOKEN_BUDGET;
    assert_eq!(
        reasons(&plan),
        [(1, over), (2, reason::NO_CONTENT), (3, over), (4, over)]
    );
}

#[test]
fn the_first_model_by_name_is_the_one_that_is_complained_about() {
    let names = ["q", "c", "x", "b", "z", "m"];
    let turns: Vec<Turn> = names
        .iter()
        .zip(0..)
        .map(|(name, id)| Turn {
            model: Some((*name).to_owned()),
            ..turn(id, "s", id)
        })
        .collect();
    let target = TargetFacts {
        models: vec!["one".into(), "two".into()],
        ..target()
    };
    for _ in 0..20 {
        let error = plan(&turns, library(), &settings(), &target).unwrap_err();
        assert!(error.to_string().contains("asks for `b`"), "{error}");
    }
}

#[test]
fn a_salt_that_is_mixed_or_lost_is_told() {
    let template = Content {
        content_id: "t".into(),
        kind: ContentKind::Template,
        tokens: None,
        body: br#"{"cache_salt":"acme"}"#.to_vec(),
    };
    let message = Content {
        content_id: "m".into(),
        kind: ContentKind::Message,
        body: br#"{"role":"user","content":"hi"}"#.to_vec(),
        ..template.clone()
    };
    let turns = [
        turn(0, "a", 0),
        Turn {
            template: Some("t".into()),
            ..turn(1, "b", 1)
        },
    ];
    for (run, said) in [(Some("salt"), "stay apart"), (None, "(optimistic)")] {
        let settings = Settings {
            cache_salt: run.map(str::to_owned),
            ..settings()
        };
        let library = Library::new(vec![template.clone(), message.clone()]);
        let plan = plan(&turns, library, &settings, &target()).unwrap();
        let found = plan
            .findings
            .iter()
            .find(|found| found.contains("cache_salt"));
        let found = found.unwrap();
        assert!(
            found.starts_with("1 of 2 turns") && found.ends_with(said),
            "{found}"
        );
    }
}

#[test]
fn nobody_waits_for_a_turn_that_is_not_sent() {
    let mut first = turn(0, "s", 0);
    first.content = vec!["nowhere".into()];
    let mut second = turn(1, "s", 10);
    second.depends_on = vec![0];
    let plan = planned_with(&[first, second], &settings(), &target());
    assert!(plan.dispatches[0].node.depends_on.is_empty());
}

#[test]
fn a_single_served_model_stands_in_and_several_have_to_be_named() {
    let mut wanted = turn(0, "s", 0);
    wanted.model = Some("prod".into());
    let serving = |models: &[&str]| TargetFacts {
        models: models.iter().map(|&model| model.to_owned()).collect(),
        ..target()
    };
    let plan = planned_with(&[wanted.clone()], &settings(), &serving(&["lab"]));
    let body: serde_json::Value =
        serde_json::from_slice(&plan.dispatches[0].body.bytes(&plan.library)).unwrap();
    assert_eq!(body["model"], "lab");
    assert_eq!(
        plan.findings,
        ["model: the set asks for `prod`, `lab` is asked for"]
    );
    let served = planned_with(&[wanted.clone()], &settings(), &serving(&["lab", "prod"]));
    assert!(served.findings.is_empty());
    let error = super::plan(&[wanted], library(), &settings(), &serving(&["a", "b"])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "--model: the set asks for `prod`, the target serves a, b; name one of them"
    );
}

#[test]
fn a_turn_that_waits_for_a_later_one_is_refused() {
    let mut first = turn(0, "s", 0);
    first.depends_on = vec![1];
    let error = super::plan(&[first, turn(1, "s", 1)], library(), &settings(), &target());
    let message = error.unwrap_err().to_string();
    assert_eq!(message, "set: turn 0 depends on 1, which is not before it");
}

proptest! {
    /// R4 at plan time, and the order that everything else rests on.
    #[test]
    fn every_turn_is_planned_or_accounted_for_and_plans_are_sorted(
        starts in proptest::collection::vec((0i64..50, 0usize..5), 1..40),
        rate_scale in 0.25f64..4.0,
        duration_ms in proptest::option::of(0i64..60),
    ) {
        let turns: Vec<Turn> = starts
            .into_iter()
            .zip(0..)
            .map(|((ms, session), id)| turn(id, &format!("s{session}"), ms))
            .collect();
        let duration_us = duration_ms.map(|ms| ms * 1_000);
        let plan = planned_with(&turns, &Settings { placing: Placing::stressed(rate_scale), duration_us, ..settings() }, &target());
        prop_assert_eq!(plan.dispatches.len() + plan.unsent.len(), turns.len());
        let keys: Vec<(i64, i64)> =
            plan.dispatches.iter().map(|planned| (planned.node.due_us, planned.turn_id)).collect();
        prop_assert!(keys.is_sorted());
        if let Some(duration_us) = duration_us {
            prop_assert!(keys.iter().all(|(due_us, _)| *due_us < duration_us));
            prop_assert!(plan.unsent.iter().all(|unsent| duration_us <= unsent.due_us));
        }
    }
}
