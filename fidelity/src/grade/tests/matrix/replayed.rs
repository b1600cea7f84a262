//! Distortions of a run: the set is right, what was sent or what came back is not.

use crate::grade::tests::runs::Replay;
use truetape_schemas::capture::Outcome;
use truetape_schemas::report::Report;
use truetape_schemas::run::Dispatch;
use truetape_schemas::set::manifest::Selection;

/// Sends a turn as soon as one of `limit` places is free, and not before `due`; notes how late.
fn in_places(limit: usize, due: fn(&Dispatch) -> i64) -> Replay {
    let mut replay = Replay::faithful();
    let mut free = vec![0_i64; limit];
    for dispatch in &mut replay.dispatches {
        let place = (0..limit).min_by_key(|place| free[*place]).unwrap();
        let sent_us = free[place].max(due(dispatch));
        free[place] = sent_us + dispatch.end_us.unwrap();
        dispatch.ready_us = Some(due(dispatch));
        dispatch.sent_us = Some(sent_us);
        dispatch.lateness_us = Some(sent_us - due(dispatch));
    }
    replay
}

/// How many are in flight on average.
fn concurrency() -> f64 {
    let replay = Replay::faithful();
    let busy_us: i64 = replay.dispatches.iter().filter_map(|d| d.end_us).sum();
    busy_us as f64 / replay.turns.last().unwrap().start_us as f64
}

/// The next turn goes out when one is done, whenever it was due.
pub(super) fn closed_loop() -> Report {
    let mut replay = in_places(concurrency().round() as usize, |_| 0);
    for dispatch in &mut replay.dispatches {
        // A closed loop has no due times, so it is never late.
        dispatch.ready_us = dispatch.sent_us;
        dispatch.lateness_us = Some(0);
    }
    replay.report()
}

/// Turns wait for a place, and latency counts from the send.
pub(super) fn limited() -> Report {
    in_places((1.5 * concurrency()).round() as usize, |dispatch| {
        dispatch.due_us
    })
    .report()
}

pub(super) fn late_client() -> Report {
    let mut replay = Replay::faithful().with(|_, dispatch| dispatch.lateness_us = Some(25_000));
    replay.run.validity = "invalid".to_owned();
    replay.run.validity_reasons = vec!["lateness p99 is 25 ms".to_owned()];
    replay.report()
}

fn with_answers(factor: f64) -> Report {
    let scaled = |tokens: i64| (tokens as f64 * factor) as i64;
    Replay::faithful()
        .with(|_, dispatch| dispatch.output_tokens = dispatch.output_tokens.map(scaled))
        .report()
}

pub(super) fn short_answers() -> Report {
    with_answers(0.5)
}

pub(super) fn long_answers() -> Report {
    with_answers(6.0)
}

pub(super) fn failures() -> Report {
    Replay::faithful()
        .with(|_, dispatch| {
            if dispatch.input_tokens_asked > Some(3_000) {
                dispatch.outcome = Some(Outcome::Error);
                dispatch.status = Some(400);
            }
        })
        .report()
}

fn with_prompts(factor: f64) -> Report {
    let scaled = |tokens: i64| (tokens as f64 * factor) as i64;
    Replay::faithful()
        .with(|_, dispatch| dispatch.input_tokens = dispatch.input_tokens.map(scaled))
        .report()
}

pub(super) fn longer_template() -> Report {
    with_prompts(1.1)
}

pub(super) fn shorter_tokenizer() -> Report {
    with_prompts(0.9)
}

pub(super) fn warm_cache() -> Report {
    Replay::faithful()
        .with(|_, dispatch| dispatch.cached_tokens = dispatch.input_tokens.map(|tokens| tokens - 1))
        .report()
}

/// A tenth of one server's traffic, against as much cache as that server has.
pub(super) fn unscaled_cache() -> Report {
    let mut replay = Replay::faithful();
    replay.manifest.selection = Some(Selection {
        method: "balanced".to_owned(),
        unit: "family".to_owned(),
        share: 0.1,
        share_got: 0.1,
        ..Selection::default()
    });
    replay.run.engine.kv_tokens = Some(20_000 * 16);
    replay.report()
}
