//! Runs whose arrivals are not the set's own, because the user asked for others.

use super::runs::Replay;
use super::*;
use serde_json::json;

/// A flag of a run.
fn flagged(mut replay: Replay, flag: &str, value: serde_json::Value) -> Replay {
    replay.run.flags.insert(flag.to_owned(), value);
    replay
}

#[test]
fn a_rate_that_was_asked_for_is_judged_as_it_was_asked_for() {
    let hurried = || {
        Replay::faithful().with(|_, dispatch| {
            dispatch.due_us /= 2;
            dispatch.ready_us = Some(dispatch.due_us);
            dispatch.sent_us = Some(dispatch.due_us + 50);
        })
    };
    let unasked = hurried().report();
    assert_eq!(find(&unasked, "run.arrivals.rate").verdict, Verdict::Fail);
    for (flag, value) in [
        ("rate_scale", json!(2.0)),
        ("steps", json!("2,2")),
        ("ramp", json!("2..2")),
    ] {
        let asked = flagged(hurried(), flag, value).report();
        let rate = find(&asked, "run.arrivals.rate");
        assert_eq!(rate.verdict, Verdict::Pass, "{flag}: {rate:?}");
        assert!(
            rate.note
                .as_deref()
                .unwrap()
                .contains("against what was asked for"),
            "{rate:?}"
        );
    }
    // A share of the sessions is judged at the times of the set.
    let shape = flagged(
        flagged(hurried(), "rate_scale", json!(0.5)),
        "rate_mode",
        json!("shape"),
    );
    assert_eq!(
        find(&shape.report(), "run.arrivals.rate").verdict,
        Verdict::Fail
    );
}

#[test]
fn a_control_is_compared_with_the_set_and_named() {
    let steady = Replay::faithful().with(|index, dispatch| {
        dispatch.due_us = index as i64 * 1_000_000;
        dispatch.ready_us = Some(dispatch.due_us);
        dispatch.sent_us = Some(dispatch.due_us + 50);
    });
    let report = flagged(steady, "arrivals", json!("constant")).report();
    for id in [
        "run.arrivals.rate",
        "run.arrivals.idc_10s",
        "run.arrivals.peak_60s",
    ] {
        let note = find(&report, id).note.as_deref().unwrap();
        assert!(
            note.contains("arrivals are a control: constant"),
            "{id}: {note}"
        );
    }
    assert_eq!(find(&report, "run.arrivals.idc_10s").verdict, Verdict::Fail);
    let recorded = flagged(Replay::faithful(), "arrivals", json!("recorded")).report();
    assert_eq!(find(&recorded, "run.arrivals.rate").note, None);
}

#[test]
fn sessions_that_were_left_out_to_lower_the_rate_are_no_loss() {
    let thinned = Replay::faithful().with(|index, dispatch| {
        if index % 2 == 0 {
            let reason = Some("thinned".to_owned());
            *dispatch = Dispatch {
                turn_id: dispatch.turn_id,
                session: dispatch.session.clone(),
                due_us: dispatch.due_us,
                not_sent_reason: reason,
                ..Dispatch::default()
            };
        }
    });
    let report = thinned.report();
    let completed = find(&report, "run.completed");
    assert_eq!(completed.verdict, Verdict::Pass, "{completed:?}");
    let note = completed.note.as_deref().unwrap();
    assert!(
        note.contains("left out to lower the rate") && !note.contains("duration"),
        "{note}"
    );
    assert!(report.sentence.starts_with("only "), "{}", report.sentence);
}
