//! `--dry-run`: what would be done.

use crate::cli::{Cache, Format, ReplayArgs};
use crate::error::Error;
use crate::load::Loaded;
use crate::plan::{self, Plan, Settings, TargetFacts};
use crate::{body, report, settings};
use serde::Serialize;
use std::collections::{BTreeMap, HashSet};
use truetape_fidelity::latency::rates::Rate;

/// A plan in numbers.
#[derive(Debug, PartialEq, Serialize)]
struct Outline {
    set_name: String,
    set_digest: String,
    turns: usize,
    dispatches: usize,
    not_sent: BTreeMap<&'static str, u64>,
    sessions: usize,
    duration_us: i64,
    rate: Rate,
    input_tokens: i64,
    output_tokens: i64,
    findings: Vec<String>,
}

/// Makes the plan of a run that is not run: what could not be sent is left out here as it would be
/// there.
pub fn plan(args: &ReplayArgs, set: &mut Loaded) -> Result<Plan, Error> {
    let library = body::Library::new(std::mem::take(&mut set.contents));
    let target = TargetFacts {
        enforces_lengths: true,
        ..TargetFacts::default()
    };
    let salt = (args.cache == Cache::Salted).then(|| args.salt.clone().unwrap_or_default());
    let settings = Settings {
        // What has only lengths cannot be sent, but its plan can be looked at.
        needs_content: !set.is_lengths_only(),
        ..settings::plan_settings(args, salt)
    };
    plan::plan(&set.turns, library, &settings, &target)
}

/// Prints a plan.
pub fn show(format: Format, set: &Loaded, plan: &Plan) -> Result<(), Error> {
    let outline = outline(set, plan);
    let text = match format {
        Format::Json => {
            let json = serde_json::to_string_pretty(&outline);
            json.map_err(|cause| Error::Bug {
                subject: "plan".to_owned(),
                problem: cause.to_string(),
            })? + "\n"
        }
        Format::Text | Format::Markdown => text(&outline),
    };
    report::print(&text)
}

fn outline(set: &Loaded, plan: &Plan) -> Outline {
    let mut not_sent = BTreeMap::new();
    for unsent in &plan.unsent {
        *not_sent.entry(unsent.reason).or_default() += 1;
    }
    let due_us = || plan.dispatches.iter().map(|planned| planned.node.due_us);
    let sessions: HashSet<&str> = plan
        .dispatches
        .iter()
        .map(|planned| planned.session.as_str())
        .collect();
    Outline {
        set_name: set.manifest.name.clone(),
        set_digest: set.manifest.digest.clone(),
        turns: set.turns.len(),
        dispatches: plan.dispatches.len(),
        not_sent,
        sessions: sessions.len(),
        duration_us: due_us().max().unwrap_or(0),
        rate: Rate::of(due_us()),
        input_tokens: plan.input_tokens,
        output_tokens: plan.output_tokens,
        findings: set.findings.iter().chain(&plan.findings).cloned().collect(),
    }
}

fn text(outline: &Outline) -> String {
    let rate = |rate: Option<f64>| rate.map_or("unknown".to_owned(), |rate| format!("{rate:.2}/s"));
    let dispersion = |idc: Option<f64>| idc.map_or("unknown".to_owned(), |idc| format!("{idc:.2}"));
    let mut lines = vec![
        format!(
            "plan of {} (sha256:{})",
            outline.set_name, outline.set_digest
        ),
        format!(
            "  turns      {} of {} sent",
            outline.dispatches, outline.turns
        ),
        format!("  sessions   {}", outline.sessions),
        format!(
            "  last due   {:.3} s after the first",
            outline.duration_us as f64 / 1e6
        ),
        format!(
            "  rate       mean {}, peak {} over 1 s, {} over 10 s",
            rate(outline.rate.mean_per_s),
            rate(outline.rate.peak_1s_per_s),
            rate(outline.rate.peak_10s_per_s)
        ),
        format!(
            "  dispersion {} over 10 s, {} over 60 s",
            dispersion(outline.rate.idc_10s),
            dispersion(outline.rate.idc_60s)
        ),
        format!(
            "  tokens     {} in, {} out",
            outline.input_tokens, outline.output_tokens
        ),
    ];
    lines.extend(
        outline
            .findings
            .iter()
            .map(|finding| format!("  finding    {finding}")),
    );
    lines.push("nothing was sent".to_owned());
    lines.join("\n") + "\n"
}
