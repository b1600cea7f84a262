//! Whatever clients do to their histories, strangers stay strangers.

use super::super::super::row::Row;
use super::super::{Secret, sessionize};
use super::{Said, rows};
use proptest::prelude::*;

/// What a client does before its next request.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Goes on.
    GoOn,
    /// Forgets its oldest two messages, and goes on.
    Slide,
    /// Takes back its last question, and asks another.
    Edit,
    /// Writes another date into the system prompt, and goes on.
    Date,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::GoOn),
        2 => Just(Step::Slide),
        1 => Just(Step::Edit),
        1 => Just(Step::Date),
    ]
}

/// One conversation: its requests with the answer that each got. All ask the same first.
fn hold(name: usize, steps: &[Step]) -> Vec<(String, String)> {
    // A name of letters: numbers are what the loosest reading leaves out.
    let name = "x".repeat(name + 1);
    let mut system = "S of all".to_owned();
    let mut messages = vec!["u of all".to_owned()];
    let mut requests = Vec::new();
    for (turn, step) in steps.iter().enumerate() {
        let answer = format!(
            "a of {name} at {turn}: in so many words that nobody else would say it like this"
        );
        requests.push((format!("{system}|{}", messages.join("|")), answer.clone()));
        let question = format!("u of {name} after {turn}");
        match step {
            Step::Edit if messages.len() > 1 => {
                messages.pop();
            }
            _ => messages.push(answer),
        }
        messages.push(question);
        match step {
            Step::Slide if messages.len() > 4 => {
                messages.drain(..2);
            }
            Step::Date => system = format!("S of all, today is {turn}"),
            _ => {}
        }
    }
    requests
}

/// All conversations at once, a request each in turn.
fn traffic(talks: &[Vec<Step>]) -> Vec<Row> {
    let held: Vec<_> = talks
        .iter()
        .enumerate()
        .map(|(name, steps)| hold(name, steps))
        .collect();
    let longest = held.iter().map(Vec::len).max().unwrap_or(0);
    let mut ids = Vec::new();
    for turn in 0..longest {
        for (name, requests) in held.iter().enumerate() {
            if let Some(request) = requests.get(turn) {
                ids.push((
                    format!("{name:02}-{turn:02}"),
                    ids.len() as i64 * 10,
                    request,
                ));
            }
        }
    }
    let said: Vec<Said<'_>> = ids
        .iter()
        .map(|(id, start_ms, (messages, answer))| Said {
            id,
            start_ms: *start_ms,
            end_ms: start_ms + 5,
            messages,
            answer: Some(answer),
            ..Said::default()
        })
        .collect();
    rows(&said)
}

fn talk_of(row: &Row) -> &str {
    row.exchange_id.split('-').next().unwrap()
}

proptest! {
    #[test]
    fn no_tie_joins_two_conversations_and_none_is_missed(
        talks in proptest::collection::vec(proptest::collection::vec(step(), 1..12), 1..5)
    ) {
        let rows = traffic(&talks);
        let sessions = sessionize(&rows, &Secret([0; 32]));
        for (at, (row, link)) in rows.iter().zip(&sessions.links).enumerate() {
            if let Some(parent) = link.tied_to() {
                prop_assert!(parent < at, "a parent comes first");
                prop_assert_eq!(talk_of(&rows[parent]), talk_of(row));
                prop_assert_eq!(sessions.links[parent].session, link.session);
            }
        }
        prop_assert_eq!(sessions.names.len(), talks.len());
    }

    #[test]
    fn any_rows_become_a_forest(talks in proptest::collection::vec(".{0,4}(\\|.{0,4}){0,3}", 0..12)) {
        let ids: Vec<String> = (0..talks.len()).map(|at| at.to_string()).collect();
        let said: Vec<Said<'_>> = talks
            .iter()
            .zip(&ids)
            .zip(0..)
            .map(|((messages, id), start_ms)| Said { id, start_ms, end_ms: start_ms, messages, ..Said::default() })
            .collect();
        let rows = rows(&said);
        let sessions = sessionize(&rows, &Secret([0; 32]));
        prop_assert_eq!(sessions.links.len(), rows.len());
        for (at, link) in sessions.links.iter().enumerate() {
            prop_assert!(link.tied_to().is_none_or(|to| to < at));
            prop_assert!((link.session as usize) < sessions.names.len());
            prop_assert!(link.depends_on.is_none_or(|on| on < at));
        }
    }
}
