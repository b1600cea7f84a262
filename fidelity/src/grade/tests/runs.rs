use super::known_good::{BLOCK_TOKENS, population, turns};
use super::*;
use Direction::{Optimistic, Pessimistic};
use serde_json::json;
use truetape_schemas::capture::Outcome;
use truetape_schemas::run::{Account, Engine};
use truetape_schemas::set::manifest::{Selection, Semantics};

/// A set, and a run that replayed it without fault.
pub(super) struct Replay {
    pub(super) manifest: Manifest,
    pub(super) turns: Vec<Turn>,
    pub(super) run: Run,
    pub(super) dispatches: Vec<Dispatch>,
}

impl Replay {
    pub(super) fn faithful() -> Self {
        let turns = turns(&population(400));
        let dispatches = dispatches(&turns);
        let due = turns.len() as u64;
        let manifest = Manifest {
            name: "good".to_owned(),
            digest: "d1".to_owned(),
            block_tokens: Some(BLOCK_TOKENS),
            selection: Some(Selection {
                method: "all".to_owned(),
                share: 1.0,
                share_got: 1.0,
                ..Selection::default()
            }),
            semantics: Semantics {
                view: "fleet".to_owned(),
                ..Semantics::default()
            },
            ..Manifest::default()
        };
        let run = Run {
            run_id: "r1".to_owned(),
            set_digest: "d1".to_owned(),
            target: "http://127.0.0.1:9000".to_owned(),
            validity: "valid".to_owned(),
            engine: Engine {
                kv_tokens: Some(10_000_000),
                ..Engine::default()
            },
            flags: [("cache", "salted"), ("cache_verified", "honoured")]
                .map(|(name, value)| (name.to_owned(), json!(value)))
                .into(),
            account: Account {
                due,
                sent: due,
                answered: due,
                ..Account::default()
            },
            ..Run::default()
        };
        Self {
            manifest,
            turns,
            run,
            dispatches,
        }
    }

    pub(super) fn with(mut self, change: impl Fn(usize, &mut Dispatch)) -> Self {
        for (index, dispatch) in self.dispatches.iter_mut().enumerate() {
            change(index, dispatch);
        }
        self
    }

    pub(super) fn report(&self) -> Report {
        run_against_set(
            &self.manifest,
            &self.turns,
            &self.run,
            &self.dispatches,
            None,
        )
    }
}

/// Every turn sent when it arrived in production, and served as fast, from a cache without bound.
fn dispatches(turns: &[Turn]) -> Vec<Dispatch> {
    let blocks = turns
        .iter()
        .map(|turn| turn.block_hashes.as_deref().unwrap());
    let hits = crate::prefix::hits_per_request(blocks, None);
    turns
        .iter()
        .zip(hits)
        .map(|(turn, hits)| Dispatch {
            turn_id: turn.turn_id,
            session: turn.session.clone(),
            due_us: turn.start_us,
            ready_us: Some(turn.start_us),
            sent_us: Some(turn.start_us + 50),
            lateness_us: Some(50),
            first_token_us: Some(100_000),
            last_token_us: turn.recorded_end_us.map(|end| end - 60),
            end_us: turn.recorded_end_us.map(|end| end - 50),
            input_tokens_asked: turn.input_tokens,
            input_tokens: turn.input_tokens,
            output_tokens_asked: turn.output_tokens,
            output_tokens: turn.output_tokens,
            cached_tokens: turn.input_tokens.map(|input| {
                (i64::from(hits) * i64::from(BLOCK_TOKENS)).min((input - 1) / 16 * 16)
            }),
            enforcement: "enforce".to_owned(),
            status: Some(200),
            outcome: Some(Outcome::Complete),
            ..Dispatch::default()
        })
        .collect()
}

#[test]
fn a_faithful_run_passes_everything_but_what_nobody_graded() {
    let report = Replay::faithful().report();
    assert_eq!(ids(&report, Verdict::Fail), Vec::<&str>::new());
    // What a cache holds of generated tokens is as wide as the answers are long.
    let unknown = [
        "set.graded",
        "run.cached_tokens.simulated",
        "noise.steady_state",
    ];
    assert_eq!(ids(&report, Verdict::Unknown), unknown);
    assert_eq!(
        (report.verdict, report.run_id.as_deref()),
        (Verdict::Unknown, Some("r1"))
    );
    assert_eq!(
        report.checklist[4].verdict,
        Verdict::Pass,
        "{:?}",
        report.checklist[4]
    );
}

#[test]
fn the_report_of_the_set_is_merged() {
    let source = population(400);
    let context = SetContext {
        view: "fleet".to_owned(),
        unlinked_share: Some(0.0),
        findings: vec!["a word on the set".to_owned()],
        ..SetContext::default()
    };
    let level1 = set_against_source(&source, &source, &context);
    let replay = Replay::faithful();
    let report = run_against_set(
        &replay.manifest,
        &replay.turns,
        &replay.run,
        &replay.dispatches,
        Some(&level1),
    );
    assert!(report.dimensions.len() > level1.dimensions.len());
    assert!(report.findings.contains(&"a word on the set".to_owned()));
    assert!(
        !report
            .dimensions
            .iter()
            .any(|dimension| dimension.id == "set.graded")
    );
    assert_eq!(ids(&report, Verdict::Fail), Vec::<&str>::new());
}

#[test]
fn short_answers_are_optimistic_and_long_ones_pessimistic() {
    for (factor, direction) in [(0.5, Optimistic), (6.0, Pessimistic)] {
        let replay = Replay::faithful().with(|_, dispatch| {
            dispatch.output_tokens = dispatch
                .output_tokens
                .map(|tokens| (tokens as f64 * factor) as i64);
        });
        let report = replay.report();
        fails(
            &report,
            &[
                ("run.output_tokens.ratio", direction),
                ("run.output_tokens.within_1", direction),
            ],
        );
        assert_eq!(report.direction, direction);
        assert_eq!(report.checklist[3].verdict, Verdict::Fail);
    }
}

#[test]
fn missing_usage_is_unknown() {
    let report = Replay::faithful()
        .with(|_, dispatch| {
            dispatch.output_tokens = None;
            dispatch.input_tokens = None;
            dispatch.cached_tokens = None;
        })
        .report();
    for id in [
        "run.output_tokens.ratio",
        "run.output_tokens.within_1",
        "run.input_tokens.ratio",
        "run.cached_tokens.simulated",
    ] {
        let dimension = find(&report, id);
        assert_eq!(dimension.verdict, Verdict::Unknown, "{dimension:?}");
        assert!(
            dimension.note.as_ref().unwrap().contains("reported no"),
            "{dimension:?}"
        );
    }
}

#[test]
fn failures_of_the_longest_are_optimistic() {
    let report = Replay::faithful()
        .with(|_, dispatch| {
            if dispatch.input_tokens_asked > Some(3_000) {
                dispatch.outcome = Some(Outcome::Error);
                dispatch.status = Some(400);
            }
        })
        .report();
    fails(&report, &[("run.completed", Optimistic)]);
}

#[test]
fn what_failed_in_production_may_fail_again() {
    let mut replay = Replay::faithful();
    for (turn, dispatch) in replay
        .turns
        .iter_mut()
        .zip(&mut replay.dispatches)
        .step_by(10)
    {
        turn.recorded_outcome = Outcome::Error;
        dispatch.outcome = Some(Outcome::Error);
    }
    let report = replay.report();
    let completed = find(&report, "run.completed");
    assert_eq!(completed.verdict, Verdict::Pass, "{completed:?}");
    assert!(
        completed.note.as_ref().unwrap().contains("are left out"),
        "{completed:?}"
    );
}

/// The engine caches what it generates: the next prompt of a session repeats it.
/// The target had read these prompts before it failed to answer.
#[test]
fn a_steady_client_is_optimistic() {
    let replay = Replay::faithful();
    let last = replay.turns.last().unwrap().start_us;
    let gap = last / replay.turns.len() as i64;
    let report = replay
        .with(|index, dispatch| {
            dispatch.sent_us = Some(index as i64 * gap);
            dispatch.ready_us = dispatch.sent_us;
        })
        .report();
    fails(
        &report,
        &[
            ("run.arrivals.idc_10s", Optimistic),
            ("run.arrivals.peak_10s", Optimistic),
        ],
    );
}

#[test]
fn a_faster_run_is_more_load() {
    let report = Replay::faithful()
        .with(|_, dispatch| dispatch.sent_us = dispatch.sent_us.map(|sent| sent / 2))
        .report();
    fails(&report, &[("run.arrivals.rate", Pessimistic)]);
}

#[test]
fn a_late_client_is_no_ruler() {
    let mut replay = Replay::faithful().with(|_, dispatch| dispatch.lateness_us = Some(25_000));
    replay.run.validity = "invalid".to_owned();
    replay.run.validity_reasons = vec!["lateness p99 is 25 ms".to_owned()];
    let report = replay.report();
    fails(&report, &[("run.lateness.p99", Direction::Mixed)]);
    assert_eq!(find(&report, "run.validity").verdict, Verdict::Fail);
    assert!(
        find(&report, "run.lateness.p99")
            .note
            .as_ref()
            .unwrap()
            .contains("25 % of the median")
    );
}

#[test]
fn a_stopped_run_cannot_be_judged_whole() {
    let mut replay = Replay::faithful().with(|index, dispatch| {
        if index > 500 {
            dispatch.sent_us = None;
            dispatch.outcome = None;
            dispatch.not_sent_reason = Some("stopped".to_owned());
        }
    });
    replay.run.validity = "stopped".to_owned();
    let report = replay.report();
    assert_eq!(find(&report, "run.validity").verdict, Verdict::Unknown);
    fails(&report, &[("run.completed", Optimistic)]);
}

#[test]
fn a_shortened_run_is_a_window_of_the_set() {
    let report = Replay::faithful()
        .with(|index, dispatch| {
            if index > 700 {
                dispatch.sent_us = None;
                dispatch.outcome = None;
                dispatch.not_sent_reason = Some("after_duration".to_owned());
            }
        })
        .report();
    assert_eq!(ids(&report, Verdict::Fail), Vec::<&str>::new());
    assert_eq!(find(&report, "run.completed").value, Some(1.0));
    let said = |finding: &String| finding.starts_with("the run is the beginning of the set");
    assert!(report.findings.iter().any(said), "{:?}", report.findings);
}

#[test]
fn broken_order_and_cut_pauses_are_caught() {
    let replay = Replay::faithful();
    let turns = replay.turns.clone();
    let early = replay.with(|index, dispatch| {
        if let Some(gap) = turns[index].gap_us {
            dispatch.sent_us = dispatch.sent_us.map(|sent| sent - gap - 100_000);
        }
    });
    fails(
        &early.report(),
        &[
            ("run.order", Pessimistic),
            ("run.think_time.kept", Optimistic),
        ],
    );
    let hasty = Replay::faithful().with(|index, dispatch| {
        if let Some(gap) = turns[index].gap_us {
            dispatch.sent_us = dispatch.sent_us.map(|sent| sent - gap / 2);
        }
    });
    let report = hasty.report();
    fails(&report, &[("run.think_time.kept", Optimistic)]);
    assert_eq!(find(&report, "run.order").verdict, Verdict::Pass);
}

#[test]
fn a_run_of_another_set_is_a_failure() {
    let mut replay = Replay::faithful();
    replay.run.set_digest = "d2".to_owned();
    assert_eq!(find(&replay.report(), "run.set").verdict, Verdict::Fail);
}

#[test]
fn a_run_with_nothing_in_it_ends_in_unknown() {
    let report = run_against_set(&Manifest::default(), &[], &Run::default(), &[], None);
    let failed = ids(&report, Verdict::Fail);
    assert_eq!(failed, Vec::<&str>::new());
    assert_eq!(report.verdict, Verdict::Unknown);
}
