//! Histories that are not what they were: cut, edited, summed up, written anew.

use super::super::{Secret, sessionize};
use super::{Said, rows};

/// `id <- parent by evidence`.
fn ties(said: &[Said<'_>]) -> Vec<String> {
    let rows = rows(said);
    let sessions = sessionize(&rows, &Secret([0; 32]));
    let id = |at: usize| rows[at].exchange_id.clone();
    let line = |(at, link): (usize, &super::super::Link)| {
        let parent = link.parent.map_or("-".to_owned(), id);
        let evidence = link.evidence.map_or("nothing", |evidence| evidence.name());
        format!("{} <- {parent} by {evidence}", id(at))
    };
    sessions.links.iter().enumerate().map(line).collect()
}

/// Long enough to be nobody else's.
const A1: &str =
    "a one: the first answer of this conversation, in so many words as it takes to be told";
const A2: &str =
    "a two: the second answer of this conversation, in so many words as it takes to be told";
const A3: &str = "a three: the third answer of this conversation, in so many words as it takes";

fn said<'a>(id: &'a str, start_ms: i64, messages: &'a str, answer: &'a str) -> Said<'a> {
    Said {
        id,
        start_ms,
        end_ms: start_ms + 5,
        messages,
        answer: Some(answer),
        ..Said::default()
    }
}

#[test]
fn a_window_that_slides_over_the_history_keeps_its_conversation() {
    let two = format!("S|u1|{A1}|u2");
    let three = format!("S|{A1}|u2|{A2}|u3");
    let four = format!("S|u3|{A3}|u4");
    let rows = [
        said("1", 0, "S|u1", A1),
        said("2", 10, &two, A2),
        said("3", 20, &three, A3),
        said("4", 30, &four, "a4"),
    ];
    assert_eq!(
        ties(&rows),
        [
            "1 <- - by nothing",
            "2 <- 1 by answer",
            "3 <- 2 by overlap",
            "4 <- 3 by overlap",
        ]
    );
}

#[test]
fn without_answers_the_messages_that_a_request_ended_with_tell_it() {
    let first = format!("S|u1|{A1}|t result of the call");
    let cut = format!("S|u1 (old results are left out)|{A1}|t result of the call|a more|t next");
    let mut rows = [said("1", 0, &first, ""), said("2", 10, &cut, "")];
    for row in &mut rows {
        row.answer = None;
    }
    assert_eq!(ties(&rows)[1], "2 <- 1 by overlap");
}

#[test]
fn an_example_that_all_prompts_begin_with_ties_nobody() {
    let ask = |question: &str| format!("S|u example|{A1}|{question}");
    let (one, two) = (ask("u what is this"), ask("u who was that"));
    let rows = [said("1", 0, &one, A2), said("2", 10, &two, A3)];
    assert_eq!(ties(&rows)[1], "2 <- - by nothing");
}

#[test]
fn another_caller_with_the_same_last_words_is_another_caller() {
    let first = format!("S|u1|{A1}|u2");
    let changed = format!("S changed|{A1}|u2|{A2}|u3");
    let mut rows = [said("1", 0, &first, A2), said("2", 10, &changed, A3)];
    rows[0].client = Some("k1");
    rows[1].client = Some("k2");
    assert_eq!(ties(&rows)[1], "2 <- - by nothing");
}

#[test]
fn new_ids_in_old_messages_do_not_hide_the_answer_that_follows() {
    let a =
        |id: u32| format!("a {id}: calls the tool that reads the file which the user asked for");
    let (first, again) = (a(1), a(77));
    let second = format!("S at 9:15|u1|{again}|t 77 result");
    let rows = [
        said("1", 0, "S at 8:00|u1", &first),
        said("2", 10, &second, "a"),
    ];
    assert_eq!(ties(&rows)[1], "2 <- 1 by answer");
    let other = "a 1: says something else that is long enough to be told from what anybody says";
    let rows = [
        said("1", 0, "S at 8:00|u1", other),
        said("2", 10, &second, "a"),
    ];
    assert_eq!(
        ties(&rows)[1],
        "2 <- - by nothing",
        "without its numbers, a question may be anybody's"
    );
}

#[test]
fn a_much_shorter_prompt_of_a_named_session_was_summed_up() {
    let long = format!("S|u1|{A1}|u2|{A2}|u3");
    let mut rows = [
        said("1", 0, &long, A3),
        said("2", 10, "S|summary|u4", "a"),
        said("3", 20, "S other|u for a title", "a"),
    ];
    for row in &mut rows {
        row.key = Some("k");
    }
    assert_eq!(
        ties(&rows),
        [
            "1 <- - by nothing",
            "2 <- 1 by compacted",
            "3 <- - by nothing",
        ]
    );
    rows.iter_mut().for_each(|row| row.key = None);
    assert_eq!(ties(&rows)[1], "2 <- - by nothing", "never by time alone");
}
