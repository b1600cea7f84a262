//! Whether the run asked for and got what it should: lengths of answers, cached tokens.

use super::Evidence;
use super::scatter::{Pair, Scatter};
use crate::latency::answered;
use crate::prefix::{hits_per_request, saved_tokens};
use std::collections::HashMap;
use truetape_schemas::run::Dispatch;
use truetape_schemas::set::Turn;

/// Lengths that were asked for, against those that came.
pub(super) fn lengths(evidence: &Evidence<'_>) -> Scatter {
    let pair = |dispatch: &Dispatch| {
        let miss = dispatch.length_miss.as_deref();
        Some(Pair {
            wanted: dispatch.output_tokens_asked? as f64,
            got: dispatch.output_tokens? as f64,
            says: format!("turn {}{}", dispatch.turn_id, said(miss)),
        })
    };
    let pairs: Vec<Pair> = evidence
        .due()
        .filter(|d| answered(d))
        .filter_map(pair)
        .collect();
    Scatter {
        id: "outputs",
        title: "Answers: tokens asked for against got",
        about: "Below the line an answer was shorter than production's, above it longer."
            .to_owned(),
        names: ["tokens asked for", "tokens got"],
        lacks: lacks(
            evidence,
            &pairs,
            "output tokens, as the target reported them",
        ),
        pairs,
    }
}

fn said(miss: Option<&str>) -> String {
    miss.map_or_else(String::new, |why| format!(", missed: {why}"))
}

/// Cached tokens that a cache without bound would have held, against those that the target reported.
pub(super) fn cached(evidence: &Evidence<'_>) -> Scatter {
    let pairs = pairs_of_cache(evidence).unwrap_or_default();
    Scatter {
        id: "cached",
        title: "Cached prompt tokens: expected against reported",
        about: "Expected is what a cache without bound would hold of the prompts sent before; a smaller \
                cache has less. More than that was cached by others, or is what the target generated."
            .to_owned(),
        names: ["cached tokens expected", "cached tokens reported"],
        lacks: lacks(
            evidence,
            &pairs,
            "cached tokens as the target reported them, or the set's blocks (--set, --store)",
        ),
        pairs,
    }
}

fn pairs_of_cache(evidence: &Evidence<'_>) -> Option<Vec<Pair>> {
    let set = evidence.set?;
    let block = u64::from(set.manifest.block_tokens?);
    let by_id: HashMap<i64, &Turn> = set.turns.iter().map(|turn| (turn.turn_id, turn)).collect();
    let mut sent: Vec<(&Dispatch, &Turn)> = evidence
        .due()
        .filter(|dispatch| dispatch.sent_us.is_some())
        .filter_map(|dispatch| Some((dispatch, *by_id.get(&dispatch.turn_id)?)))
        .collect();
    sent.sort_by_key(|(dispatch, _)| dispatch.sent_us);
    let blocks = |turn: &'_ Turn| turn.block_hashes.as_ref().map_or(0, Vec::len);
    if sent.iter().any(|(_, turn)| blocks(turn) == 0) {
        return None;
    }
    let hashes = sent
        .iter()
        .map(|(_, turn)| turn.block_hashes.as_deref().unwrap_or_default());
    let hits = hits_per_request(hashes, None);
    let pair = |(hits, (dispatch, turn)): (u32, &(&Dispatch, &Turn))| {
        let input = u64::try_from(turn.input_tokens?).ok()?;
        Some(Pair {
            wanted: saved_tokens(input, block, u64::from(hits)) as f64,
            got: dispatch.cached_tokens? as f64,
            says: format!("turn {} of {input} tokens", dispatch.turn_id),
        })
    };
    Some(hits.into_iter().zip(&sent).filter_map(pair).collect())
}

fn lacks(evidence: &Evidence<'_>, pairs: &[Pair], what: &str) -> Vec<String> {
    match (evidence.run, pairs) {
        (None, _) => vec!["a run".to_owned()],
        (Some(_), []) => vec![what.to_owned()],
        (Some(_), _) => Vec::new(),
    }
}
