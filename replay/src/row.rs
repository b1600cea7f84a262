//! What became of a dispatch, as a row of run/1.

use crate::client::{Exchanged, Failure, RECORDED_CANCEL};
use crate::clock::Clock;
use crate::plan::{Planned, Unsent};
use crate::schedule::Release;
use std::time::Instant;
use truetape_schemas::run::{Account, Dispatch};

/// The row of a dispatch that was sent: its exchange started at `released`.
pub fn sent(
    planned: &Planned,
    release: Release,
    released: Instant,
    exchanged: Exchanged,
    clock: Clock,
) -> Dispatch {
    let sent_us = clock.at_us(released);
    // Without a request there is no other clock than the one that started with it.
    let before_us = clock.at_us(exchanged.handed) - sent_us;
    // R2: the schedule released it at `ready` or after.
    debug_assert!(release.ready_us <= sent_us);
    // Latencies count from the last byte of the request (D2).
    let zero_us = exchanged.request_end_us.unwrap_or(0);
    let since = |offset_us: Option<i64>| offset_us.map(|offset_us| offset_us - zero_us);
    let end_us = match exchanged.request_end_us {
        Some(zero_us) => exchanged.end_us - zero_us,
        None => before_us + exchanged.end_us,
    };
    let facts = exchanged.facts;
    let events_us = facts
        .token_event_offsets_us
        .iter()
        .map(|at_us| at_us - zero_us)
        .collect();
    let several = facts.token_event_choices.iter().any(|choice| *choice != 0);
    let said: Option<Vec<String>> = facts.finish_reasons.into_iter().collect();
    let failure = exchanged
        .failure
        .as_ref()
        .map(|failure| Failure::name(failure).to_owned());
    Dispatch {
        ready_us: Some(release.ready_us),
        sent_us: Some(sent_us),
        lateness_us: Some(sent_us - release.ready_us),
        session_delay_us: Some(release.ready_us - planned.node.due_us),
        connect_us: exchanged.connected.then_some(before_us),
        request_end_us: exchanged.request_end_us.map(|end_us| before_us + end_us),
        first_byte_us: since(exchanged.first_byte_us),
        first_token_us: since(facts.first_token_us),
        first_output_us: since(facts.first_output_us),
        last_token_us: since(facts.last_token_us),
        end_us: Some(end_us),
        token_event_offsets_us: Some(events_us),
        token_event_choices: several.then_some(facts.token_event_choices),
        input_tokens: facts.input_tokens,
        output_tokens: facts.output_tokens,
        cached_tokens: facts.cached_tokens,
        reasoning_tokens: facts.reasoning_tokens,
        status: exchanged.status.map(i32::from),
        outcome: Some(facts.outcome),
        error_code: failure.or(facts.error_code),
        finish_reasons: said.filter(|reasons| !reasons.is_empty()),
        response_bytes: Some(exchanged.response_bytes),
        conn_reused: Some(exchanged.conn_reused),
        ..planned_row(planned)
    }
}

/// The row of a dispatch that was planned and then withdrawn.
pub fn withdrawn(planned: &Planned, reason: &str) -> Dispatch {
    Dispatch {
        not_sent_reason: Some(reason.to_owned()),
        ..planned_row(planned)
    }
}

/// The row of a turn that was never planned.
pub fn unsent(unsent: &Unsent) -> Dispatch {
    Dispatch {
        turn_id: unsent.turn_id,
        session: unsent.session.clone(),
        turn: unsent.turn,
        due_us: unsent.due_us,
        not_sent_reason: Some(unsent.reason.to_owned()),
        input_tokens_asked: unsent.input_tokens,
        output_tokens_asked: unsent.output_tokens,
        enforcement: "none".to_owned(),
        ..Dispatch::default()
    }
}

fn planned_row(planned: &Planned) -> Dispatch {
    Dispatch {
        turn_id: planned.turn_id,
        session: planned.session.clone(),
        turn: planned.turn,
        due_us: planned.node.due_us,
        input_tokens_asked: planned.input_tokens,
        output_tokens_asked: planned.output_tokens,
        enforcement: planned.enforcement.name().to_owned(),
        ..Dispatch::default()
    }
}

/// Adds rows up: `due = sent + not sent`, `sent = answered + failed` (R4).
pub fn account(rows: &[Dispatch]) -> Account {
    let mut account = Account::default();
    for row in rows {
        account.due += 1;
        let Some(outcome) = row.outcome else {
            let reason = row
                .not_sent_reason
                .clone()
                .unwrap_or_else(|| "unknown".to_owned());
            *account.not_sent.entry(reason).or_default() += 1;
            continue;
        };
        account.sent += 1;
        if outcome == truetape_schemas::capture::Outcome::Complete {
            account.answered += 1;
            continue;
        }
        if row.error_code.as_deref() == Some(RECORDED_CANCEL) {
            *account
                .failed
                .entry(RECORDED_CANCEL.to_owned())
                .or_default() += 1;
            continue;
        }
        let connect = row.error_code.as_deref() == Some("connect") && row.status.is_none();
        let failed = if connect { "connect" } else { outcome.name() };
        *account.failed.entry(failed.to_owned()).or_default() += 1;
    }
    account
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lengths::Enforcement;
    use crate::schedule::Node;
    use std::time::Duration;
    use truetape_schemas::capture::Outcome;
    use truetape_schemas::wire::{Dialect, ResponseFacts};

    fn planned() -> Planned {
        Planned {
            turn_id: 3,
            session: "s".into(),
            turn: 2,
            node: Node {
                due_us: 1_000,
                ..Node::default()
            },
            path: String::new(),
            dialect: Dialect::OpenaiChat,
            body: crate::body::Body::default(),
            input_tokens: Some(10),
            output_tokens: Some(4),
            enforcement: Enforcement::Enforce,
            continues: None,
            cancel: None,
            carrier: None,
        }
    }

    fn exchanged(handed: Instant, failure: Option<Failure>, outcome: Outcome) -> Exchanged {
        Exchanged {
            handed,
            connected: failure.is_none(),
            conn_reused: true,
            request_end_us: Some(5),
            head_us: Some(90),
            first_byte_us: Some(95),
            end_us: 400,
            status: failure.is_none().then_some(200),
            response_bytes: 12,
            facts: ResponseFacts {
                outcome,
                token_event_offsets_us: vec![100, 300],
                token_event_choices: vec![0, 0],
                finish_reasons: vec![Some("stop".into())],
                ..ResponseFacts::default()
            },
            failure,
        }
    }

    #[test]
    fn lateness_is_ours_and_the_delay_is_the_sessions() {
        let zero = Instant::now();
        let release = Release {
            index: 0,
            ready_us: 1_500,
        };
        let released = zero + Duration::from_micros(1_700);
        // Connecting took two milliseconds: that is no lateness of ours.
        let handed = zero + Duration::from_micros(3_700);
        let answer = exchanged(handed, None, Outcome::Complete);
        let clock = Clock::starting_at(zero);
        let row = sent(&planned(), release, released, answer, clock);
        assert_eq!(
            (row.due_us, row.ready_us, row.sent_us),
            (1_000, Some(1_500), Some(1_700))
        );
        assert_eq!(
            (row.lateness_us, row.session_delay_us),
            (Some(200), Some(500))
        );
        assert_eq!(row.connect_us, Some(2_000));
        assert_eq!((row.request_end_us, row.end_us), (Some(2_005), Some(395)));
        assert_eq!(row.token_event_offsets_us, Some(vec![95, 295]));
        assert_eq!(row.token_event_choices, None);
        assert_eq!(row.finish_reasons, Some(vec!["stop".to_owned()]));
        assert_eq!(
            (row.enforcement.as_str(), row.output_tokens_asked),
            ("enforce", Some(4))
        );
    }

    #[test]
    fn without_a_connection_the_end_counts_from_the_release() {
        let zero = Instant::now();
        let release = Release {
            index: 0,
            ready_us: 0,
        };
        let failure = Some(Failure::Connect("refused".into()));
        let answer = Exchanged {
            request_end_us: None,
            ..exchanged(zero + Duration::from_micros(30), failure, Outcome::Error)
        };
        let row = sent(&planned(), release, zero, answer, Clock::starting_at(zero));
        assert_eq!((row.sent_us, row.connect_us), (Some(0), None));
        assert_eq!((row.request_end_us, row.end_us), (None, Some(430)));
    }

    #[test]
    fn every_row_is_on_exactly_one_line_of_the_account() {
        let zero = Instant::now();
        let clock = Clock::starting_at(zero);
        let release = Release {
            index: 0,
            ready_us: 0,
        };
        let refused = Some(Failure::Connect("refused".into()));
        let rows = [
            sent(
                &planned(),
                release,
                zero,
                exchanged(zero, None, Outcome::Complete),
                clock,
            ),
            sent(
                &planned(),
                release,
                zero,
                exchanged(zero, None, Outcome::Error),
                clock,
            ),
            sent(
                &planned(),
                release,
                zero,
                exchanged(zero, refused, Outcome::Error),
                clock,
            ),
            withdrawn(&planned(), "stopped"),
        ];
        let account = account(&rows);
        assert!(account.balances());
        assert_eq!((account.due, account.sent, account.answered), (4, 3, 1));
        assert_eq!((account.failed["connect"], account.failed["error"]), (1, 1));
        assert_eq!(account.not_sent["stopped"], 1);
    }
}
