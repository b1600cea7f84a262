//! Whatever comes in, a report comes out: finite, consistent, and without a panic.

use super::*;
use crate::population::{Population, PopulationTurn};
use proptest::prelude::*;
use truetape_schemas::capture::Outcome;

/// Small numbers, and the largest there are.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0u64..5_000, 1 => Just(u64::MAX), 1 => Just(0)]
}

fn instant() -> impl Strategy<Value = i64> {
    prop_oneof![8 => 0i64..100_000_000, 1 => Just(i64::MAX), 1 => Just(i64::MIN)]
}

fn turn() -> impl Strategy<Value = PopulationTurn> {
    let known = || prop::option::of(number());
    let lengths = (known(), known(), known());
    let blocks = prop::collection::vec(0u64..40, 0..6);
    (
        0u32..9,
        instant(),
        prop::option::of(instant()),
        lengths,
        blocks,
    )
        .prop_map(
            |(
                session,
                arrival_us,
                end_us,
                (input_tokens, output_tokens, cached_tokens),
                blocks,
            )| {
                PopulationTurn {
                    session,
                    arrival_us,
                    end_us,
                    input_tokens,
                    output_tokens,
                    cached_tokens,
                    blocks,
                    facts: session % 3,
                    tenant: std::num::NonZeroU64::new(u64::from(session % 4)),
                    replica: (session > 2).then_some(u16::MAX),
                }
            },
        )
}

fn population() -> impl Strategy<Value = Population> {
    let clock = prop::option::of(instant());
    (
        prop::collection::vec(turn(), 0..120),
        prop::option::of(0u32..64),
        clock,
    )
        .prop_map(|(mut turns, block_tokens, clock_resolution_us)| {
            turns.sort_by_key(|turn| turn.arrival_us);
            // One session too few: an index out of range must not be followed.
            Population {
                turns,
                sessions: 8,
                block_tokens,
                clock_resolution_us,
                facts: super::known_good::facts(),
            }
        })
}

fn dispatch() -> impl Strategy<Value = Dispatch> {
    let times = (
        instant(),
        prop::option::of(instant()),
        prop::option::of(instant()),
    );
    let tokens = (prop::option::of(instant()), prop::option::of(instant()));
    let outcome = prop::option::of(prop_oneof![Just(Outcome::Complete), Just(Outcome::Error)]);
    let events = prop::option::of(prop::collection::vec(instant(), 0..5));
    (0i64..12, times, tokens, outcome, events).prop_map(
        |(turn_id, (due_us, sent_us, end_us), (got, cached), outcome, token_event_offsets_us)| {
            Dispatch {
                turn_id,
                due_us,
                sent_us,
                ready_us: end_us,
                request_end_us: cached,
                first_token_us: got,
                last_token_us: end_us,
                end_us,
                token_event_offsets_us,
                input_tokens: got,
                output_tokens: got,
                output_tokens_asked: cached,
                cached_tokens: cached,
                outcome,
                ..Dispatch::default()
            }
        },
    )
}

fn holds(report: &Report) -> Result<(), TestCaseError> {
    for dimension in &report.dimensions {
        let numbers = [dimension.value, dimension.target, dimension.deviation];
        prop_assert!(
            numbers.iter().flatten().all(|number| number.is_finite()),
            "{dimension:?}"
        );
        let excused = dimension.verdict != Verdict::Unknown || dimension.note.is_some();
        prop_assert!(excused, "an UNKNOWN says why: {dimension:?}");
        if dimension.verdict == Verdict::Pass {
            let deviation = dimension.deviation.unwrap();
            prop_assert!(
                deviation.abs() <= dimension.threshold + 1e-9,
                "{dimension:?}"
            );
        }
    }
    prop_assert_eq!(&report.unknown, &ids(report, Verdict::Unknown));
    let text = serde_json::to_string(report).unwrap();
    let read: Report = serde_json::from_str(&text).unwrap();
    prop_assert_eq!(read.dimensions.len(), report.dimensions.len());
    prop_assert!(!crate::render::terminal(report, true).is_empty());
    prop_assert!(!crate::render::markdown(report).is_empty());
    Ok(())
}

proptest! {
    #[test]
    fn any_two_populations_have_a_report(
        source in population(),
        set in population(),
        share in prop::option::of(prop_oneof![0.0f64..3.0, Just(f64::NAN)]),
        rate in prop_oneof![Just("recorded"), Just("shape"), Just("stress"), Just("")],
        view in prop_oneof![Just("replica"), Just("fleet")],
    ) {
        let context = SetContext {
            share,
            rate: rate.to_owned(),
            view: view.to_owned(),
            ..SetContext::default()
        };
        holds(&set_against_source(&source, &set, &context))?;
        let profile = crate::profile::profile(&source, &crate::profile::Options::default());
        prop_assert!(!crate::render::profile_terminal(&profile).is_empty());
    }

    #[test]
    fn a_population_deviates_nowhere_from_itself(source in population()) {
        let report = set_against_source(&source, &source, &SetContext::default());
        for dimension in &report.dimensions {
            prop_assert!(dimension.deviation.is_none_or(|off| off == 0.0), "{:?}", dimension);
            prop_assert_ne!(dimension.verdict, Verdict::Fail);
        }
    }

    #[test]
    fn any_log_has_a_report_and_a_summary(
        source in population(),
        dispatches in prop::collection::vec(dispatch(), 0..40),
    ) {
        let rows = source.turns.iter().zip(0i64..);
        let turns: Vec<Turn> = rows.map(|(turn, turn_id)| Turn {
            turn_id,
            session: turn.session.to_string(),
            depends_on: if turn_id > 2 { vec![turn_id - 2] } else { Vec::new() },
            start_us: turn.arrival_us,
            gap_us: turn.end_us,
            input_tokens: turn.input_tokens.map(|tokens| tokens as i64),
            cached_tokens: turn.cached_tokens.map(|tokens| tokens as i64),
            block_hashes: Some(turn.blocks.clone()),
            recorded_end_us: turn.end_us,
            ..Turn::default()
        }).collect();
        let manifest = Manifest { block_tokens: source.block_tokens, ..Manifest::default() };
        holds(&run_against_set(&manifest, &turns, &Run::default(), &dispatches, None))?;
        let requests = crate::latency::summarize(&dispatches).requests;
        let not_sent: u64 = requests.not_sent.values().sum();
        prop_assert_eq!(requests.due, requests.sent + not_sent);
        prop_assert_eq!(requests.sent, requests.answered + requests.failed);
        let again = Population::of_turns(&turns, None, None);
        prop_assert_eq!(again.turns.len(), turns.len());
    }
}
