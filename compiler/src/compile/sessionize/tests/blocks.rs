//! Block chains, and calls beside a conversation.

use super::super::super::row::{Extra, Names, Params, Row, row};
use super::super::{Secret, sessionize};
use super::{Said, rows};
use truetape_schemas::capture::Exchange;
use truetape_schemas::set::TurnKind;

fn traced(id: &str, input: i64, blocks: &[u64], key: Option<&str>) -> Exchange {
    Exchange {
        exchange_id: id.to_owned(),
        dialect: "trace".to_owned(),
        input_tokens: Some(input),
        block_tokens: Some(10),
        block_hashes: Some(blocks.to_vec()),
        session_key: key.map(str::to_owned),
        ..Exchange::default()
    }
}

#[test]
fn a_prompt_continues_the_one_whose_full_blocks_it_begins_with() {
    let mut names = Names::default();
    let rows: Vec<Row> = [
        traced("1", 25, &[1, 2, 30], None),
        traced("2", 45, &[1, 2, 3, 4, 50], None),
        // Begins with both; the deeper one is its parent.
        traced("3", 60, &[1, 2, 3, 4, 5, 6], None),
        // Begins with the first only.
        traced("4", 29, &[1, 2, 7], None),
        traced("5", 9, &[8], None),
        // A prompt of less than a block has no full block to be known by.
        traced("6", 19, &[8, 9], None),
    ]
    .into_iter()
    .map(|exchange| row(exchange, Extra::default(), 0, &mut names))
    .collect();
    let sessions = sessionize(&rows, &Secret([0; 32]));
    let parents: Vec<_> = sessions.links.iter().map(|link| link.parent).collect();
    assert_eq!(parents, [None, Some(0), Some(1), Some(0), None, None]);
    assert_eq!(sessions.names.len(), 3);
}

#[test]
fn a_small_call_beside_a_conversation_is_marked_and_a_lone_one_is_not() {
    let small = |id, key, messages, start_ms| Said {
        id,
        key: Some(key),
        messages,
        start_ms,
        end_ms: start_ms + 1,
        ..Said::default()
    };
    let mut rows = rows(&[
        small("1", "a", "u1", 0),
        small("2", "a", "u1|a1|u2", 10),
        small("3", "a", "a title for this", 20),
        small("4", "b", "a title for that", 30),
    ]);
    for row in &mut rows {
        row.params = Some(Box::new(Params {
            max_tokens: Some(20),
            ..Default::default()
        }));
    }
    let links = sessionize(&rows, &Secret([0; 32])).links;
    let kinds: Vec<TurnKind> = links.iter().map(|link| link.kind).collect();
    use TurnKind::{Turn, Utility};
    assert_eq!(kinds, [Turn, Turn, Utility, Turn]);
}
