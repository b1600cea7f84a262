//! What was inferred against what is known.
//!
//! A request is *found* where it was put into a session with an earlier one. Precision is the share
//! of those whose earlier request is of the same session, recall the share of the requests that
//! are not the first of their session. Pairs compare whole sessions: two requests in one of them.
//! *Explained* is the share of their prompts, in bytes, that the request they were tied to begins
//! with too, or the best request of the session they were put into; *explainable* is what the best
//! request of the known session does. What only looks alike across sessions counts for nothing.

use crate::data::{Labelled, index};
use std::collections::{BTreeMap, HashMap, HashSet};
use truetape_schemas::set::{Turn, TurnKind};

/// What was inferred of each request.
pub(crate) struct Ties {
    /// The earlier request that each was tied to.
    pub(crate) tied_to: Vec<Option<usize>>,
    /// The session that each was put into.
    pub(crate) sessions: Vec<usize>,
    /// Requests that are beside all sessions: probes.
    pub(crate) left: HashSet<usize>,
}

/// How well.
pub(crate) struct Score {
    pub(crate) requests: usize,
    pub(crate) sessions: usize,
    pub(crate) found: usize,
    pub(crate) precision: f64,
    pub(crate) recall: f64,
    pub(crate) pairs_precision: f64,
    pub(crate) pairs_recall: f64,
    pub(crate) explained: f64,
    pub(crate) by_session: f64,
    pub(crate) explainable: f64,
}

/// The ties of a compiled set.
pub(crate) fn ties_of(labelled: &Labelled, turns: &[Turn]) -> Ties {
    let rows = index(labelled);
    let row = |turn: &Turn| rows.get(turn.exchange_id.as_str()).copied();
    let of_turn = |id: i64| row(turns.get(usize::try_from(id).ok()?)?);
    let mut ties = Ties {
        tied_to: vec![None; labelled.rows.len()],
        sessions: (0..labelled.rows.len()).collect(),
        left: HashSet::new(),
    };
    let mut latest: HashMap<&str, usize> = HashMap::new();
    let mut names: HashMap<&str, usize> = HashMap::new();
    for turn in turns {
        let Some(at) = row(turn) else { continue };
        if turn.kind == TurnKind::Probe {
            ties.left.insert(at);
        }
        let next = names.len();
        ties.sessions[at] = *names.entry(&turn.session).or_insert(next);
        let said = turn
            .parent
            .or(turn.spawned_by)
            .or(turn.retry_of)
            .and_then(of_turn);
        // The same prompt again has no parent of its own, but a session.
        ties.tied_to[at] = said.or_else(|| latest.get(turn.session.as_str()).copied());
        latest.insert(&turn.session, at);
    }
    ties
}

/// Compares ties with labels.
pub(crate) fn score(labelled: &Labelled, ties: &Ties) -> Score {
    let kept: Vec<usize> = (0..labelled.rows.len())
        .filter(|at| !ties.left.contains(at))
        .collect();
    let label = |at: usize| labelled.labels[at];
    let labels: HashSet<usize> = kept.iter().map(|at| label(*at)).collect();
    let mut earlier: HashMap<usize, Vec<usize>> = HashMap::new();
    let (mut found, mut right, mut bytes) = (0, 0, 0.0);
    let (mut explained, mut by_session, mut explainable) = (0.0, 0.0, 0.0);
    for at in &kept {
        let before = earlier.entry(label(*at)).or_default();
        let own = &labelled.prompts[*at];
        let shared = |other: usize| {
            let pairs = own.iter().zip(&labelled.prompts[other]);
            pairs.take_while(|(a, b)| a == b).count() as f64
        };
        if !before.is_empty() {
            bytes += own.len() as f64;
            let best = |within: &dyn Fn(usize) -> bool| {
                let those = before.iter().filter(|other| within(**other));
                those.map(|other| shared(*other)).fold(0.0, f64::max)
            };
            explainable += best(&|_| true);
            by_session += best(&|other| ties.sessions[other] == ties.sessions[*at]);
        }
        if let Some(to) = ties.tied_to[*at] {
            found += 1;
            if label(to) == label(*at) {
                right += 1;
                explained += shared(to);
            }
        }
        before.push(*at);
    }
    let (pairs_precision, pairs_recall) = pairs(labelled, ties, &kept);
    let sessions: HashSet<usize> = kept.iter().map(|at| ties.sessions[*at]).collect();
    Score {
        requests: kept.len(),
        sessions: labels.len(),
        found: sessions.len(),
        precision: ratio(f64::from(right), f64::from(found)),
        recall: ratio(f64::from(right), (kept.len() - labels.len()) as f64),
        pairs_precision,
        pairs_recall,
        explained: ratio(explained, bytes),
        by_session: ratio(by_session, bytes),
        explainable: ratio(explainable, bytes),
    }
}

/// Pairs of requests in one session: of those inferred the right ones, and of those known the
/// inferred ones.
fn pairs(labelled: &Labelled, ties: &Ties, kept: &[usize]) -> (f64, f64) {
    let mut both: BTreeMap<(usize, usize), u64> = BTreeMap::new();
    let (mut inferred, mut known) = (BTreeMap::new(), BTreeMap::new());
    for at in kept {
        let (session, label) = (ties.sessions[*at], labelled.labels[*at]);
        *both.entry((session, label)).or_default() += 1;
        *inferred.entry(session).or_default() += 1;
        *known.entry(label).or_default() += 1;
    }
    fn of<K>(counts: &BTreeMap<K, u64>) -> f64 {
        counts.values().map(|n| (n * (n - 1) / 2) as f64).sum()
    }
    let right = of(&both);
    (ratio(right, of(&inferred)), ratio(right, of(&known)))
}

/// Nothing wrong among nothing is right.
fn ratio(part: f64, whole: f64) -> f64 {
    if whole == 0.0 { 1.0 } else { part / whole }
}
