//! Turns and flags become dispatches with absolute deadlines: everything is decided before the
//! first byte is sent (R1).
//!
//! The same set and the same settings always make the same plan: dispatches are ordered by due
//! time, and ties keep the order of the set, so that a burst stays a burst.

use crate::arrivals::Step;
use crate::body::{self, Body, Library, Shape};
use crate::error::Error;
use crate::lengths::{self, Enforcement};
use crate::schedule::Node;
use agreed::Agreed;
use due::Due;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use truetape_schemas::capture::Outcome;
use truetape_schemas::set::Turn;
use truetape_schemas::wire::Dialect;

mod agreed;
mod dispatch;
mod due;
mod findings;
mod inputs;

pub use dispatch::{Cancel, Planned, Unsent};
pub use inputs::{Settings, TargetFacts};

/// Reasons for which a planned turn is not sent; the words of the column `not_sent_reason`.
pub mod reason {
    /// It is due after `--duration`.
    pub const AFTER_DURATION: &str = "after_duration";
    /// Its session is left out, to lower the rate.
    pub const THINNED: &str = "thinned";
    /// A turn that it depends on failed.
    pub const DEPENDENCY_FAILED: &str = "dependency_failed";
    /// The set holds no content for it.
    pub const NO_CONTENT: &str = "no_content";
    /// Its dialect cannot be sent yet.
    pub const UNSUPPORTED_DIALECT: &str = "unsupported_dialect";
    /// Prompt and answer do not fit the target's context.
    pub const OVER_CONTEXT: &str = "over_context";
    /// It is past `--token-budget`.
    pub const TOKEN_BUDGET: &str = "token_budget";
    /// The target failed too often.
    pub const ERROR_RATE: &str = "error_rate";
    /// The run was stopped.
    pub const STOPPED: &str = "stopped";
}

/// Dispatches of a plan at most: the schedule numbers them with 32 bits.
const DISPATCHES_MAX: usize = u32::MAX as usize - 1;

/// Everything a run will do.
#[derive(Debug, Default)]
pub struct Plan {
    /// What is sent, ordered by due time.
    pub dispatches: Vec<Planned>,
    /// What is not.
    pub unsent: Vec<Unsent>,
    /// The parts of all bodies.
    pub library: Library,
    /// Things a user should know before trusting the run.
    pub findings: Vec<String>,
    /// Prompt tokens of what is sent, where known.
    pub input_tokens: i64,
    /// Output tokens that what is sent asks for, where known.
    pub output_tokens: i64,
    /// The steps of the rate, where it has any.
    pub steps: Vec<Step>,
    /// Turns of other shards.
    pub elsewhere: usize,
    /// Dispatches that were to be salted and whose dialect has no field for a salt.
    pub unsalted: usize,
    /// Digest of the whole plan, other shards' turns included: what they must agree on.
    pub digest: String,
}

/// Makes the plan of a run.
pub fn plan(
    turns: &[Turn],
    library: Library,
    settings: &Settings,
    target: &TargetFacts,
) -> Result<Plan, Error> {
    if DISPATCHES_MAX < turns.len() {
        let problem = format!(
            "{} turns, at most {DISPATCHES_MAX} can be planned",
            turns.len()
        );
        return Err(Error::Set {
            subject: "set".to_owned(),
            problem,
        });
    }
    check_order(turns)?;
    let models = models(turns, settings, target)?;
    let mut tally = findings::Tally::default();
    tally.models(&models);
    let timeline = due::timeline(turns, settings);
    let mut plan = Plan {
        steps: timeline.steps,
        ..Plan::default()
    };
    let mut agreed = Agreed::default();
    let mut budget = Budget::new(settings);
    for due in timeline.due {
        let turn = due.turn;
        let forced = body::can_enforce(Dialect::from_name(&turn.dialect));
        let ask = lengths::ask(turn, settings.output, target.enforces_lengths && forced);
        let expected = lengths::expected_output(turn, &ask);
        let reason =
            refusal(&due, expected, settings, target).or_else(|| budget.spend(turn, expected));
        agreed.turn(&due, think_us(turn, settings), &ask, reason);
        if settings
            .shard
            .is_some_and(|shard| !shard.has(&turn.session))
        {
            plan.elsewhere += 1;
            continue;
        }
        tally.turn();
        let model = models.get(&turn.model).cloned().flatten();
        let shape = Shape {
            model: model.as_deref(),
            cache_salt: settings.cache_salt.as_deref(),
        };
        let body = match reason {
            None if !settings.needs_content => Ok(Body::default()),
            None => library.body(turn, &ask, &shape).ok_or(reason::NO_CONTENT),
            Some(reason) => Err(reason),
        };
        match body {
            Ok(body) => {
                tally.sent(turn, &ask, library.asks_usage(turn), settings);
                tally.salted(library.is_salted(turn));
                tally.continued(library.continues(turn) && turn.parent.is_none());
                let salts = body::can_salt(Dialect::from_name(&turn.dialect));
                plan.unsalted += usize::from(settings.cache_salt.is_some() && !salts);
                plan.input_tokens += turn.input_tokens.unwrap_or(0);
                plan.output_tokens += expected.unwrap_or(0);
                plan.dispatches.push(Planned {
                    continues: turn.parent.filter(|_| library.continues(turn)),
                    ..planned(&due, settings, body, ask.enforcement)
                });
            }
            Err(reason) => plan.unsent.push(unsent(&due, reason)),
        }
    }
    renumber(&mut plan);
    plan.digest = agreed.finish();
    plan.findings = timeline.findings;
    plan.findings
        .extend(tally.findings(&plan, settings, target));
    plan.library = library;
    Ok(plan)
}

/// A set is ordered by arrival and a dependency has ended before: one that points forward could
/// close a circle, and a run that waits for itself never ends.
fn check_order(turns: &[Turn]) -> Result<(), Error> {
    for turn in turns {
        let later = turn
            .depends_on
            .iter()
            .find(|dependency| turn.turn_id <= **dependency);
        if let Some(later) = later {
            let problem = format!(
                "turn {} depends on {later}, which is not before it",
                turn.turn_id
            );
            return Err(Error::Set {
                subject: "set".to_owned(),
                problem,
            });
        }
    }
    Ok(())
}

fn refusal(
    due: &Due<'_>,
    expected: Option<i64>,
    settings: &Settings,
    target: &TargetFacts,
) -> Option<&'static str> {
    let turn = due.turn;
    if due.is_left_out {
        return Some(reason::THINNED);
    }
    if settings
        .duration_us
        .is_some_and(|duration_us| duration_us <= due.due_us)
    {
        return Some(reason::AFTER_DURATION);
    }
    if settings.needs_content && turn.content.is_empty() {
        return Some(reason::NO_CONTENT);
    }
    let known = body::can_send(Dialect::from_name(&turn.dialect));
    if settings.needs_content && !known {
        return Some(reason::UNSUPPORTED_DIALECT);
    }
    let context = turn.input_tokens.map(|input| input + expected.unwrap_or(0));
    match (context, target.context_tokens_max) {
        (Some(context), Some(most)) if most < context => Some(reason::OVER_CONTEXT),
        _ => None,
    }
}

/// The token budget of a run, of which shards spend their parts.
struct Budget {
    tokens: Option<i64>,
    spent: i64,
    is_over: bool,
}

impl Budget {
    fn new(settings: &Settings) -> Self {
        let tokens = settings.token_budget;
        Self {
            tokens: tokens.map(|tokens| i64::try_from(tokens).unwrap_or(i64::MAX)),
            spent: 0,
            is_over: false,
        }
    }

    /// The budget is cut where it is first exceeded: what follows is left out whole, so that the
    /// shortest turns of the rest are not picked.
    fn spend(&mut self, turn: &Turn, expected: Option<i64>) -> Option<&'static str> {
        let next = turn.input_tokens.unwrap_or(0) + expected.unwrap_or(0);
        self.is_over = self.is_over || self.tokens? < self.spent + next;
        if self.is_over {
            return Some(reason::TOKEN_BUDGET);
        }
        self.spent += next;
        None
    }
}

fn think_us(turn: &Turn, settings: &Settings) -> Option<i64> {
    let scale = |gap_us: i64| (gap_us.max(0) as f64 * settings.think_scale).round() as i64;
    turn.gap_us.map(scale)
}

fn planned(due: &Due<'_>, settings: &Settings, body: Body, enforcement: Enforcement) -> Planned {
    let turn = due.turn;
    // Turn ids for now; `renumber` makes them indices, once it is known what is sent.
    let depends_on = turn
        .depends_on
        .iter()
        .filter_map(|id| u32::try_from(*id).ok())
        .collect();
    Planned {
        turn_id: turn.turn_id,
        session: turn.session.clone(),
        turn: turn.turn,
        node: Node {
            due_us: due.due_us,
            depends_on,
            think_us: think_us(turn, settings),
            outlives_failure: turn.recorded_outcome != Outcome::Complete,
        },
        path: turn.path.clone(),
        dialect: Dialect::from_name(&turn.dialect),
        body,
        input_tokens: turn.input_tokens,
        output_tokens: turn.output_tokens,
        enforcement,
        continues: None,
        cancel: dispatch::Cancel::of(turn),
        carrier: dispatch::carrier(turn),
    }
}

fn unsent(due: &Due<'_>, reason: &'static str) -> Unsent {
    let turn = due.turn;
    Unsent {
        turn_id: turn.turn_id,
        session: turn.session.clone(),
        turn: turn.turn,
        due_us: due.due_us,
        input_tokens: turn.input_tokens,
        output_tokens: turn.output_tokens,
        reason,
    }
}

/// Dependencies by index in the plan. One that is not sent cannot end, so nobody waits for it: the
/// turn keeps its due time.
fn renumber(plan: &mut Plan) {
    let index: HashMap<i64, u32> = plan
        .dispatches
        .iter()
        .zip(0u32..)
        .map(|(planned, at)| (planned.turn_id, at))
        .collect();
    for (planned, own) in plan.dispatches.iter_mut().zip(0u32..) {
        let sent = planned
            .node
            .depends_on
            .iter()
            .filter_map(|id| index.get(&i64::from(*id)));
        planned.node.depends_on = sent
            .copied()
            .filter(|dependency| *dependency != own)
            .collect();
    }
}

/// The model that each recorded model is asked for as.
fn models(
    turns: &[Turn],
    settings: &Settings,
    target: &TargetFacts,
) -> Result<BTreeMap<Option<String>, Option<String>>, Error> {
    // In one order, so that the same set is always refused with the same words.
    let recorded: BTreeSet<&Option<String>> = turns.iter().map(|turn| &turn.model).collect();
    recorded
        .into_iter()
        .map(|model| {
            Ok((
                model.clone(),
                model_for(model.as_deref(), settings, target)?,
            ))
        })
        .collect()
}

fn model_for(
    recorded: Option<&str>,
    settings: &Settings,
    target: &TargetFacts,
) -> Result<Option<String>, Error> {
    if let Some(model) = &settings.model {
        return Ok(Some(model.clone()));
    }
    let served = recorded.is_some_and(|recorded| target.models.iter().any(|m| m == recorded));
    match target.models.as_slice() {
        _ if served => Ok(recorded.map(str::to_owned)),
        [] => Ok(recorded.map(str::to_owned)),
        [only] => Ok(Some(only.clone())),
        several => Err(Error::config(
            "--model",
            format!(
                "the set asks for `{}`, the target serves {}; name one of them",
                recorded.unwrap_or("no model"),
                several.join(", ")
            ),
        )),
    }
}

#[cfg(test)]
mod tests;
