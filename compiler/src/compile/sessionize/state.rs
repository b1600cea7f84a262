//! What is known of the rows so far, and the rules in their order.

use super::super::row::{Name, Row};
use super::blocks::BlockChains;
use super::callers::{ended_before, keys_agree};
use super::link::{Evidence, Link, Tie};
use super::messages::{MessageChains, system_chain};
use super::overlap::Overlaps;
use super::prompts::PromptChains;
use super::retry::Attempts;
use super::said::Said;
use std::collections::HashMap;
use truetape_fidelity::mix::MixMap;
use truetape_schemas::set::TurnKind;

/// Earlier turns of a named session that are looked at, the latest first: a key that names all
/// traffic must not make the work quadratic.
const LOOK_BACK_MAX: usize = 256;

/// A prompt that is shorter than this share of an earlier one of its session begins anew.
const COMPACTED_SHARE_MAX: f64 = 0.7;

/// What is known of the rows so far.
pub(super) struct State<'a> {
    rows: &'a [Row],
    responses: HashMap<&'a str, usize>,
    messages: MessageChains,
    prompts: PromptChains,
    overlaps: Overlaps,
    blocks: BlockChains,
    attempts: Attempts,
    said: Said,
    by_key: HashMap<Name, Vec<usize>>,
    /// First row of the session that each row is in, as far as rows tell.
    roots: Vec<usize>,
    /// First row of the conversation that each row is in: a sub-agent has one of its own.
    starts: Vec<usize>,
    /// The latest row of each conversation, by its first.
    latest: MixMap<usize>,
    /// Conversations that a row started, by their first rows.
    spawned: HashMap<usize, Vec<usize>>,
}

impl<'a> State<'a> {
    /// Links all rows.
    pub(super) fn of(rows: &'a [Row]) -> Vec<Link> {
        let mut state = Self {
            rows,
            responses: HashMap::new(),
            messages: MessageChains::new(rows),
            prompts: PromptChains::new(rows),
            overlaps: Overlaps::default(),
            blocks: BlockChains::new(rows),
            attempts: Attempts::default(),
            said: Said::default(),
            by_key: HashMap::new(),
            roots: Vec::with_capacity(rows.len()),
            starts: Vec::with_capacity(rows.len()),
            latest: MixMap::default(),
            spawned: HashMap::new(),
        };
        let mut links = Vec::with_capacity(rows.len());
        for (at, row) in rows.iter().enumerate() {
            let link = state.link(row, &links);
            state.remember(at, row, &link);
            links.push(link);
        }
        links
    }

    fn link(&self, row: &Row, links: &[Link]) -> Link {
        if let Some(earlier) = self.attempts.repeated_by(row, self.rows) {
            return self.retry(row, earlier, links);
        }
        let tie = self.tie(row);
        let Some(tie) = tie else {
            return self.without_parent(row, links);
        };
        let depth = links.get(tie.parent).map_or(1, |link| link.depth + 1);
        Link {
            parent: Some(tie.parent),
            evidence: Some(tie.evidence),
            confidence: Some(tie.confidence),
            depends_on: self.ended(tie.parent, row),
            joins: self.joins(tie.parent, row),
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
            joins: Vec::new(),
            depth: repeated.depth.max(1),
            ..repeated
        }
    }

    /// A first turn: of a session, of a sub-agent, or of what nobody can tell.
    fn without_parent(&self, row: &Row, links: &[Link]) -> Link {
        let first = Link {
            // Without history, the order inside a session that the client named is all there is.
            depends_on: self.latest_ended_before(row),
            depth: 1,
            ..Link::default()
        };
        if let Some(earlier) = self.prompts.repeated(row, self.rows, &self.said) {
            let repeated = links.get(earlier);
            return Link {
                beside: Some(earlier),
                parent: repeated.and_then(|link| link.parent),
                depth: repeated.map_or(1, |link| link.depth),
                evidence: Some(Evidence::Repeat),
                confidence: Some(0.5),
                depends_on: self.ended(earlier, row),
                ..first
            };
        }
        if let Some((spawner, confidence)) = self.spawner(row) {
            return Link {
                spawned_by: Some(spawner),
                evidence: Some(Evidence::Spawned),
                confidence: Some(confidence),
                depends_on: first.depends_on.or_else(|| self.ended(spawner, row)),
                ..first
            };
        }
        let external = row.previous_response_id.is_some();
        Link {
            evidence: external.then_some(Evidence::External),
            ..first
        }
    }

    /// The strongest tie to an earlier row.
    fn tie(&self, row: &Row) -> Option<Tie> {
        let root = |at: usize| self.roots.get(at).copied().unwrap_or(at);
        if let Some(named) = self.by_response(row) {
            return Some(named);
        }
        let history = self.messages.parent(row, self.rows);
        let tie = |contradicted: bool| {
            let (tie, other) = history?;
            (other == contradicted).then_some(tie)
        };
        tie(false)
            .or_else(|| self.prompts.parent(row, self.rows, &self.said, root))
            .or_else(|| self.overlaps.parent(row, self.rows))
            .or_else(|| self.messages.loose_parent(row, self.rows))
            .or_else(|| tie(true))
            .or_else(|| self.blocks.parent(row, self.rows))
            .or_else(|| self.compacted(row))
            .or_else(|| self.previous_in_session(row))
    }

    fn by_response(&self, row: &Row) -> Option<Tie> {
        let parent = *self.responses.get(row.previous_response_id.as_deref()?)?;
        let key = self.rows.get(parent)?.session_key.as_ref();
        keys_agree(row.session_key.as_ref(), key).then_some(Tie {
            parent,
            evidence: Evidence::ResponseId,
            confidence: 1.0,
        })
    }

    /// The turn whose history was summed up: the prompt begins anew, under the same system prompt,
    /// and is much shorter. Either it holds what that turn said, or the client says that it is
    /// still the same session.
    fn compacted(&self, row: &Row) -> Option<Tie> {
        let shrunk = |at: usize| {
            let other = self.rows.get(at)?;
            (self.shrank(row, other) && self.ended(at, row).is_some()).then_some(at)
        };
        let tie = |parent, confidence| Tie {
            parent,
            evidence: Evidence::Compacted,
            confidence,
        };
        if let Some(speaker) = self.speaker(row).and_then(shrunk) {
            return Some(tie(speaker, 0.7));
        }
        let earlier = self.by_key.get(row.session_key.as_ref()?)?;
        let chats = |at: &&usize| self.rows.get(**at).is_some_and(Row::is_chat);
        let latest = earlier.iter().rev().take(LOOK_BACK_MAX).find(chats)?;
        shrunk(*latest).map(|parent| tie(parent, 0.4))
    }

    fn shrank(&self, row: &Row, other: &Row) -> bool {
        let (Some(own), Some(others)) = (&row.text, &other.text) else {
            return false;
        };
        let enough = others.rendered_bytes as f64 * COMPACTED_SHARE_MAX;
        row.is_chat()
            && other.is_chat()
            && (own.rendered_bytes as f64) < enough
            && system_chain(&own.messages) == system_chain(&others.messages)
            && own
                .messages
                .iter()
                .filter(|message| message.is_system())
                .count()
                < own.messages.len()
    }

    /// Who said what this request begins with.
    fn speaker(&self, row: &Row) -> Option<usize> {
        let speaker = self.said.by_any(row)?;
        let key = self.rows.get(speaker)?.session_key.as_ref();
        keys_agree(row.session_key.as_ref(), key).then_some(speaker)
    }

    /// The turn that started this conversation: the client names its session, or this request
    /// begins with what that turn said. Several agents of one session have keys of their own.
    fn spawner(&self, row: &Row) -> Option<(usize, f64)> {
        let key = row.session_key.as_ref();
        if key.is_some_and(|key| self.by_key.contains_key(key)) {
            return None;
        }
        let turns = row
            .parent_session_key
            .as_ref()
            .and_then(|key| self.by_key.get(key));
        match turns.and_then(|turns| turns.last()) {
            Some(latest) => Some((*latest, 0.9)),
            None if key.is_none() => Some((self.speaker(row)?, 0.7)),
            None => None,
        }
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

    /// The last turns of sub-agents that `parent` started and `row` waited for.
    fn joins(&self, parent: usize, row: &Row) -> Vec<usize> {
        let spawned = self.spawned.get(&parent).map_or(&[][..], Vec::as_slice);
        let latest = spawned
            .iter()
            .filter_map(|start| self.latest.get(&(*start as u64)));
        latest.filter_map(|at| self.ended(*at, row)).collect()
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
        ended_before(self.rows.get(other)?, row).then_some(other)
    }

    fn remember(&mut self, at: usize, row: &'a Row, link: &Link) {
        let root = link.tied_to().and_then(|to| self.roots.get(to).copied());
        let root = root.unwrap_or(at);
        self.roots.push(root);
        let within = link.parent.or(link.retry_of).or(link.beside);
        let start = within.and_then(|to| self.starts.get(to).copied());
        let start = start.unwrap_or(at);
        self.starts.push(start);
        self.latest.insert(start as u64, at);
        if let Some(spawner) = link.spawned_by.filter(|_| start == at) {
            self.spawned.entry(spawner).or_default().push(at);
        }
        if let Some(id) = &row.response_id {
            self.responses.insert(id, at);
        }
        if let Some(key) = &row.session_key {
            self.by_key.entry(Name::clone(key)).or_default().push(at);
        }
        self.messages.remember(at, row);
        self.prompts.remember(at, row);
        self.overlaps.remember(at, row);
        self.blocks.remember(at, row);
        self.attempts.remember(at, row);
        self.said.remember(at, root, row);
    }
}
