//! A comparison in words.

use super::{Claim, Comparison, Effect};

/// The answer in a line.
pub(super) fn answer(comparison: &Comparison) -> String {
    let claimed: Vec<&Effect> = comparison
        .effects
        .iter()
        .filter(|effect| matches!(effect.claim, Claim::Slower | Claim::Faster))
        .collect();
    let (runs, against) = comparison.runs;
    let how = if comparison.paired {
        format!("{runs} pairs of runs")
    } else {
        format!("{runs} runs against {against}")
    };
    match comparison.claim {
        Claim::Unknown => format!("nothing can be claimed from {how}: {}", why(comparison)),
        Claim::None => format!("no difference was found in {how}{}", finest(comparison)),
        Claim::Slower | Claim::Faster => {
            let named: Vec<String> = claimed.iter().map(|effect| named(effect)).collect();
            let mixed = claimed
                .iter()
                .any(|effect| effect.claim != comparison.claim);
            let word = match (comparison.claim, mixed) {
                (_, true) => "slower and faster",
                (Claim::Slower, _) => "slower",
                _ => "faster",
            };
            format!("{word} in {how}: {}", named.join(", "))
        }
    }
}

fn why(comparison: &Comparison) -> String {
    let note = comparison
        .effects
        .iter()
        .find_map(|effect| effect.note.clone());
    note.unwrap_or_else(|| "nothing was measured".to_owned())
}

fn named(effect: &Effect) -> String {
    format!(
        "{} {}{}",
        title(&effect.measure),
        percent(effect.change),
        interval(effect.interval)
    )
}

/// What would have been found.
fn finest(comparison: &Comparison) -> String {
    let of = |name: &str| {
        let effect = comparison
            .effects
            .iter()
            .find(|effect| effect.measure == name)?;
        Some(format!(
            "{:.1} % of {}",
            100.0 * effect.detectable?,
            title(name)
        ))
    };
    let told: Vec<String> = ["ttft_p50", "ttft_p99", "tpot_p50"]
        .iter()
        .filter_map(|name| of(name))
        .collect();
    if told.is_empty() {
        return String::new();
    }
    format!("; differences of {} would have been", told.join(", "))
}

/// A comparison as a table for a terminal, or for Markdown.
pub fn table(comparison: &Comparison, markdown: bool) -> String {
    let mut text = format!("{}\n\n", comparison.answer);
    let head = [
        "measure",
        "against",
        "runs",
        "change",
        "95 % interval",
        "detectable",
        "A/A",
        "p",
        "claim",
    ];
    let rows: Vec<[String; 9]> = comparison.effects.iter().map(row).collect();
    if markdown {
        text.push_str(&format!(
            "| {} |\n|-|-:|-:|-:|-|-:|-:|-:|-|\n",
            head.join(" | ")
        ));
        for row in &rows {
            text.push_str(&format!("| {} |\n", row.join(" | ")));
        }
    } else {
        let line = |cells: Vec<&str>| {
            let padded = cells
                .iter()
                .zip(WIDTHS)
                .map(|(cell, width)| format!("{cell:<width$}"));
            format!("  {}\n", padded.collect::<String>().trim_end())
        };
        text.push_str(&line(head.to_vec()));
        for row in &rows {
            text.push_str(&line(row.iter().map(String::as_str).collect()));
        }
    }
    for effect in &comparison.effects {
        if let Some(note) = effect
            .note
            .as_ref()
            .filter(|_| effect.claim != Claim::Unknown)
        {
            let pairs = effect.pairs_needed.map_or(String::new(), |pairs| {
                format!("; {pairs} pairs would tell it")
            });
            text.push_str(&format!("\n{}: {note}{pairs}", title(&effect.measure)));
        }
    }
    for finding in &comparison.findings {
        text.push_str(&format!("\n- {finding}"));
    }
    format!("{}\n", text.trim_end())
}

const WIDTHS: [usize; 9] = [10, 11, 11, 9, 19, 11, 8, 8, 8];

fn row(effect: &Effect) -> [String; 9] {
    let ms = |value: Option<f64>| value.map_or("-".to_owned(), |ms| format!("{ms:.1} ms"));
    let size = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{:.1} %", 100.0 * v));
    let claim = match effect.claim {
        Claim::Slower => "SLOWER",
        Claim::Faster => "FASTER",
        Claim::None => "none",
        Claim::Unknown => "unknown",
    };
    [
        title(&effect.measure),
        ms(effect.target_ms),
        ms(effect.value_ms),
        percent(effect.change),
        interval(effect.interval).trim().to_owned(),
        size(effect.detectable),
        size(effect.against_itself),
        effect
            .p_corrected
            .map_or("-".to_owned(), |p| format!("{p:.3}")),
        claim.to_owned(),
    ]
}

fn percent(change: Option<f64>) -> String {
    change.map_or("-".to_owned(), |change| format!("{:+.1} %", 100.0 * change))
}

fn interval(interval: Option<(f64, f64)>) -> String {
    interval.map_or(String::new(), |(low, high)| {
        format!(" [{:+.1} %, {:+.1} %]", 100.0 * low, 100.0 * high)
    })
}

/// `ttft_p99` as people write it.
fn title(measure: &str) -> String {
    let (what, rank) = measure.split_once('_').unwrap_or((measure, ""));
    format!("{} {rank}", what.to_uppercase())
}
