//! Captures of several recorders: clocks that do not agree, and exchanges that two of them saw.
//!
//! Each recorder stamps arrivals with the wall clock of its machine. What ties two clocks:
//!
//! - an exchange that both saw (one answer, by the provider's id, to one prompt) arrived at both at
//!   about the same time;
//! - a request that goes on with an answer cannot have been sent before that answer had ended, so
//!   each session that moves from one recorder to the other bounds how far apart they are.
//!
//! The recorder with the most rows keeps its time. Another one is moved by the median of the first
//! kind, where there is any; else, where the bounds of the second kind do not allow that the clocks
//! agree, by the least that they allow. Bounds that contradict each other are a clock that ran
//! apart: nothing is moved, and it is said. Clocks that nothing ties are taken as they are.

use super::super::account::Account;
use super::super::row::{Name, Role, Row};
use super::super::sessionize::{chain_step, full_chain};
use super::Digested;
use std::collections::{BTreeMap, HashMap, HashSet};
use truetape_fidelity::mix::MixMap;

/// A difference below this is the network between two recorders, and bends nothing.
const SKEW_US_MIN: i64 = 1_000;

/// Bounds that contradict each other by more than this are a clock that drifts.
const DRIFT_US_MAX: i64 = 100_000;

/// Share of the bounds that may be wrong on either side: a tie between strangers.
const OUTLIER_SHARE: f64 = 0.02;

/// What an imported trace is called: it has one clock, whatever it holds.
const IMPORTED: &str = "import:";

/// What ties the clock of one recorder to that of another: how far the second is ahead.
#[derive(Debug, Default)]
struct Ties {
    /// Differences of arrival, of exchanges that both saw.
    seen_by_both: Vec<i64>,
    /// It is ahead by this at most.
    at_most: Vec<i64>,
    /// It is ahead by this at least.
    at_least: Vec<i64>,
}

/// How far a clock is ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ahead {
    /// Nothing ties the two, or they agree as far as anything tells.
    Agrees,
    By(i64),
    /// No one number fits.
    RunsApart,
}

/// Moves the arrivals of recorders whose clocks are off, leaves out what two of them saw, and keeps
/// the order. Returns what a user should know.
pub(super) fn align(rows: &mut Vec<Digested>, account: &mut Account) -> Vec<String> {
    let mut counts: BTreeMap<Name, usize> = BTreeMap::new();
    for (row, _) in rows.iter().filter(|(row, _)| has_clock(row)) {
        *counts.entry(Name::clone(&row.proxy_id)).or_default() += 1;
    }
    if counts.len() < 2 {
        return Vec::new();
    }
    let both = seen_twice(rows);
    let ties = ties(rows, &both);
    let (moved, mut findings) = estimate(&counts, &ties);
    let twice: HashSet<usize> = both.iter().map(|(_, second)| *second).collect();
    let mut at = 0..;
    account.keep(rows, "seen_by_two", |_| {
        at.next().is_none_or(|at| !twice.contains(&at))
    });
    if !twice.is_empty() {
        findings.push(format!(
            "{} exchanges were seen by two recorders, and are counted once",
            twice.len()
        ));
    }
    let mut shifted = 0;
    for (row, _) in rows.iter_mut().filter(|(row, _)| has_clock(row)) {
        if let Some(ahead) = moved.get(&row.proxy_id) {
            row.arrival = row.arrival.saturating_sub(*ahead);
            shifted += 1;
        }
    }
    account.mark("clock_moved", shifted);
    rows.sort_by(|(a, a_digest), (b, b_digest)| (a.order(), a_digest).cmp(&(b.order(), b_digest)));
    findings
}

fn has_clock(row: &Row) -> bool {
    !row.proxy_id.starts_with(IMPORTED)
}

/// Pairs of rows that are one exchange at two recorders: the one that is kept, and the other.
fn seen_twice(rows: &[Digested]) -> Vec<(usize, usize)> {
    let mut first: HashMap<(&str, Option<u64>, Option<i64>), usize> = HashMap::new();
    let mut pairs = Vec::new();
    for (at, (row, _)) in rows
        .iter()
        .enumerate()
        .filter(|(_, (row, _))| has_clock(row))
    {
        let Some(id) = row.response_id.as_deref().filter(|_| row.text.is_some()) else {
            continue;
        };
        let key = (id, full_chain(row), row.output_tokens);
        match first
            .get(&key)
            .and_then(|one| Some((*one, &rows.get(*one)?.0)))
        {
            Some((one, kept)) if kept.proxy_id != row.proxy_id => pairs.push((one, at)),
            Some(_) => {}
            None => {
                first.insert(key, at);
            }
        }
    }
    pairs
}

/// Everything that ties two recorders, by their names in order.
fn ties(rows: &[Digested], both: &[(usize, usize)]) -> BTreeMap<(Name, Name), Ties> {
    let mut ties: BTreeMap<(Name, Name), Ties> = BTreeMap::new();
    let row = |at: usize| rows.get(at).map(|(row, _)| row);
    for (one, other) in both {
        if let (Some(one), Some(other)) = (row(*one), row(*other)) {
            let (ties, one, other, _) = between(&mut ties, one, other);
            ties.seen_by_both
                .push(other.arrival.saturating_sub(one.arrival));
        }
    }
    for (parent, child) in continued(rows) {
        let (Some(parent), Some(child)) = (row(parent), row(child)) else {
            continue;
        };
        let Some(end) = parent.end().filter(|_| parent.proxy_id != child.proxy_id) else {
            continue;
        };
        // On one clock this would be the time to think, which is never negative.
        let gap = child.arrival.saturating_sub(end);
        let (ties, _, _, swapped) = between(&mut ties, parent, child);
        if swapped {
            ties.at_least.push(gap.saturating_neg());
        } else {
            ties.at_most.push(gap);
        }
    }
    ties
}

/// The ties of two rows' recorders; the rows in the order of their recorders' names, and whether
/// they were swapped for that.
fn between<'a, 'b>(
    ties: &'a mut BTreeMap<(Name, Name), Ties>,
    a: &'b Row,
    b: &'b Row,
) -> (&'a mut Ties, &'b Row, &'b Row, bool) {
    let swapped = b.proxy_id < a.proxy_id;
    let (a, b) = if swapped { (b, a) } else { (a, b) };
    let key = (Name::clone(&a.proxy_id), Name::clone(&b.proxy_id));
    (ties.entry(key).or_default(), a, b, swapped)
}

/// Requests that go on with the answer of another: by its id, or by the messages up to it.
fn continued(rows: &[Digested]) -> Vec<(usize, usize)> {
    let mut by_id: HashMap<&str, usize> = HashMap::new();
    // None where two got the same answer to the same messages.
    let mut by_chain: MixMap<Option<usize>> = MixMap::default();
    for (at, (row, _)) in rows.iter().enumerate() {
        if let Some(id) = &row.response_id {
            by_id.insert(id, at);
        }
        if let Some(chain) = answered_chain(row) {
            let seen = by_chain.entry(chain).or_insert(Some(at));
            if *seen != Some(at) {
                *seen = None;
            }
        }
    }
    let parent = |row: &Row| {
        let named = row.previous_response_id.as_deref();
        named
            .and_then(|id| by_id.get(id).copied())
            .or_else(|| deepest(row, &by_chain))
    };
    let pairs = rows.iter().enumerate();
    pairs
        .filter_map(|(child, (row, _))| Some((parent(row)?, child)))
        .filter(|(parent, child)| parent != child)
        .collect()
}

fn answered_chain(row: &Row) -> Option<u64> {
    let answer = row.text.as_ref().filter(|_| row.is_chat())?.answer?;
    Some(chain_step(full_chain(row)?, answer.hash))
}

fn deepest(row: &Row, by_chain: &MixMap<Option<usize>>) -> Option<usize> {
    let text = row.text.as_ref().filter(|_| row.is_chat())?;
    let mut chain = 0;
    let mut deepest = None;
    for message in &text.messages {
        chain = chain_step(chain, message.hash);
        if message.role == Role::Assistant {
            deepest = by_chain.get(&chain).copied().flatten().or(deepest);
        }
    }
    deepest
}

/// How far each recorder is ahead of the one with the most rows, where that is not nothing.
fn estimate(
    counts: &BTreeMap<Name, usize>,
    ties: &BTreeMap<(Name, Name), Ties>,
) -> (BTreeMap<Name, i64>, Vec<String>) {
    let mut findings = Vec::new();
    let Some(reference) = counts.iter().rev().max_by_key(|(_, rows)| **rows) else {
        return (BTreeMap::new(), findings);
    };
    let mut known: BTreeMap<Name, i64> = BTreeMap::from([(Name::clone(reference.0), 0)]);
    // One that is tied to a moved one is moved with it: as many rounds as there are recorders.
    for _ in counts {
        for ((a, b), ties) in ties {
            let (of, by, from) = match (known.get(a), known.get(b)) {
                (Some(from), None) => (b, ahead(ties), *from),
                (None, Some(from)) => (a, behind(ahead(ties)), *from),
                _ => continue,
            };
            match by {
                Ahead::Agrees => known.insert(Name::clone(of), from),
                Ahead::By(us) => known.insert(Name::clone(of), from.saturating_add(us)),
                Ahead::RunsApart => {
                    findings.push(format!(
                        "the clocks of {a} and {b} run apart: no one difference fits the sessions \
                         that both saw; times are kept as they were recorded, so compile them apart \
                         where order matters"
                    ));
                    known.insert(Name::clone(of), from)
                }
            };
        }
    }
    known.retain(|_, us| us.abs() >= SKEW_US_MIN);
    for (name, us) in &known {
        let (seconds, way) = (
            us.abs() as f64 / 1e6,
            if *us > 0 { "ahead of" } else { "behind" },
        );
        findings.push(format!(
            "the clock of {name} was {seconds:.3} s {way} the one of {}: its times were moved",
            reference.0
        ));
    }
    (known, findings)
}

fn behind(ahead: Ahead) -> Ahead {
    match ahead {
        Ahead::By(us) => Ahead::By(us.saturating_neg()),
        other => other,
    }
}

/// How far the second of two clocks is ahead of the first.
fn ahead(ties: &Ties) -> Ahead {
    if let Some(median) = at_share(&ties.seen_by_both, 0.5) {
        return Ahead::By(median);
    }
    let most = at_share(&ties.at_most, OUTLIER_SHARE);
    let least = at_share(&ties.at_least, 1.0 - OUTLIER_SHARE);
    match (least, most) {
        (Some(least), Some(most)) if least > most.saturating_add(DRIFT_US_MAX) => Ahead::RunsApart,
        (_, Some(most)) if most < 0 => Ahead::By(most),
        (Some(least), _) if least > 0 => Ahead::By(least),
        _ => Ahead::Agrees,
    }
}

/// The value that so large a share of the values do not exceed.
fn at_share(values: &[i64], share: f64) -> Option<i64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let last = sorted.len().checked_sub(1)?;
    let at = (share * last as f64).round() as usize;
    sorted.get(at).copied()
}

#[cfg(test)]
mod tests {
    use super::{Ahead, Ties, ahead, at_share, estimate};
    use crate::compile::row::Name;
    use std::collections::BTreeMap;

    fn ties(seen_by_both: &[i64], at_least: &[i64], at_most: &[i64]) -> Ties {
        Ties {
            seen_by_both: seen_by_both.to_vec(),
            at_most: at_most.to_vec(),
            at_least: at_least.to_vec(),
        }
    }

    #[test]
    fn a_clock_is_moved_by_what_both_saw_or_by_the_least_that_is_possible() {
        let cases = [
            (ties(&[], &[], &[]), Ahead::Agrees),
            (ties(&[], &[-5], &[7]), Ahead::Agrees),
            (ties(&[], &[], &[9_000_000]), Ahead::Agrees),
            (ties(&[], &[], &[-3_000_000, 5]), Ahead::By(-3_000_000)),
            (
                ties(&[], &[3_000_000, -5], &[8_000_000]),
                Ahead::By(3_000_000),
            ),
            (ties(&[], &[3_000_000], &[1_000_000]), Ahead::RunsApart),
            (ties(&[10, 900, 20], &[3_000_000], &[]), Ahead::By(20)),
        ];
        for (ties, wanted) in cases {
            assert_eq!(ahead(&ties), wanted, "{ties:?}");
        }
    }

    #[test]
    fn one_wrong_tie_among_many_moves_nothing() {
        let mut at_most = vec![100; 99];
        at_most.push(-60_000_000);
        assert_eq!(ahead(&ties(&[], &[], &at_most)), Ahead::Agrees);
        assert_eq!(at_share(&[], 0.5), None);
    }

    #[test]
    fn the_largest_recorder_keeps_its_time_and_others_follow_through_each_other() {
        let name = |text: &str| Name::from(text);
        let counts = BTreeMap::from([(name("a"), 5), (name("b"), 90), (name("c"), 7)]);
        let of = |a, b, by| ((name(a), name(b)), ties(&[by], &[], &[]));
        // b is 2 s ahead of a, c 3 s ahead of a.
        let ties = BTreeMap::from([of("a", "b", 2_000_000), of("a", "c", 3_000_000)]);
        let (moved, findings) = estimate(&counts, &ties);
        let wanted = [(name("a"), -2_000_000), (name("c"), 1_000_000)];
        assert_eq!(moved, BTreeMap::from(wanted));
        assert_eq!(findings.len(), 2);
        assert!(findings[0].contains("2.000 s behind"), "{findings:?}");
    }
}
