//! Rows as the measures see them.

use super::row::{Client, Row};
use super::select::replicas;
use super::sessionize::Sessions;
use std::num::NonZeroU64;
use truetape_fidelity::facts::{Collector, Said};
use truetape_fidelity::mix::mix;
use truetape_fidelity::population::{Population, PopulationTurn};
use truetape_schemas::set::TurnKind;
use truetape_schemas::wire::Dialect;

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
    let mut facts = Collector::new();
    let mut replicas = replicas(rows).into_iter();
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
            facts: facts.add(&said(row, link.kind)),
            tenant: row.client.map(tenant),
            replica: replicas.next(),
            blocks: looked_up(row),
        });
    Population {
        turns: turns.collect(),
        sessions: u32::try_from(sessions.names.len()).unwrap_or(u32::MAX),
        block_tokens,
        clock_resolution_us,
        facts: facts.finish(),
    }
}

/// What a row says of itself.
fn said(row: &Row, kind: TurnKind) -> Said<'_> {
    let params = row.params.as_deref();
    let reasons = row.finish_reasons.as_ref();
    Said {
        model: row.model.as_deref(),
        dialect: row.dialect.name(),
        request: row.dialect != Dialect::Trace,
        stream: row.stream,
        tool_count: params.and_then(|params| params.tool_count),
        response_format: params.and_then(|params| params.response_format.as_deref()),
        temperature: params.and_then(|params| params.temperature),
        n: params.and_then(|params| params.n),
        max_tokens: params.and_then(|params| params.max_tokens),
        outcome: Some(row.outcome),
        status: row.status,
        finish: reasons
            .and_then(|reasons| reasons.first())
            .map(String::as_str),
        retry: Some(kind == TurnKind::Retry),
    }
}

/// A hash of who called. Keys were hashed by each recorder in its own way.
fn tenant(client: Client) -> NonZeroU64 {
    let hash = mix(client.name ^ client.recorder.map_or(0, mix));
    NonZeroU64::new(hash).unwrap_or(NonZeroU64::MIN)
}

/// The blocks that a turn asked the cache for: none where the server turned it away.
fn looked_up(row: &mut Row) -> Vec<u64> {
    let blocks = std::mem::take(&mut row.blocks);
    if row.refused() { Vec::new() } else { blocks }
}

fn count(tokens: Option<i64>) -> Option<u64> {
    tokens.and_then(|tokens| u64::try_from(tokens).ok())
}
