//! The data card: what a person should know about a set before using it.

use std::fmt::Write as _;
use truetape_schemas::report::Report;
use truetape_schemas::set::manifest::{Manifest, Stage};

/// Renders the card.
pub(crate) fn render(manifest: &Manifest, report: &Report) -> String {
    let mut card = format!("# {}\n\n", manifest.name);
    // Writing to a `String` cannot fail.
    let _infallible = write_head(&mut card, manifest, report);
    card.push_str("\n## What was taken, and what was left\n\n");
    card.push_str("| stage | read | taken | left | marked |\n|---|---:|---:|---|---|\n");
    for stage in &manifest.stages {
        card.push_str(&row(stage));
    }
    if !manifest.findings.is_empty() {
        card.push_str("\n## Before you trust it\n\n");
        for finding in &manifest.findings {
            card.push_str(&format!("- {finding}\n"));
        }
    }
    card.push_str(&format!(
        "\n## Recipe\n\n```json\n{:#}\n```\n",
        manifest.recipe
    ));
    card
}

fn write_head(card: &mut String, manifest: &Manifest, report: &Report) -> std::fmt::Result {
    let counts = &manifest.counts;
    writeln!(
        card,
        "A replay set of truetape {}, `sha256:{}`.\n",
        manifest.tool_version, manifest.digest
    )?;
    writeln!(card, "| | |\n|---|---|")?;
    writeln!(
        card,
        "| turns | {} in {} sessions |",
        counts.turns, counts.sessions
    )?;
    writeln!(
        card,
        "| tokens | {} prompt, {} generated |",
        counts.input_tokens, counts.output_tokens
    )?;
    writeln!(
        card,
        "| stands for | one {} at the {} rate |",
        manifest.semantics.view, manifest.semantics.rate
    )?;
    if let Some(control) = &manifest.semantics.control {
        writeln!(
            card,
            "| **control set** | generated, no sample: {control} |"
        )?;
    }
    writeln!(
        card,
        "| prompts | {}, {} parts |",
        manifest.semantics.content, counts.content_parts
    )?;
    writeln!(card, "| tokenizer | {} |", manifest.tokenizer.name)?;
    writeln!(card, "| fidelity, level 1 | {} |", report.verdict.name())?;
    writeln!(card, "| direction | {} |\n", report.direction.name())?;
    writeln!(card, "{}", report.sentence)
}

fn row(stage: &Stage) -> String {
    let list = |counts: &std::collections::BTreeMap<String, u64>| {
        let items: Vec<String> = counts
            .iter()
            .map(|(what, n)| format!("{what} {n}"))
            .collect();
        items.join(", ")
    };
    format!(
        "| {} | {} | {} | {} | {} |\n",
        stage.name,
        stage.read,
        stage.taken,
        list(&stage.left),
        list(&stage.marked)
    )
}
