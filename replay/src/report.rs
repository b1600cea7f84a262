//! Draws the report of a run, fresh or from its directory.

use crate::cli::{FailOn, Format, ReportArgs};
use crate::error::Error;
use crate::load;
use crate::shard::merge::{self, Part};
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use truetape_fidelity::latency::Summary;
use truetape_fidelity::latency::stats::Stats;
use truetape_fidelity::render;
use truetape_schemas::blame::Answer;
use truetape_schemas::report::{Report, Verdict};
use truetape_schemas::run::{self, Run, Step};

/// Prints the reports of runs that are on disk.
pub fn run(args: ReportArgs) -> Result<Answer, Error> {
    print(&draw(&args)?)?;
    Ok(Answer::Yes)
}

/// Draws the reports of runs that are on disk.
pub fn draw(args: &ReportArgs) -> Result<String, Error> {
    if let Some(set) = &args.set {
        return draw_merged(args, set);
    }
    let mut runs: Vec<(&Path, Run, Report)> = Vec::with_capacity(args.runs.len());
    for dir in &args.runs {
        runs.push((dir, run::open(dir)?, report_of(dir)?));
    }
    if let [_, (dir, run, _), ..] = runs.as_slice()
        && let Some(shard) = merge::shard(run)
    {
        let problem = format!(
            "missing: {} is shard {shard} of a run, and shards are judged together, against the set",
            dir.display()
        );
        return Err(Error::config("--set", problem));
    }
    Ok(match (args.format, runs.as_slice()) {
        (Format::Json, [(_, run, report)]) => pretty(&json(run, report)),
        (Format::Json, several) => {
            let all = several
                .iter()
                .map(|(_, run, report)| json(run, report))
                .collect();
            pretty(&serde_json::Value::Array(all))
        }
        (format, several) => {
            let each = several
                .iter()
                .map(|(dir, run, report)| drawn(format, dir, run, report));
            each.collect::<Vec<String>>().join("\n")
        }
    })
}

/// Draws one report of all the shards of a run.
fn draw_merged(args: &ReportArgs, set: &str) -> Result<String, Error> {
    let set = load::load(set, args.store.as_deref())?;
    let parts: Result<Vec<Part>, Error> = args.runs.iter().map(|dir| Part::open(dir)).collect();
    let (run, report) = merge::merge(parts?, &set)?;
    let first = args.runs.first().map_or(Path::new(""), PathBuf::as_path);
    Ok(match args.format {
        Format::Json => pretty(&json(&run, &report)),
        format => drawn(format, first, &run, &report),
    })
}

fn report_of(dir: &Path) -> Result<Report, Error> {
    load::report(&dir.join(run::FIDELITY))
}

/// Prints the report of a run that has just ended.
pub fn show(format: Format, dir: &Path, run: &Run, report: &Report) -> Result<(), Error> {
    match format {
        Format::Json => print(&pretty(&json(run, report))),
        format => print(&drawn(format, dir, run, report)),
    }
}

fn json(run: &Run, report: &Report) -> serde_json::Value {
    serde_json::json!({"run": run, "report": report})
}

fn pretty(value: &serde_json::Value) -> String {
    format!("{value:#}\n")
}

fn drawn(format: Format, dir: &Path, run: &Run, report: &Report) -> String {
    if format == Format::Markdown {
        return render::markdown(report);
    }
    let color = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let ended = |text: String| {
        if text.ends_with('\n') {
            text
        } else {
            text + "\n"
        }
    };
    format!(
        "{}\n{}",
        ended(render::terminal(report, color)),
        measured(dir, run)
    ) + &last_word(report)
}

/// What was measured, in a few lines: the report above says how far to trust it.
fn measured(dir: &Path, run: &Run) -> String {
    let summary: Summary = serde_json::from_value(run.summary.clone()).unwrap_or_default();
    let mut lines = vec![
        format!(
            "run {} of {} against {}",
            run.run_id, run.set_name, run.target
        ),
        format!("  in {}", dir.display()),
        format!("  {}: {}", run.validity, accounted(run)),
        format!(
            "  rate mean {} of {} planned, peak (1 s) {} of {} planned, a second",
            number(summary.achieved.mean_per_s),
            number(summary.planned.mean_per_s),
            number(summary.achieved.peak_1s_per_s),
            number(summary.planned.peak_1s_per_s),
        ),
        format!(
            "  dispersion (10 s) {} of {} planned, (60 s) {} of {} planned",
            number(summary.achieved.idc_10s),
            number(summary.planned.idc_10s),
            number(summary.achieved.idc_60s),
            number(summary.planned.idc_60s),
        ),
        format!(
            "  {:<22} {:>10} {:>10} {:>10}",
            "milliseconds", "p50", "p90", "p99"
        ),
    ];
    let rows: [(&str, &Stats); 7] = [
        ("lateness", &summary.lateness_ms),
        ("TTFT from send", &summary.from_send.ttft_ms),
        ("TTFT from due", &summary.from_due.ttft_ms),
        ("ITL", &summary.itl_ms),
        ("TPOT", &summary.tpot_ms),
        ("E2EL from send", &summary.from_send.e2el_ms),
        ("E2EL from due", &summary.from_due.e2el_ms),
    ];
    for (name, stats) in rows {
        let [p50, p90, p99] = [stats.p50, stats.p90, stats.p99].map(number);
        lines.push(format!("  {name:<22} {p50:>10} {p90:>10} {p99:>10}"));
    }
    lines.extend(counted(run));
    lines.extend(run.steps.iter().map(step));
    lines.extend(merge::lines(run));
    lines.extend(
        run.validity_reasons
            .iter()
            .map(|reason| format!("  {}: {reason}", run.validity)),
    );
    lines.join("\n") + "\n"
}

/// One step of the rate.
fn step(step: &Step) -> String {
    let summary: Summary = serde_json::from_value(step.summary.clone()).unwrap_or_default();
    format!(
        "  step of {:<13} {} a second; TTFT from due p50 {}, p99 {}; TPOT p50 {}; {} of {} failed",
        format!("{}x", step.rate_scale),
        number(summary.achieved.mean_per_s),
        number(summary.from_due.ttft_ms.p50),
        number(summary.from_due.ttft_ms.p99),
        number(summary.tpot_ms.p50),
        summary.requests.failed,
        summary.requests.sent,
    )
}

/// What the target counted itself, where it does.
fn counted(run: &Run) -> Option<String> {
    let counters = run
        .counters
        .as_ref()
        .filter(|counters| 0 < counters.scrapes)?;
    let percent = |share: Option<f64>| {
        share.map_or_else(
            || "unknown".to_owned(),
            |share| format!("{:.1} %", share * 100.0),
        )
    };
    let count = |value: Option<f64>| {
        value.map_or_else(|| "unknown".to_owned(), |value| format!("{value:.0}"))
    };
    Some(format!(
        "  target's counters: cached {} of the prompts, KV usage peak {}, running peak {}, waiting peak {}, preemptions {}",
        percent(counters.cached_share()),
        percent(counters.kv_usage_peak),
        count(counters.running_peak),
        count(counters.waiting_peak),
        count(counters.preemptions),
    ))
}

/// The verdict once more: on a terminal the first line has scrolled away.
fn last_word(report: &Report) -> String {
    let (verdict, direction) = (report.verdict.name(), report.direction.name());
    format!("\n{verdict} {direction}: {}\n", report.sentence)
}

fn accounted(run: &Run) -> String {
    let account = &run.account;
    let by = |counts: &std::collections::BTreeMap<String, u64>| {
        let each: Vec<String> = counts
            .iter()
            .map(|(why, count)| format!("{count} {why}"))
            .collect();
        if each.is_empty() {
            "none".to_owned()
        } else {
            each.join(", ")
        }
    };
    format!(
        "{} due, {} sent, {} answered; not sent: {}; failed: {}",
        account.due,
        account.sent,
        account.answered,
        by(&account.not_sent),
        by(&account.failed),
    )
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "unknown".to_owned(), |value| format!("{value:.1}"))
}

/// What the verdict of a run answers.
pub fn answer(verdict: Verdict, fail_on: FailOn) -> Answer {
    match (fail_on, verdict) {
        (FailOn::Never, _) | (_, Verdict::Pass) | (FailOn::Fail, Verdict::Unknown) => Answer::Yes,
        (FailOn::Unknown, Verdict::Unknown) | (_, Verdict::Fail) => Answer::No,
    }
}

/// Writes data to stdout. A reader that has gone away, as `head` does, is not an error.
pub fn print(text: &str) -> Result<(), Error> {
    let mut stdout = std::io::stdout().lock();
    let written = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
    match written {
        Err(cause) if cause.kind() != std::io::ErrorKind::BrokenPipe => Err(Error::Host {
            what: "stdout".to_owned(),
            cause,
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_no_where_the_user_drew_the_line() {
        use {FailOn as On, Verdict as V};
        let cases = [
            (On::Fail, [Answer::Yes, Answer::Yes, Answer::No]),
            (On::Unknown, [Answer::Yes, Answer::No, Answer::No]),
            (On::Never, [Answer::Yes, Answer::Yes, Answer::Yes]),
        ];
        for (fail_on, answers) in cases {
            let verdicts = [V::Pass, V::Unknown, V::Fail];
            assert_eq!(
                verdicts.map(|verdict| answer(verdict, fail_on)),
                answers,
                "{fail_on:?}"
            );
        }
    }

    #[test]
    fn a_run_without_answers_has_a_summary_of_unknowns() {
        let run = Run {
            validity: "stopped".into(),
            ..Run::default()
        };
        let text = measured(Path::new("r"), &run);
        assert!(text.contains("TTFT from due             unknown"), "{text}");
        assert!(
            text.contains("0 due, 0 sent, 0 answered; not sent: none; failed: none"),
            "{text}"
        );
    }
}
