//! What the plan found on the way: counts first, then one sentence each.

use super::{Cancel, Plan, Settings, TargetFacts};
use crate::cli::Output;
use crate::lengths::{Ask, Enforcement, Remark};
use std::collections::BTreeMap;
use truetape_schemas::capture::Outcome;
use truetape_schemas::set::Turn;

#[derive(Debug, Default)]
pub(super) struct Tally {
    turns: u64,
    made_streaming: u64,
    without_usage: u64,
    unknown_think: u64,
    /// By events, by time, and without a known end.
    aborted: [u64; 3],
    formatted: u64,
    salted: u64,
    orphaned: u64,
    remarks: BTreeMap<Remark, u64>,
    enforcement: BTreeMap<&'static str, u64>,
    models: Vec<(String, String)>,
}

impl Tally {
    pub(super) fn models(&mut self, models: &BTreeMap<Option<String>, Option<String>>) {
        for (recorded, asked) in models {
            if recorded != asked {
                let word = |model: &Option<String>| model.clone().unwrap_or_else(|| "none".into());
                self.models.push((word(recorded), word(asked)));
            }
        }
    }

    /// Counts a turn of the set, sent or not.
    pub(super) fn turn(&mut self) {
        self.turns += 1;
    }

    /// Counts a turn that is sent.
    pub(super) fn sent(
        &mut self,
        turn: &Turn,
        ask: &Ask,
        asks_usage: Option<bool>,
        settings: &Settings,
    ) {
        let waits = settings.pacing != crate::cli::Pacing::Open;
        let unknown = !turn.depends_on.is_empty() && turn.gap_us.is_none();
        self.unknown_think += u64::from(waits && unknown);
        self.made_streaming += u64::from(turn.stream != Some(true));
        self.without_usage += u64::from(turn.stream == Some(true) && asks_usage == Some(false));
        let left = turn.recorded_outcome == Outcome::ClientAborted;
        let how = match Cancel::of(turn) {
            Some(Cancel::AfterEvents(_)) => 0,
            Some(Cancel::AfterUs(_)) => 1,
            None => 2,
        };
        self.aborted[how] += u64::from(left);
        let enforced = ask.enforcement == Enforcement::Enforce;
        self.formatted += u64::from(enforced && turn.response_format.is_some());
        *self.enforcement.entry(ask.enforcement.name()).or_default() += 1;
        if let Some(remark) = ask.remark {
            *self.remarks.entry(remark).or_default() += 1;
        }
    }

    /// Counts a turn that is sent whose recorded request had a salt of its own.
    pub(super) fn salted(&mut self, is: bool) {
        self.salted += u64::from(is);
    }

    /// Counts a turn that is sent and continues an answer that the set does not have.
    pub(super) fn continued(&mut self, orphaned: bool) {
        self.orphaned += u64::from(orphaned);
    }

    pub(super) fn findings(
        &self,
        plan: &Plan,
        settings: &Settings,
        target: &TargetFacts,
    ) -> Vec<String> {
        let mut findings = Vec::new();
        for (recorded, asked) in &self.models {
            findings.push(format!(
                "model: the set asks for `{recorded}`, `{asked}` is asked for"
            ));
        }
        if settings.output == Output::Enforce && !target.enforces_lengths {
            findings.push(
                "lengths: the target refuses ignore_eos or min_tokens: output lengths are capped, not enforced"
                    .to_owned(),
            );
        }
        self.unsent(plan, &mut findings);
        let sent = plan.dispatches.len() as u64;
        self.counted(sent, &mut findings);
        if self.salted != 0 {
            let what = match settings.cache_salt {
                Some(_) => "the run's salt is mixed with it, so that tenants stay apart",
                None => "none is sent, so that tenants share prefixes (optimistic)",
            };
            findings.push(format!(
                "{} of {sent} turns: production's request had a cache_salt of its own: {what}",
                self.salted
            ));
        }
        if plan.unsalted != 0 {
            findings.push(format!(
                "cache: {} of {sent} turns: anthropic_messages has no field for a salt: sent without one: \
                 prompts of earlier runs may be reused (optimistic)",
                plan.unsalted
            ));
        }
        findings
    }

    fn unsent(&self, plan: &Plan, findings: &mut Vec<String>) {
        let mut reasons: BTreeMap<&str, u64> = BTreeMap::new();
        for unsent in &plan.unsent {
            *reasons.entry(unsent.reason).or_default() += 1;
        }
        for (reason, count) in reasons {
            findings.push(format!(
                "not sent: {count} of {} turns: {reason}",
                self.turns
            ));
        }
    }

    fn counted(&self, sent: u64, findings: &mut Vec<String>) {
        let mut say = |count: u64, what: &str| {
            if count != 0 {
                findings.push(format!("{count} of {sent} {what}"));
            }
        };
        let remark = |remark| self.remarks.get(&remark).copied().unwrap_or(0);
        say(
            remark(Remark::UnknownLength),
            "turns: no whole answer was observed: sent with production's own bound",
        );
        say(
            remark(Remark::ZeroLength),
            "turns: production's answer had no tokens: one is asked for, the least a server takes",
        );
        say(
            remark(Remark::SeveralChoices),
            "turns: several choices share the recorded length: it is split evenly, rounded up",
        );
        say(
            self.made_streaming,
            "turns: not a stream in production, or not known to be: sent as a stream, to be measured",
        );
        say(
            self.without_usage,
            "turns: production's stream did not ask for usage: it is asked for, to be measured",
        );
        say(
            self.formatted,
            "turns: a response format is asked for together with an enforced length: the answer is cut or padded",
        );
        let [by_events, by_time, unknown] = self.aborted;
        say(
            by_events,
            "turns: production's client went away early: the replay goes away after as many token events",
        );
        say(
            by_time,
            "turns: production's client went away early: the replay goes away after as much time",
        );
        say(
            unknown,
            "turns: production's client went away, nobody knows when: the replay stays to the end",
        );
        say(
            self.orphaned,
            "turns: continue an answer that is not in the set: sent without previous_response_id, and so without \
             their history (optimistic)",
        );
        say(
            self.unknown_think,
            "turns: think time unknown: sent at max(due, end of dependency)",
        );
    }
}
