//! Stage 4: rows become turns of sessions.
//!
//! Explicit ids first, then response ids, then message history, then block chains; never time
//! alone, except inside a session that the client named. What tied a turn to its parent, and how
//! sure that is, stays in the set. `science.md` of the design calls this C10.
//!
//! Rows are taken in the order of their arrival, so a parent always comes before its children,
//! and a session is a tree: one parent at most, no cycles.

use super::account::Account;
use super::ingest::Secret;
use super::row::{Name, Row};
use blocks::BlockChains;
use messages::MessageChains;
use retry::Attempts;
use std::collections::HashMap;
use truetape_schemas::set::TurnKind;
use truetape_schemas::set::manifest::Stage;

mod blocks;
mod link;
mod messages;
mod names;
mod retry;

pub(crate) use link::{Evidence, Link, Tie};

/// Generated tokens at most of a call that may be a title or a suggestion.
const UTILITY_TOKENS_MAX: i64 = 64;

/// Share of requests with history whose parent may be missing before the user is told.
const UNLINKED_SHARE_MAX: f64 = 0.10;

/// Earlier turns of a named session that are looked at, the latest first: a key that names all
/// traffic must not make the work quadratic.
const LOOK_BACK_MAX: usize = 256;

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
    /// Things a user should know.
    pub(crate) findings: Vec<String>,
}

/// Ties rows together.
pub(crate) fn sessionize(rows: &[Row], secret: &Secret) -> Sessions {
    let mut state = State::new(rows);
    let mut links = Vec::with_capacity(rows.len());
    for (at, row) in rows.iter().enumerate() {
        let link = state.link(row, &links);
        links.push(link);
        state.remember(at, row);
    }
    let kinds = mark_kinds(rows, &mut links);
    let (names, of_row) = names::sessions(rows, &links, secret);
    for (link, session) in links.iter_mut().zip(of_row) {
        link.session = session;
    }
    let stage = close(rows, &links, kinds);
    let (unlinked_share, findings) = unlinked(rows, &links);
    Sessions {
        links,
        names,
        stage,
        unlinked_share,
        findings,
    }
}

/// What is known of the rows so far.
struct State<'a> {
    rows: &'a [Row],
    responses: HashMap<&'a str, usize>,
    messages: MessageChains,
    blocks: BlockChains,
    attempts: Attempts,
    by_key: HashMap<Name, Vec<usize>>,
}

impl<'a> State<'a> {
    fn new(rows: &'a [Row]) -> Self {
        Self {
            rows,
            responses: HashMap::new(),
            messages: MessageChains::new(rows),
            blocks: BlockChains::new(rows),
            attempts: Attempts::default(),
            by_key: HashMap::new(),
        }
    }

    fn link(&self, row: &Row, links: &[Link]) -> Link {
        if let Some(earlier) = self.attempts.repeated_by(row, self.rows) {
            return self.retry(row, earlier, links);
        }
        let tie = self.tie(row);
        let parent = tie.map(|tie| tie.parent);
        let depth = parent
            .and_then(|parent| links.get(parent))
            .map_or(1, |link| link.depth + 1);
        // Without history, the order inside a session that the client named is all there is.
        let depends_on = match parent {
            Some(parent) => self.ended(parent, row),
            None => self.latest_ended_before(row),
        };
        let external = tie.is_none() && row.previous_response_id.is_some();
        Link {
            parent,
            evidence: tie
                .map(|tie| tie.evidence)
                .or(external.then_some(Evidence::External)),
            confidence: tie.map(|tie| tie.confidence),
            depends_on,
            depth,
            ..Link::default()
        }
    }

    fn retry(&self, row: &Row, earlier: usize, links: &[Link]) -> Link {
        let repeated = links.get(earlier).cloned().unwrap_or_default();
        Link {
            retry_of: Some(earlier),
            kind: TurnKind::Retry,
            depends_on: self.ended(earlier, row),
            depth: repeated.depth.max(1),
            ..repeated
        }
    }

    /// The strongest tie to an earlier row.
    fn tie(&self, row: &Row) -> Option<Tie> {
        let by_response = row.previous_response_id.as_deref().and_then(|id| {
            let parent = *self.responses.get(id)?;
            let key = self.rows.get(parent)?.session_key.as_ref();
            messages::keys_agree(row.session_key.as_ref(), key).then_some(Tie {
                parent,
                evidence: Evidence::ResponseId,
                confidence: 1.0,
            })
        });
        by_response
            .or_else(|| self.messages.parent(row, self.rows))
            .or_else(|| self.blocks.parent(row, self.rows))
            .or_else(|| self.previous_in_session(row))
    }

    /// The turn before, in a session that has neither text nor blocks to say more.
    fn previous_in_session(&self, row: &Row) -> Option<Tie> {
        if row.is_chat() {
            return None;
        }
        let earlier = self.by_key.get(row.session_key.as_ref()?)?;
        let mut latest = earlier.iter().rev().take(LOOK_BACK_MAX);
        let parent = *latest.find(|at| self.ended(**at, row).is_some())?;
        Some(Tie {
            parent,
            evidence: Evidence::SessionId,
            confidence: 0.5,
        })
    }

    /// In a named session, the turn that ended last before this one began.
    fn latest_ended_before(&self, row: &Row) -> Option<usize> {
        let earlier = self.by_key.get(row.session_key.as_ref()?)?.iter().rev();
        let ended = earlier
            .take(LOOK_BACK_MAX)
            .filter_map(|other| self.ended(*other, row));
        ended.max_by_key(|other| (self.rows.get(*other).and_then(Row::end), *other))
    }

    /// `other`, unless it is known to have ended only after `row` began.
    fn ended(&self, other: usize, row: &Row) -> Option<usize> {
        let end = self.rows.get(other)?.end();
        end.is_none_or(|end| end <= row.arrival).then_some(other)
    }

    fn remember(&mut self, at: usize, row: &'a Row) {
        if let Some(id) = &row.response_id {
            self.responses.insert(id, at);
        }
        if let Some(key) = &row.session_key {
            self.by_key.entry(Name::clone(key)).or_default().push(at);
        }
        self.messages.remember(at, row);
        self.blocks.remember(at, row);
        self.attempts.remember(at, row);
    }
}

/// Marks probes and utility calls; retries are marked already.
fn mark_kinds(rows: &[Row], links: &mut [Link]) -> Kinds {
    let mut kinds = Kinds::default();
    let mut children = vec![false; links.len()];
    for link in links.iter() {
        if let Some(parent) = link.parent.and_then(|parent| children.get_mut(parent)) {
            *parent = true;
        }
    }
    let mut of_key: HashMap<&Name, usize> = HashMap::new();
    for key in rows.iter().filter_map(|row| row.session_key.as_ref()) {
        *of_key.entry(key).or_default() += 1;
    }
    for ((row, link), has_children) in rows.iter().zip(links.iter_mut()).zip(children) {
        if link.kind == TurnKind::Retry {
            kinds.retries += 1;
            continue;
        }
        let alone = link.parent.is_none() && !has_children;
        let key = row.session_key.as_ref();
        let beside = key.is_some_and(|key| of_key.get(key).is_some_and(|turns| *turns > 1));
        if alone && row.text.as_ref().is_some_and(|text| text.probe) {
            link.kind = TurnKind::Probe;
            kinds.probes += 1;
        } else if alone && beside && is_small(row) {
            link.kind = TurnKind::Utility;
            kinds.utilities += 1;
        }
    }
    kinds
}

/// A call that may be beside a conversation: a short answer, and no tools.
fn is_small(row: &Row) -> bool {
    row.is_chat()
        && row.params.as_ref().is_some_and(|params| {
            params
                .max_tokens
                .is_some_and(|max| max <= UTILITY_TOKENS_MAX)
                && params.tool_count.unwrap_or(0) == 0
        })
}

#[derive(Debug, Default)]
struct Kinds {
    retries: usize,
    probes: usize,
    utilities: usize,
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
    let with_history = rows.iter().zip(links).filter(|(row, _)| {
        let text = row.text.as_ref().filter(|_| row.is_chat());
        text.is_some_and(|text| text.messages.iter().filter(|m| !m.system).count() > 1)
    });
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
