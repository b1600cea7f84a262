//! What a set keeps of how production's clients behaved.

use crate::fixture::{Talk, compiled, hold, turns, write};
use truetape_schemas::capture::{Exchange, Outcome};

const RECIPE: &str = "name = \"kept\"\n[select]\nmethod = \"all\"\n";

fn talk(name: &str, start_us: i64) -> Vec<Exchange> {
    hold(&Talk {
        name: name.to_owned(),
        start_us,
        turns: 2,
        keyed: true,
    })
}

#[test]
fn connections_are_numbered_in_the_order_of_the_set() {
    let scratch = tempfile::tempdir().unwrap();
    let mut rows = talk("a", 0);
    rows.extend(talk("b", 1_000_000));
    rows.extend(talk("c", 2_000_000));
    for (row, conn_id) in rows.iter_mut().zip([7, 7, 3, 7, -1, -1]) {
        row.conn_id = conn_id;
    }
    rows[0].conn_seq = 4;
    let capture = scratch.path().join("capture");
    write(&capture.join("0001.parquet"), &rows);
    let set = compiled(&[capture], RECIPE, &scratch.path().join("sets"));
    let kept: Vec<_> = turns(&set)
        .iter()
        .map(|turn| {
            (
                turn.session.clone(),
                turn.recorded_conn,
                turn.recorded_conn_seq,
            )
        })
        .collect();
    let conns: Vec<_> = kept.iter().map(|(_, conn, seq)| (*conn, *seq)).collect();
    let expected = [
        (Some(0), Some(4)),
        (Some(1), Some(0)),
        (None, None),
        (Some(0), Some(1)),
        (Some(0), Some(1)),
        (None, None),
    ];
    assert_eq!(conns, expected, "{kept:?}");
}

#[test]
fn what_a_client_had_seen_is_kept_where_it_left() {
    let scratch = tempfile::tempdir().unwrap();
    let mut rows = talk("a", 0);
    rows.extend(talk("b", 1_000_000));
    for (row, outcome) in rows.iter_mut().zip([
        Outcome::ClientAborted,
        Outcome::Complete,
        Outcome::ClientAborted,
        Outcome::Complete,
    ]) {
        row.outcome = outcome;
        row.token_event_offsets_us = Some(vec![1_000, 2_000, 3_000]);
    }
    // Nobody counted.
    rows[2].token_event_offsets_us = None;
    let capture = scratch.path().join("capture");
    write(&capture.join("0001.parquet"), &rows);
    let set = compiled(&[capture], RECIPE, &scratch.path().join("sets"));
    let kept: Vec<_> = turns(&set)
        .iter()
        .map(|turn| (turn.recorded_outcome, turn.recorded_token_events))
        .collect();
    let expected = [
        (Outcome::ClientAborted, Some(3)),
        (Outcome::ClientAborted, None),
        (Outcome::Complete, None),
        (Outcome::Complete, None),
    ];
    assert_eq!(kept, expected);
}
