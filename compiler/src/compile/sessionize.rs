//! Stage 4: rows become turns of sessions.
//!
//! Explicit ids first, then response ids, then message history, then block chains; never time
//! alone, except inside a session that the client named. What tied a turn to its parent, and how
//! sure that is, stays in the set. `science.md` of the design calls this C10.
//!
//! Rows are taken in the order of their arrival, so a parent always comes before its children,
//! and a session is a tree: one parent at most, no cycles.
//!
//! Read in this order:
//!
//! 1. [`link`]: what a tie is, and [`callers`]: who may be tied at all;
//! 2. [`state`]: the rules, in the order in which they are asked;
//! 3. [`retry`], [`messages`], [`prompts`], [`overlap`], [`blocks`], [`said`]: one rule each;
//! 4. [`kinds`]: probes and calls beside a conversation;
//! 5. [`names`]: what sessions are called;
//! 6. [`chains`]: conversations against prompts as they were sent.

use super::account::Account;
use super::ingest::Secret;
use super::row::Row;
use kinds::Kinds;
use state::State;
use truetape_schemas::set::manifest::{Chains, Stage};

mod blocks;
mod callers;
mod chains;
mod kinds;
mod link;
mod messages;
mod names;
mod overlap;
mod prompts;
mod retry;
mod said;
mod state;

pub(crate) use link::Link;
pub(crate) use messages::{full_chain, step as chain_step};

/// Share of requests with history whose parent may be missing before the user is told.
const UNLINKED_SHARE_MAX: f64 = 0.10;

/// Rows as turns of sessions.
#[derive(Debug)]
pub(crate) struct Sessions {
    /// One link a row, in the same order.
    pub(crate) links: Vec<Link>,
    /// Names of the sessions, by index.
    pub(crate) names: Vec<String>,
    /// The account of this stage.
    pub(crate) stage: Stage,
    /// Share of requests with history whose parent was not found; none when nobody could look.
    pub(crate) unlinked_share: Option<f64>,
    /// Conversations against prompts as they were sent.
    pub(crate) chains: Chains,
    /// Things a user should know.
    pub(crate) findings: Vec<String>,
}

/// Ties rows together.
pub(crate) fn sessionize(rows: &[Row], secret: &Secret) -> Sessions {
    let mut links = State::of(rows);
    let kinds = kinds::mark(rows, &mut links);
    let (names, of_row) = names::sessions(rows, &links, secret);
    for (link, session) in links.iter_mut().zip(of_row) {
        link.session = session;
    }
    let stage = close(rows, &links, kinds);
    let (unlinked_share, mut findings) = unlinked(rows, &links);
    let (chains, gap) = chains::of(rows, &links);
    findings.extend(gap);
    Sessions {
        links,
        names,
        stage,
        unlinked_share,
        chains,
        findings,
    }
}

fn close(rows: &[Row], links: &[Link], kinds: Kinds) -> Stage {
    let mut account = Account::new("sessionize", rows.len());
    account.mark("retry", kinds.retries);
    account.mark("probe", kinds.probes);
    account.mark("utility", kinds.utilities);
    for link in links {
        if let Some(evidence) = link.evidence {
            account.mark(&format!("linked_by_{}", evidence.name()), 1);
        }
    }
    account.close(rows.len())
}

/// Misses are the risk, not false links: a request that brings an answer along has a parent.
fn unlinked(rows: &[Row], links: &[Link]) -> (Option<f64>, Vec<String>) {
    let with_history = rows
        .iter()
        .zip(links)
        .filter(|(row, _)| chains::brings_history(row));
    let (n, missing) = with_history.fold((0_usize, 0_usize), |(n, missing), (_, link)| {
        (n + 1, missing + usize::from(link.parent.is_none()))
    });
    if n == 0 {
        return (None, Vec::new());
    }
    let share = missing as f64 / n as f64;
    let finding = format!(
        "{missing} of {n} requests that bring history have no parent in the captures: what is said \
         about sessions is unsure"
    );
    (
        Some(share),
        if share > UNLINKED_SHARE_MAX {
            vec![finding]
        } else {
            Vec::new()
        },
    )
}

#[cfg(test)]
mod tests;
