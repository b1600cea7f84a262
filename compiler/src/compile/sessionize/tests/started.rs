//! Conversations that are started from another: sub-agents, summaries, agents that talk.

use super::super::super::row::{End, PromptChain, Row, Text};
use super::super::{Link, Secret, sessionize};
use super::{Said, rows};
use truetape_schemas::set::TurnKind;

fn linked(rows: &[Row]) -> (Vec<Link>, Vec<String>) {
    let sessions = sessionize(rows, &Secret([0; 32]));
    (sessions.links, sessions.names)
}

fn of<'a>(id: &'a str, key: &'a str, start_ms: i64, end_ms: i64, messages: &'a str) -> Said<'a> {
    Said {
        id,
        key: Some(key),
        start_ms,
        end_ms,
        messages,
        answer: Some("a1"),
        ..Said::default()
    }
}

#[test]
fn parallel_sub_agents_are_part_of_the_session_and_their_end_is_waited_for() {
    let mut rows = rows(&[
        of("1", "s", 0, 10, "S|u1"),
        of("2", "s/x", 11, 40, "S agent|u task"),
        of("3", "s/y", 12, 30, "S agent|u other task"),
        of("4", "s/y", 31, 35, "S agent|u other task|a1|t more"),
        of("5", "s", 50, 60, "S|u1|a1|t done"),
    ]);
    let parent = rows[0].session_key.clone();
    for row in &mut rows[1..4] {
        row.parent_session_key.clone_from(&parent);
    }
    let (links, names) = linked(&rows);
    assert_eq!(names, ["s"], "one session, whatever agents are in it");
    let spawned: Vec<_> = links.iter().map(|link| link.spawned_by).collect();
    assert_eq!(spawned, [None, Some(0), Some(0), None, None]);
    assert_eq!(
        links[3].parent,
        Some(2),
        "an agent has a history of its own"
    );
    assert_eq!(links[1].depends_on, Some(0));
    assert_eq!((links[4].parent, links[4].depth), (Some(0), 2));
    assert_eq!(
        links[4].joins,
        [1, 3],
        "the parent goes on when both are done"
    );
}

#[test]
fn an_agent_that_outlives_the_turn_is_not_waited_for() {
    let mut rows = rows(&[
        of("1", "s", 0, 10, "S|u1"),
        of("2", "s/x", 11, 90, "S agent|u task"),
        of("3", "s", 50, 60, "S|u1|a1|t done"),
    ]);
    rows[1].parent_session_key = rows[0].session_key.clone();
    let (links, _) = linked(&rows);
    assert!(links[2].joins.is_empty());
}

/// Rows without a session, where the first says something and the second begins with it.
fn told(messages: [&str; 2]) -> Vec<Row> {
    let [first, second] = messages;
    let mut rows = rows(&[
        Said {
            id: "1",
            end_ms: 10,
            messages: first,
            answer: Some("a1"),
            ..Said::default()
        },
        Said {
            id: "2",
            start_ms: 20,
            end_ms: 30,
            messages: second,
            ..Said::default()
        },
    ]);
    text(&mut rows[0]).said = [7].into();
    text(&mut rows[1]).heard = [5, 7].into();
    rows
}

fn text(row: &mut Row) -> &mut Text {
    row.text.as_mut().unwrap()
}

#[test]
fn a_conversation_that_begins_with_what_a_turn_said_was_started_by_it() {
    let (links, names) = linked(&told(["S|u1", "S agent|u task"]));
    assert_eq!((links[1].parent, links[1].spawned_by), (None, Some(0)));
    assert_eq!((links[1].depth, names.len()), (1, 1));
    assert_eq!(links[1].evidence.unwrap().name(), "spawned");
}

#[test]
fn a_short_conversation_that_begins_with_what_a_long_one_said_sums_it_up() {
    let mut rows = told(["S|u1|a1|u2|a2|u please sum up", "S|u summary"]);
    text(&mut rows[0]).rendered_bytes = 1_000;
    text(&mut rows[1]).rendered_bytes = 300;
    let (links, _) = linked(&rows);
    assert_eq!((links[1].parent, links[1].spawned_by), (Some(0), None));
    assert_eq!(links[1].evidence.unwrap().name(), "compacted");
}

#[test]
fn what_two_conversations_said_starts_none() {
    let mut rows = told(["S|u1", "S agent|u task"]);
    let mut other = rows[0].clone();
    other.exchange_id = "0".to_owned();
    text(&mut other).messages = [super::message("u else")].into();
    rows.insert(0, other);
    let (links, names) = linked(&rows);
    assert_eq!((links[2].spawned_by, names.len()), (None, 3));
}

/// A prompt that is one text: one letter a paragraph, and what it was answered.
fn prompt(id: &str, start_ms: i64, paragraphs: &str, answer: Option<&str>) -> Row {
    let said = Said {
        id,
        start_ms,
        end_ms: start_ms + 1,
        messages: paragraphs,
        ..Said::default()
    };
    let mut row = rows(&[said]).remove(0);
    let hash = |letter: char| u64::from(letter);
    let mut chain = 0;
    let mut ends = Vec::new();
    for letter in paragraphs.chars() {
        if chain != 0 {
            ends.push(End {
                chain,
                next: hash(letter),
            });
        }
        chain = super::super::messages::step(chain, hash(letter));
    }
    row.dialect = truetape_schemas::wire::Dialect::OpenaiCompletions;
    let last = hash(paragraphs.chars().next_back().unwrap());
    let letters = |text: &str| {
        text.chars()
            .map(hash)
            .collect::<Vec<_>>()
            .into_boxed_slice()
    };
    let new = text(&mut row);
    new.rendered_bytes = 40;
    new.prompt = Some(Box::new(PromptChain {
        full: chain,
        last,
        ends: ends.into(),
    }));
    new.heard = letters(paragraphs);
    new.said = letters(answer.unwrap_or_default());
    row
}

#[test]
fn agents_that_talk_in_short_prompts_are_told_by_each_others_words() {
    // Two pairs that begin with the same words: g is the greeting of all.
    let rows = [
        prompt("1", 0, "g", Some("A")),
        prompt("2", 1, "g", Some("B")),
        prompt("3", 10, "A", Some("c")),
        prompt("4", 11, "B", Some("d")),
        prompt("5", 20, "gc", Some("E")),
        prompt("6", 21, "gd", Some("F")),
        prompt("7", 30, "AE", None),
        prompt("8", 31, "A", None),
    ];
    let (links, names) = linked(&rows);
    let sessions: Vec<u32> = links.iter().map(|link| link.session).collect();
    assert_eq!(sessions, [0, 1, 0, 1, 0, 1, 0, 0]);
    assert_eq!(names.len(), 2);
    assert_eq!((links[4].parent, links[5].parent), (Some(0), Some(1)));
    assert_eq!(links[7].parent, None, "the same again, not a turn after it");
    assert_eq!((links[7].beside, links[7].kind), (Some(2), TurnKind::Turn));
}

#[test]
fn a_short_prompt_that_another_begins_with_is_anybodys() {
    let rows = [
        prompt("1", 0, "g", None),
        prompt("2", 10, "gx", None),
        prompt("3", 20, "g", None),
    ];
    let (links, names) = linked(&rows);
    assert!(links.iter().all(|link| link.parent.is_none()));
    assert_eq!(names.len(), 3);
}
