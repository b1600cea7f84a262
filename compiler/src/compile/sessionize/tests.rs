use super::super::row::{AnswerHash, Client, Extra, MessageHash, Names, Role, Text, row};
use super::*;
use truetape_schemas::capture::{Exchange, Outcome};

mod blocks;
mod changed;
mod property;
mod started;

/// A chat request, in a few words: messages separated by `|`, the system's begin with `S`.
#[derive(Clone, Debug, Default)]
struct Said<'a> {
    id: &'a str,
    client: Option<&'a str>,
    recorder: u64,
    key: Option<&'a str>,
    start_ms: i64,
    end_ms: i64,
    messages: &'a str,
    answer: Option<&'a str>,
    failed: bool,
}

fn hash(text: &str) -> u64 {
    super::super::reading::hash(text.as_bytes())
}

/// The system's messages begin with `S`, the model's with `a`, those of tools with `t`.
fn message(text: &str) -> MessageHash {
    let role = match text.chars().next() {
        Some('S') => Role::System,
        Some('a') => Role::Assistant,
        Some('t') => Role::Other,
        _ => Role::User,
    };
    let loose: String = text.chars().filter(|c| !c.is_ascii_digit()).collect();
    MessageHash {
        hash: hash(text),
        loose: hash(&loose),
        bytes: u32::try_from(text.len()).unwrap(),
        role,
    }
}

fn answer(text: &str) -> AnswerHash {
    let MessageHash {
        hash, loose, bytes, ..
    } = message(text);
    AnswerHash {
        hash,
        loose,
        bytes,
        first: None,
    }
}

fn rows(said: &[Said<'_>]) -> Vec<Row> {
    let mut names = Names::default();
    let mut rows: Vec<Row> = said
        .iter()
        .map(|said| {
            let text = Text {
                messages: said.messages.split('|').map(message).collect(),
                answer: said.answer.map(answer),
                rendered_bytes: said.messages.len() as u64,
                ..Text::default()
            };
            let exchange = Exchange {
                exchange_id: said.id.to_owned(),
                arrival: said.start_ms * 1_000,
                end_us: Some((said.end_ms - said.start_ms) * 1_000),
                dialect: "openai_chat".to_owned(),
                session_key: said.key.map(str::to_owned),
                outcome: if said.failed {
                    Outcome::Error
                } else {
                    Outcome::Complete
                },
                ..Exchange::default()
            };
            let client = said.client.map(|client| Client {
                recorder: Some(said.recorder),
                name: hash(client),
            });
            row(
                exchange,
                Extra {
                    text: Some(text),
                    client,
                    retry_count: 0,
                },
                0,
                &mut names,
            )
        })
        .collect();
    rows.sort_by(|a, b| a.order().cmp(&b.order()));
    rows
}

/// `id <- parent`, with depth and kind where they are not ordinary.
fn tree(said: &[Said<'_>]) -> Vec<String> {
    let rows = rows(said);
    let sessions = sessionize(&rows, &Secret([0; 32]));
    let id = |at: usize| rows[at].exchange_id.clone();
    let line = |(at, link): (usize, &Link)| {
        let parent = link.parent.map_or("-".to_owned(), id);
        let retry = link
            .retry_of
            .map_or(String::new(), |of| format!(" retry of {}", id(of)));
        format!(
            "{} <- {parent} depth {} session {}{retry}",
            id(at),
            link.depth,
            link.session
        )
    };
    sessions.links.iter().enumerate().map(line).collect()
}

#[test]
fn a_retry_is_an_arrival_and_not_a_turn() {
    let k1 = Said {
        client: Some("k1"),
        ..Said::default()
    };
    let said = [
        Said {
            id: "1",
            end_ms: 12,
            messages: "retry me",
            failed: true,
            ..k1.clone()
        },
        Said {
            id: "2",
            start_ms: 520,
            end_ms: 1_900,
            messages: "retry me",
            answer: Some("fine"),
            ..k1.clone()
        },
        Said {
            id: "3",
            start_ms: 3_000,
            end_ms: 33_000,
            messages: "retry me|fine|more",
            failed: true,
            ..k1.clone()
        },
        Said {
            id: "4",
            start_ms: 33_100,
            end_ms: 34_000,
            messages: "retry me|fine|more",
            answer: Some("x"),
            ..k1.clone()
        },
        Said {
            id: "5",
            client: Some("k2"),
            start_ms: 40_000,
            end_ms: 40_900,
            messages: "retry me",
            answer: Some("fine"),
            ..Said::default()
        },
    ];
    assert_eq!(
        tree(&said),
        [
            "1 <- - depth 1 session 0",
            "2 <- - depth 1 session 0 retry of 1",
            "3 <- 2 depth 2 session 0",
            "4 <- 2 depth 2 session 0 retry of 3",
            "5 <- - depth 1 session 1",
        ]
    );
}

#[test]
fn names_of_callers_by_two_recorders_are_not_told_apart() {
    let said = |recorder| {
        [
            Said {
                id: "1",
                client: Some("k1"),
                end_ms: 12,
                messages: "ask",
                failed: true,
                ..Said::default()
            },
            Said {
                id: "2",
                client: Some("k2"),
                recorder,
                start_ms: 500,
                end_ms: 900,
                messages: "ask",
                ..Said::default()
            },
            Said {
                id: "3",
                client: Some("k3"),
                recorder: recorder * 2,
                start_ms: 3_000,
                end_ms: 4_000,
                messages: "ask|said|more",
                ..Said::default()
            },
        ]
    };
    let apart = ["1", "2", "3"].map(|id| format!("{id} <- - depth 1 session"));
    for (line, start) in tree(&said(0)).iter().zip(apart) {
        assert!(line.starts_with(&start), "{line}");
    }
    assert_eq!(
        tree(&said(1)),
        [
            "1 <- - depth 1 session 0",
            "2 <- - depth 1 session 0 retry of 1",
            "3 <- 2 depth 2 session 0",
        ]
    );
}

#[test]
fn an_edited_message_makes_a_branch_whatever_ended_first() {
    let k1 = Said {
        client: Some("k1"),
        ..Said::default()
    };
    let said = [
        Said {
            id: "r1",
            end_ms: 8,
            messages: "S|u1",
            answer: Some("a1"),
            ..k1.clone()
        },
        Said {
            id: "r3",
            start_ms: 20,
            end_ms: 40,
            messages: "S|u1|a1|u2 edited",
            answer: Some("a2b"),
            ..k1.clone()
        },
        Said {
            id: "r2",
            start_ms: 10,
            end_ms: 90,
            messages: "S|u1|a1|u2",
            answer: Some("a2"),
            ..k1.clone()
        },
        Said {
            id: "r4",
            start_ms: 100,
            end_ms: 120,
            messages: "S|u1|a1|u2|a2|u3",
            answer: Some("a3"),
            ..k1.clone()
        },
    ];
    assert_eq!(
        tree(&said),
        [
            "r1 <- - depth 1 session 0",
            "r2 <- r1 depth 2 session 0",
            "r3 <- r1 depth 2 session 0",
            "r4 <- r2 depth 3 session 0",
        ]
    );
}

#[test]
fn a_shared_system_prompt_ties_nobody_together() {
    let said = [
        Said {
            id: "1",
            end_ms: 1,
            messages: "S",
            ..Said::default()
        },
        Said {
            id: "2",
            start_ms: 5,
            end_ms: 6,
            messages: "S|u1",
            answer: Some("a1"),
            ..Said::default()
        },
        Said {
            id: "3",
            start_ms: 7,
            end_ms: 8,
            messages: "S|u2",
            answer: Some("a2"),
            ..Said::default()
        },
    ];
    let roots = tree(&said)
        .iter()
        .filter(|line| line.contains("<- - depth 1"))
        .count();
    assert_eq!(roots, 3);
}

#[test]
fn a_value_that_changes_in_the_system_prompt_does_not_hide_a_conversation() {
    let said = [
        Said {
            id: "1",
            end_ms: 1,
            messages: "S nonce a|u1",
            answer: Some("a1"),
            ..Said::default()
        },
        Said {
            id: "2",
            start_ms: 5,
            end_ms: 6,
            messages: "S nonce b|u1|a1|u2",
            ..Said::default()
        },
    ];
    assert_eq!(tree(&said)[1], "2 <- 1 depth 2 session 0");
}

#[test]
fn the_answer_tells_two_who_asked_the_same() {
    let said = [
        Said {
            id: "1",
            end_ms: 3,
            messages: "hello there",
            answer: Some("a"),
            ..Said::default()
        },
        Said {
            id: "2",
            start_ms: 1,
            end_ms: 4,
            messages: "hello there",
            answer: Some("b"),
            ..Said::default()
        },
        Said {
            id: "3",
            start_ms: 5,
            end_ms: 6,
            messages: "hello there|a|go on",
            ..Said::default()
        },
    ];
    assert_eq!(tree(&said)[2], "3 <- 1 depth 2 session 0");
}

#[test]
fn a_session_that_the_client_named_stays_one_session() {
    let k = Said {
        key: Some("k"),
        ..Said::default()
    };
    let said = [
        Said {
            id: "1",
            end_ms: 3,
            messages: "u1",
            answer: Some("a1"),
            ..k.clone()
        },
        Said {
            id: "2",
            start_ms: 4,
            end_ms: 9,
            messages: "summary|u2",
            ..k.clone()
        },
        Said {
            id: "3",
            start_ms: 5,
            end_ms: 6,
            messages: "u1|a1|u2",
            ..Said::default()
        },
    ];
    let rows = rows(&said);
    let sessions = sessionize(&rows, &Secret([0; 32]));
    assert_eq!(
        sessions.names,
        ["k"],
        "a request without a key joins the session it continues"
    );
    assert_eq!(
        sessions.links[1].parent, None,
        "history was rewritten: nothing shows a parent"
    );
    assert_eq!(
        sessions.links[1].depends_on,
        Some(0),
        "but its own client waited for it"
    );
    assert_eq!(sessions.links[2].parent, Some(0));
}

#[test]
fn a_child_that_was_sent_before_its_parent_ended_does_not_wait_for_it() {
    let said = [
        Said {
            id: "1",
            end_ms: 30,
            messages: "u1",
            ..Said::default()
        },
        Said {
            id: "2",
            start_ms: 10,
            end_ms: 40,
            messages: "u1|u2",
            ..Said::default()
        },
    ];
    let links = sessionize(&rows(&said), &Secret([0; 32])).links;
    assert_eq!((links[1].parent, links[1].depends_on), (Some(0), None));
}
