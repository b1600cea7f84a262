//! The set and what was sent of it, as two populations.

use super::{Asked, Log};
use crate::latency::{answered, is_left_out};
use crate::population::{Population, PopulationTurn};
use crate::simulated::TURNS_MAX;
use std::collections::HashMap;
use truetape_schemas::capture::Outcome;
use truetape_schemas::run::Dispatch;
use truetape_schemas::set::Turn;

impl Log<'_> {
    /// What was to be sent, and what was.
    ///
    /// A turn counts as sent when it would have gone out had the target answered as production did:
    /// what the target's own slowness moved is a result, and no distortion. An exchange that failed is
    /// not there: what it cost the target nobody knows. Of a long set only as many turns as can be
    /// simulated are copied, from the middle of what was due.
    pub(in crate::grade) fn populations(&self) -> (Population, Population) {
        let asked = Asked::of(self);
        let by_due = asked.rate.is_some() && asked.control.is_none();
        let mut sessions: HashMap<&str, u32> = HashMap::new();
        for turn in self.turns {
            let next = u32::try_from(sessions.len()).unwrap_or(u32::MAX);
            sessions.entry(turn.session.as_str()).or_insert(next);
        }
        let of = |turn: &Turn| sessions.get(turn.session.as_str()).copied().unwrap_or(0);
        let due = |dispatch: &Dispatch, turn: &Turn| {
            if by_due {
                dispatch.due_us
            } else {
                turn.start_us
            }
        };
        // The target's own latencies tell how fast it is, where they do.
        let ended = |dispatch: &Dispatch, turn: &Turn| {
            let e2el_us = dispatch.last_token_us.or(turn.recorded_end_us)?;
            due(dispatch, turn).checked_add(e2el_us)
        };
        let mut rows = self.comparable();
        rows.sort_by_key(|(dispatch, turn)| due(dispatch, turn));
        let beyond = rows.len().saturating_sub(TURNS_MAX);
        let rows: Vec<_> = rows.into_iter().skip(beyond / 2).take(TURNS_MAX).collect();
        let wanted = rows.iter();
        let wanted = wanted.map(|(dispatch, turn)| PopulationTurn {
            session: of(turn),
            arrival_us: due(dispatch, turn),
            end_us: ended(dispatch, turn),
            input_tokens: count(turn.input_tokens),
            output_tokens: count(dispatch.output_tokens_asked.or(turn.output_tokens)),
            blocks: turn.block_hashes.clone().unwrap_or_default(),
            ..PopulationTurn::default()
        });
        let found = rows.iter().filter(|(dispatch, _)| answered(dispatch));
        let found = found.filter_map(|(dispatch, turn)| {
            let sent_us = dispatch.sent_us?;
            let pushed_us = dispatch.session_delay_us.unwrap_or(0).max(0);
            Some(PopulationTurn {
                session: of(turn),
                arrival_us: sent_us.saturating_sub(pushed_us),
                input_tokens: count(dispatch.input_tokens).or(count(turn.input_tokens)),
                output_tokens: count(dispatch.output_tokens),
                blocks: turn.block_hashes.clone().unwrap_or_default(),
                ..PopulationTurn::default()
            })
        });
        let population = |mut turns: Vec<PopulationTurn>| {
            turns.sort_by_key(|turn| turn.arrival_us);
            Population {
                turns,
                sessions: u32::try_from(sessions.len()).unwrap_or(u32::MAX),
                block_tokens: self.manifest.block_tokens,
                ..Population::default()
            }
        };
        (population(wanted.collect()), population(found.collect()))
    }

    /// Turns that the run was asked for and that production answered.
    pub(in crate::grade) fn comparable(&self) -> Vec<(&Dispatch, &Turn)> {
        let rows = self.rows.iter().filter(|(dispatch, turn)| {
            !is_left_out(dispatch) && turn.recorded_outcome == Outcome::Complete
        });
        rows.copied().collect()
    }
}

fn count(value: Option<i64>) -> Option<u64> {
    value.and_then(|value| u64::try_from(value).ok())
}
