//! Stage 6: chosen rows become turns with a place in time.
//!
//! `recorded`: a turn keeps its offset from the first arrival of the *source*, not of the set, so
//! that a quiet beginning stays quiet. `shape`: starts of sessions move to where the source's bursts
//! are, each as much smaller as the set is. `stress`: several samples at once, where they were. Only
//! whole sessions move; think times are never scaled. What each promises is checked and told.

use super::Prepared;
use super::row::{Params, Row};
use super::select::Selected;
use super::sessionize::Link;
use crate::error::Error;
use crate::recipe::{Arrange, RATE_SHAPE, RATE_STRESS};
use place::Placed;
use promise::Arrivals;
use std::collections::HashMap;
use truetape_schemas::set::Turn;
use truetape_schemas::set::manifest::Arrangement;

mod place;
mod promise;

/// Turns, and the rows they come from.
#[derive(Debug, Default)]
pub(crate) struct Arranged {
    /// The turns, in the order of the set.
    pub(crate) turns: Vec<Turn>,
    /// The row of each turn.
    pub(crate) rows: Vec<usize>,
    /// How they were placed, for the manifest.
    pub(crate) told: Arrangement,
    /// Things a user should know.
    pub(crate) findings: Vec<String>,
}

/// Makes turns of the rows whose sessions were taken.
pub(crate) fn arrange(
    prepared: &Prepared,
    selected: &Selected,
    recipe: &Arrange,
) -> Result<Arranged, Error> {
    let config = |problem: String| Error::config("recipe", problem);
    let idle_max_us = recipe.idle_max_us().map_err(config)?;
    let population = &prepared.population;
    let taken = &selected.taken;
    let mut placed = if recipe.rate == RATE_SHAPE {
        place::shape(population, taken)
    } else {
        place::recorded(population)
    };
    if let Some(idle_max_us) = idle_max_us {
        placed = place::cut_idle(population, taken, idle_max_us, placed);
    }
    let (rows, turns) = turns(prepared, taken, &placed);
    let mut told = Arrangement {
        rate: recipe.rate.clone(),
        copies: recipe.copies,
        lead_in_us: selected.lead_in_us,
        idle_max_us,
        idle_cut_us: placed.idle_cut_us,
        ..Arrangement::default()
    };
    let measured_from_us = selected.start_us.saturating_add(told.lead_in_us);
    let leads = |turn: &&Turn| told.lead_in_us > 0 && turn.start_us < measured_from_us;
    told.lead_in_turns = turns.iter().filter(leads).count() as u64;
    told.invariants = promises(prepared, selected, recipe, &rows, &turns);
    let findings = findings(&told, turns.len());
    Ok(Arranged {
        turns,
        rows,
        told,
        findings,
    })
}

fn promises(
    prepared: &Prepared,
    selected: &Selected,
    recipe: &Arrange,
    rows: &[usize],
    turns: &[Turn],
) -> Vec<truetape_schemas::set::manifest::Invariant> {
    let mut promises = vec![promise::pauses(changed_pauses(prepared, rows, turns))];
    let Some(share) = selected.share else {
        return promises;
    };
    let arrivals = Arrivals {
        source: &prepared.population,
        set: turns.iter().map(|turn| turn.start_us).collect(),
        share,
    };
    // Where time was cut out, nothing is where the source has it.
    let is_cut = recipe.idle_max.is_some();
    if recipe.rate == RATE_SHAPE && !is_cut {
        let starts = turns
            .iter()
            .filter(|turn| turn.turn == 1 && turn.parent.is_none());
        let starts: Vec<i64> = starts.map(|turn| turn.start_us).collect();
        promises.extend(arrivals.shape(&starts));
    } else if !is_cut && selected.rate_share.is_none() {
        promises.extend(arrivals.thinned());
    }
    if recipe.rate == RATE_STRESS {
        let one = share / f64::from(recipe.copies.max(1));
        promises.extend(arrivals.stress(one, recipe.copies, selected.told.share_got));
    }
    promises
}

fn findings(told: &Arrangement, turns: usize) -> Vec<String> {
    let seconds = |us: i64| us as f64 / 1e6;
    let mut findings = Vec::new();
    if told.idle_cut_us > 0 {
        findings.push(format!(
            "{:.1} s in which no session was there were cut out: such stretches last {:.1} s at most",
            seconds(told.idle_cut_us),
            seconds(told.idle_max_us.unwrap_or(0))
        ));
    }
    if told.lead_in_us > 0 {
        findings.push(format!(
            "the first {:.1} s ({} of {turns} turns) are a lead-in that fills the cache: what they \
             measure is not production",
            seconds(told.lead_in_us),
            told.lead_in_turns
        ));
    }
    for broken in told
        .invariants
        .iter()
        .filter(|told| told.holds == Some(false))
    {
        let shown =
            |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.3}"));
        findings.push(format!(
            "{}: {} where {} was promised",
            broken.name,
            shown(broken.got),
            shown(broken.wanted)
        ));
    }
    findings
}

/// Turns whose distance to the first of their session is not what it was.
fn changed_pauses(prepared: &Prepared, rows: &[usize], turns: &[Turn]) -> usize {
    let links = &prepared.sessions.links;
    let mut moved: Vec<Option<i64>> = vec![None; prepared.sessions.names.len()];
    let mut changed = 0;
    let zero = prepared.ingested.rows.first().map_or(0, |row| row.arrival);
    for (at, turn) in rows.iter().zip(turns) {
        let (Some(row), Some(link)) = (prepared.ingested.rows.get(*at), links.get(*at)) else {
            continue;
        };
        let shift = turn.start_us - row.arrival.saturating_sub(zero);
        if let Some(first) = moved.get_mut(link.session as usize) {
            changed += usize::from(*first.get_or_insert(shift) != shift);
        }
    }
    changed
}

/// The chosen rows in the order of the set, and the turns they become.
fn turns(prepared: &Prepared, taken: &[bool], placed: &Placed) -> (Vec<usize>, Vec<Turn>) {
    let (rows, sessions) = (&prepared.ingested.rows, &prepared.sessions);
    let zero = rows.first().map_or(0, |row| row.arrival);
    let start_us = |at: usize| {
        let (row, link) = (rows.get(at)?, sessions.links.get(at)?);
        let shift = placed.shift_us.get(link.session as usize)?;
        Some(row.arrival.saturating_sub(zero).saturating_add(*shift))
    };
    let links = sessions.links.iter().enumerate();
    let is_taken = |session: u32| taken.get(session as usize) == Some(&true);
    let mut chosen: Vec<usize> = links
        .filter(|(_, link)| is_taken(link.session))
        .map(|(at, _)| at)
        .collect();
    // Rows are in the canonical order already; those that start together keep it.
    chosen.sort_by_key(|at| start_us(*at));
    let mut ids = vec![None; rows.len()];
    for (id, at) in (0_i64..).zip(&chosen) {
        if let Some(slot) = ids.get_mut(*at) {
            *slot = Some(id);
        }
    }
    let mut conns: HashMap<_, i64> = HashMap::new();
    let turns = chosen.iter().filter_map(|at| {
        let (row, link) = (rows.get(*at)?, sessions.links.get(*at)?);
        let name = sessions.names.get(link.session as usize)?;
        let id = |at: Option<usize>| ids.get(at?).copied().flatten();
        let next = i64::try_from(conns.len()).ok()?;
        let conn = row.conn.as_ref();
        let conn = conn.map(|conn| *conns.entry(conn).or_insert(next));
        Some(Turn {
            recorded_conn: conn,
            turn_id: id(Some(*at))?,
            session: name.clone(),
            turn: link.depth,
            parent: id(link.parent),
            depends_on: waits_for(link).filter_map(|at| id(Some(at))).collect(),
            start_us: start_us(*at)?,
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
    let turns = turns.collect();
    (chosen, turns)
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
        recorded_token_events: row.token_events,
        recorded_conn_seq: row.conn.is_some().then_some(row.conn_seq),
        exchange_id: row.exchange_id.clone(),
        proxy_id: row.proxy_id.to_string(),
        upstream: row.upstream.to_string(),
        ..Turn::default()
    }
}
