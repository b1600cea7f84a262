//! Rows as the measures see them.

use super::row::Row;
use super::sessionize::Sessions;
use truetape_fidelity::population::{Population, PopulationTurn};

/// The population of all rows, in the same order. Times count from the first arrival.
///
/// The blocks move here from the rows: they are most of what a source weighs.
pub(crate) fn of_rows(
    rows: &mut [Row],
    sessions: &Sessions,
    block_tokens: Option<u32>,
    clock_resolution_us: Option<i64>,
) -> Population {
    let zero = rows.first().map_or(0, |row| row.arrival);
    let turns = rows
        .iter_mut()
        .zip(&sessions.links)
        .map(|(row, link)| PopulationTurn {
            session: link.session,
            arrival_us: row.arrival.saturating_sub(zero),
            end_us: row.end().map(|end| end.saturating_sub(zero)),
            input_tokens: count(row.input_tokens),
            output_tokens: count(row.output_tokens),
            cached_tokens: count(row.cached_tokens),
            blocks: looked_up(row),
        });
    Population {
        turns: turns.collect(),
        sessions: u32::try_from(sessions.names.len()).unwrap_or(u32::MAX),
        block_tokens,
        clock_resolution_us,
    }
}

/// The blocks that a turn asked the cache for: none where the server turned it away.
fn looked_up(row: &mut Row) -> Vec<u64> {
    let blocks = std::mem::take(&mut row.blocks);
    if row.refused() { Vec::new() } else { blocks }
}

fn count(tokens: Option<i64>) -> Option<u64> {
    tokens.and_then(|tokens| u64::try_from(tokens).ok())
}
