//! Stage 7: chosen rows become turns with a place in time.
//!
//! `recorded`: a turn keeps its offset from the first arrival of the *source*, not of the set, so
//! that a quiet beginning stays quiet. Other rates will move the starts of sessions only; think
//! times are never scaled.

use super::Prepared;
use super::row::{Params, Row};
use super::sessionize::Link;
use truetape_schemas::set::Turn;

/// Turns, and the rows they come from.
#[derive(Debug)]
pub(crate) struct Arranged {
    /// The turns, in the order of the set.
    pub(crate) turns: Vec<Turn>,
    /// The row of each turn.
    pub(crate) rows: Vec<usize>,
}

/// Makes turns of the rows whose sessions were taken.
pub(crate) fn arrange(prepared: &Prepared, taken: &[bool]) -> Arranged {
    let (rows, sessions) = (&prepared.ingested.rows, &prepared.sessions);
    let chosen: Vec<usize> = sessions
        .links
        .iter()
        .enumerate()
        .filter(|(_, link)| taken.get(link.session as usize) == Some(&true))
        .map(|(at, _)| at)
        .collect();
    // Rows are in the canonical order already: by arrival, then as captured.
    let mut ids = vec![None; rows.len()];
    for (id, at) in (0_i64..).zip(&chosen) {
        if let Some(slot) = ids.get_mut(*at) {
            *slot = Some(id);
        }
    }
    let zero = rows.first().map_or(0, |row| row.arrival);
    let turns = chosen.iter().filter_map(|at| {
        let (row, link) = (rows.get(*at)?, sessions.links.get(*at)?);
        let name = sessions.names.get(link.session as usize)?;
        let id = |at: Option<usize>| ids.get(at?).copied().flatten();
        Some(Turn {
            turn_id: id(Some(*at))?,
            session: name.clone(),
            turn: link.depth,
            parent: id(link.parent),
            depends_on: waits_for(link).filter_map(|at| id(Some(at))).collect(),
            start_us: row.arrival.saturating_sub(zero),
            gap_us: gap_us(row, link, rows),
            kind: link.kind,
            retry_of: id(link.retry_of),
            link_evidence: link.evidence.map(|evidence| evidence.name().to_owned()),
            link_confidence: link.confidence,
            spawned_by: id(link.spawned_by),
            session_rule: session_rule(row, link),
            block_hashes: prepared.blocks(*at),
            ..turn(row)
        })
    });
    Arranged {
        turns: turns.collect(),
        rows: chosen,
    }
}

/// The rows that a turn waits for: its parent, and sub-agents that ended before it began.
fn waits_for(link: &Link) -> impl Iterator<Item = usize> {
    link.depends_on
        .into_iter()
        .chain(link.joins.iter().copied())
}

/// Think time: from the end of the last that the turn waited for to its own arrival.
fn gap_us(row: &Row, link: &Link, rows: &[Row]) -> Option<i64> {
    let ends: Option<Vec<i64>> = waits_for(link).map(|at| rows.get(at)?.end()).collect();
    let end = ends?.into_iter().max()?;
    Some(row.arrival.saturating_sub(end))
}

fn session_rule(row: &Row, link: &Link) -> String {
    match (&row.session_rule, link.evidence) {
        (Some(rule), _) if row.session_key.is_some() => rule.to_string(),
        (_, Some(evidence)) => evidence.name().to_owned(),
        (_, None) => "none".to_owned(),
    }
}

/// What a row says about its turn, whatever its session.
fn turn(row: &Row) -> Turn {
    let params = row.params.as_deref().cloned().unwrap_or_default();
    let Params {
        max_tokens,
        min_tokens,
        temperature,
        top_p,
        n,
        ..
    } = params;
    let Params {
        stop,
        ignore_eos,
        seed,
        response_format,
        tool_count,
        ..
    } = params;
    Turn {
        method: row.method.to_string(),
        path: row.path.to_string(),
        dialect: row.dialect.name().to_owned(),
        model: row.model.as_deref().map(str::to_owned),
        stream: row.stream,
        input_tokens: row.input_tokens,
        output_tokens: row.output_tokens,
        cached_tokens: row.cached_tokens,
        reasoning_tokens: row.reasoning_tokens,
        max_tokens,
        min_tokens,
        temperature,
        top_p,
        n,
        stop,
        ignore_eos,
        seed,
        response_format,
        tool_count,
        block_tokens: row.block_tokens.and_then(|n| i32::try_from(n).ok()),
        recorded_outcome: row.outcome,
        recorded_status: row.status,
        recorded_ttft_us: row.ttft_us,
        recorded_e2el_us: row.e2el_us,
        recorded_end_us: row.end_us,
        recorded_inflight: row.inflight,
        recorded_finish_reasons: row.finish_reasons.clone(),
        exchange_id: row.exchange_id.clone(),
        proxy_id: row.proxy_id.to_string(),
        upstream: row.upstream.to_string(),
        ..Turn::default()
    }
}
