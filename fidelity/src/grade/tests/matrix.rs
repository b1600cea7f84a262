//! The distortion matrix: what is done to a set or a run, what catches it, and which way it bends.
//!
//! The page `docs/fidelity.md` has the same table, row by row; a distortion that one of them lacks
//! fails a test. The set is a known-good one that passes everywhere, so what fails is the
//! distortion's doing.

use super::*;
use Direction::{Mixed, Neutral, Optimistic, Pessimistic};

mod lengths;
mod mixed;
mod replayed;
mod reuse;
mod time;

const PAGE: &str = include_str!("../../../../docs/fidelity.md");

/// The heading of the page's table, and the one after it.
const PAGE_FROM: &str = "## One distortion at a time";
const PAGE_TO: &str = "## How far to trust a direction";

/// One distortion.
struct Row {
    /// As the page names it.
    distortion: &'static str,
    /// The report of a set or a run that suffered it.
    report: fn() -> Report,
    /// What fails, each in its direction; the first one is the distortion's own dimension.
    fails: &'static [(&'static str, Direction)],
    /// What must not fail.
    holds: &'static [&'static str],
    /// The direction of the whole report, where it does not depend on the population.
    overall: Option<Direction>,
}

const fn row(
    distortion: &'static str,
    report: fn() -> Report,
    fails: &'static [(&'static str, Direction)],
) -> Row {
    Row {
        distortion,
        report,
        fails,
        holds: &[],
        overall: None,
    }
}

impl Row {
    const fn and(mut self, overall: Direction) -> Self {
        self.overall = Some(overall);
        self
    }

    const fn but(mut self, holds: &'static [&'static str]) -> Self {
        self.holds = holds;
        self
    }

    /// What the report says otherwise than the row.
    fn wrong(&self) -> Vec<String> {
        let report = (self.report)();
        let mut wrong = Vec::new();
        let mut expect = |is: bool, found: &dyn std::fmt::Debug| {
            if !is {
                wrong.push(format!("{}: {found:?}", self.distortion));
            }
        };
        for (id, direction) in self.fails {
            let found = find(&report, id);
            let caught = (found.verdict, found.direction) == (Verdict::Fail, *direction);
            expect(caught, found);
        }
        for id in self.holds {
            let found = find(&report, id);
            expect(found.verdict != Verdict::Fail, found);
        }
        expect(report.verdict == Verdict::Fail, &report.verdict);
        if let Some(overall) = self.overall {
            expect(
                report.direction == overall,
                &(report.direction, &report.pushes),
            );
        }
        wrong
    }
}

/// What is caught.
#[rustfmt::skip]
const CAUGHT: &[Row] = &[
    row("requests drawn one by one", reuse::one_by_one,
        &[("prefix.intra_session", Pessimistic), ("prefix.infinite_hit_ratio", Pessimistic), ("turns_per_session.mean", Mixed), ("turns_per_session.cdf", Mixed)]),
    row("unique prompts", reuse::unique,
        &[("prefix.infinite_hit_ratio", Pessimistic), ("prefix.intra_session", Pessimistic), ("prefix.shared", Pessimistic), ("prefix.curve_mae", Pessimistic), ("prefix.curve_max", Pessimistic)])
        .but(&["input_tokens.p50", "output_tokens.p50", "arrivals.rate"]).and(Pessimistic),
    row("a second pass without a salt", reuse::second_pass,
        &[("prefix.infinite_hit_ratio", Optimistic), ("prefix.shared", Optimistic)]),
    row("requests in another order", reuse::shuffled,
        &[("prefix.curve_mae", Pessimistic)])
        .but(&["prefix.infinite_hit_ratio", "input_tokens.p99", "arrivals.idc_10s"]),
    row("a window that begins in the middle of sessions", reuse::cold_start,
        &[("prefix.infinite_hit_ratio", Pessimistic)]),
    row("Poisson arrivals for bursty ones", time::poisson,
        &[("arrivals.idc_10s", Optimistic), ("arrivals.peak_10s", Optimistic)])
        .but(&["arrivals.rate", "think_time.p50"]).and(Optimistic),
    row("steady arrivals for bursty ones", time::steady,
        &[("arrivals.idc_10s", Optimistic), ("arrivals.peak_10s", Optimistic)])
        .but(&["arrivals.rate", "think_time.p50"]).and(Optimistic),
    row("copies of the users at the same instants", time::copies,
        &[("arrivals.idc_10s", Pessimistic)])
        .but(&["arrivals.rate", "arrivals.peak_10s"]),
    row("all time halved", time::halved,
        &[("arrivals.rate", Pessimistic), ("think_time.p50", Optimistic)]),
    row("half of the sessions in half of the time", time::half_in_half,
        &[("think_time.p50", Optimistic), ("think_time.p90", Optimistic)])
        .but(&["arrivals.rate"]),
    row("pauses capped", time::capped,
        &[("think_time.p90", Optimistic)])
        .but(&["think_time.p50", "input_tokens.p50"]),
    row("a tenth more sessions per second", time::tenth_more,
        &[("arrivals.rate", Pessimistic)])
        .but(&["think_time.p50", "prefix.infinite_hit_ratio", "tokens.input"]),
    row("a tenth fewer sessions per second", time::tenth_fewer,
        &[("arrivals.rate", Optimistic)])
        .but(&["think_time.p50", "prefix.infinite_hit_ratio", "tokens.input"]),
    row("answers half as long", lengths::answers_halved,
        &[("output_tokens.p50", Optimistic), ("tokens.output", Optimistic), ("output_tokens.p90", Optimistic), ("output_tokens.p99", Optimistic), ("output_tokens.p99_rank", Optimistic)])
        .but(&["input_tokens.p50", "arrivals.rate"]).and(Optimistic),
    row("answers twice as long", lengths::answers_doubled,
        &[("output_tokens.p50", Pessimistic), ("tokens.output", Pessimistic), ("output_tokens.p90", Pessimistic), ("output_tokens.p99", Pessimistic), ("output_tokens.p99_rank", Pessimistic)])
        .but(&["input_tokens.p50", "arrivals.rate"]).and(Pessimistic),
    // The median answer is longer than it was.
    row("all answers of the mean length", lengths::answers_constant,
        &[("output_tokens.p99_rank", Optimistic), ("output_tokens.p90", Optimistic), ("output_tokens.p99", Optimistic), ("output_tokens.p50", Pessimistic)])
        .but(&["tokens.output"]).and(Mixed),
    row("prompts and answers paired otherwise", lengths::paired,
        &[("joint.spearman", Neutral)])
        .but(&["input_tokens.p99", "output_tokens.p99", "tokens.output"]),
    row("the longest 1 % of the prompts left out", lengths::longest_dropped,
        &[("input_tokens.p99_rank", Optimistic), ("tokens.input", Optimistic)]),
    row("prompts cut at a length", lengths::prompts_truncated,
        &[("input_tokens.p99", Optimistic), ("input_tokens.p90", Optimistic), ("prefix.infinite_hit_ratio", Optimistic)])
        .but(&["output_tokens.p50", "arrivals.rate"]).and(Optimistic),
    row("prompts beyond a length left out", lengths::long_dropped,
        &[("input_tokens.p99_rank", Optimistic), ("input_tokens.p90", Optimistic), ("tokens.input", Optimistic)]),
    // Long prompts lose what nobody had computed before, short ones gain it: a third less is reused.
    row("all prompts of the mean length", lengths::prompts_constant,
        &[("input_tokens.p99", Optimistic), ("input_tokens.p50", Pessimistic)])
        .but(&["tokens.input"]).and(Pessimistic),
    row("long sessions left out", lengths::long_sessions_dropped,
        &[("turns_per_session.mean", Mixed), ("input_tokens.p99_rank", Optimistic)]),
    row("first turns only", lengths::first_turns,
        &[("turns_per_session.cdf", Mixed), ("turns_per_session.mean", Mixed), ("input_tokens.p90", Optimistic), ("prefix.intra_session", Pessimistic)])
        .and(Mixed),
    row("fewer models", mixed::fewer_models,
        &[("mix.models_effective", Optimistic), ("mix.models", Optimistic)])
        .but(&["input_tokens.p50", "arrivals.rate", "mix.tenants_effective"]).and(Optimistic),
    row("fewer tenants", mixed::fewer_tenants,
        &[("mix.tenants_effective", Optimistic), ("mix.tenants", Optimistic)])
        .but(&["input_tokens.p50", "arrivals.rate", "mix.models_effective"]).and(Optimistic),
    row("tools left out", mixed::no_tools,
        &[("mix.tools", Neutral)])
        .but(&["mix.models", "input_tokens.p50"]),
    row("requests that failed left out", mixed::no_failures,
        &[("outcomes.errors", Optimistic)])
        .but(&["outcomes.retries", "outcomes.aborts"]),
    row("repeated requests left out", mixed::no_retries,
        &[("outcomes.retries", Optimistic)])
        .but(&["outcomes.errors", "outcomes.aborts"]),
    row("a closed loop at the mean concurrency", replayed::closed_loop,
        &[("run.arrivals.idc_10s", Optimistic), ("run.arrivals.peak_10s", Optimistic)])
        .but(&["run.completed", "run.output_tokens.ratio"]),
    row("a limit of requests in flight", replayed::limited,
        &[("run.lateness.p99", Mixed)])
        .but(&["run.completed", "run.output_tokens.ratio"]),
    row("a late client", replayed::late_client,
        &[("run.lateness.p99", Mixed), ("run.validity", Neutral)]),
    row("answers not held to their length", replayed::short_answers,
        &[("run.output_tokens.ratio", Optimistic), ("run.output_tokens.within_1", Optimistic)])
        .and(Optimistic),
    row("answers that run on", replayed::long_answers,
        &[("run.output_tokens.ratio", Pessimistic), ("run.output_tokens.within_1", Pessimistic)])
        .and(Pessimistic),
    row("failures left out", replayed::failures,
        &[("run.completed", Optimistic)]),
    row("a template that makes prompts longer", replayed::longer_template,
        &[("run.input_tokens.ratio", Pessimistic)])
        .but(&["run.output_tokens.ratio"]).and(Pessimistic),
    row("a tokenizer that makes prompts shorter", replayed::shorter_tokenizer,
        &[("run.input_tokens.ratio", Optimistic)])
        .but(&["run.output_tokens.ratio"]).and(Optimistic),
    row("a cache that knows the prompts", replayed::warm_cache,
        &[("run.cached_tokens.simulated", Optimistic)])
        .but(&["run.completed"]).and(Optimistic),
    row("a cache not scaled with the sample", replayed::unscaled_cache,
        &[("run.cache.capacity", Optimistic)])
        .but(&["run.completed", "run.output_tokens.ratio"]).and(Optimistic),
];

/// What bends nothing, or what neither a set nor the log of a run can show: the page says why.
const NOT_CAUGHT: &[&str] = &[
    "Poisson arrivals for other Poisson arrivals",
    "a smaller replica",
    "recorded answers in the history",
    "degenerate text after an enforced length",
];

fn distortions() -> impl Iterator<Item = &'static str> {
    let caught = CAUGHT.iter().map(|row| row.distortion);
    caught.chain(NOT_CAUGHT.iter().copied())
}

#[test]
fn every_distortion_is_caught_by_its_own_dimension_with_the_right_sign() {
    let wrong: Vec<String> = CAUGHT.iter().flat_map(Row::wrong).collect();
    assert_eq!(wrong, Vec::<String>::new());
}

/// Without this a dimension that always fails would catch everything.
#[test]
fn the_set_and_the_run_without_distortion_fail_nowhere() {
    let source = super::known_good::population(super::known_good::SESSIONS);
    let set = super::known_good::grade(&source, &source);
    let run = super::runs::Replay::faithful().report();
    for report in [set, run] {
        assert_eq!(ids(&report, Verdict::Fail), Vec::<&str>::new());
    }
}

#[test]
fn the_page_has_the_same_distortions() {
    let (_, page) = PAGE.split_once(PAGE_FROM).unwrap();
    let (table, _) = page.split_once(PAGE_TO).unwrap();
    let rows: Vec<Vec<&str>> = table
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| what is done"))
        .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
        .collect();
    let on_page: Vec<&str> = rows.iter().map(|cells| cells[0]).collect();
    assert_eq!(on_page, distortions().collect::<Vec<_>>());
    for (row, cells) in CAUGHT.iter().zip(&rows) {
        let (id, direction) = row.fails[0];
        assert_eq!(cells[1], format!("`{id}`"), "{}", row.distortion);
        assert_eq!(cells[2], direction.name(), "{}", row.distortion);
    }
}

#[test]
fn poisson_for_poisson_bends_nothing() {
    let report = time::poisson_for_poisson();
    for id in ["arrivals.idc_1s", "arrivals.idc_10s"] {
        let dimension = find(&report, id);
        assert_ne!(dimension.deviation, Some(0.0), "{dimension:?}");
        assert_eq!(dimension.direction, Neutral, "{dimension:?}");
    }
}

#[test]
fn the_largest_cause_comes_first() {
    let unique = reuse::unique();
    assert_eq!(unique.pushes[0].dimension, "prefix.infinite_hit_ratio");
    for report in [time::poisson(), time::steady()] {
        let said = "above all in arrivals.idc";
        assert!(report.sentence.contains(said), "{}", report.sentence);
    }
}

#[test]
fn what_a_distortion_takes_away_is_unknown() {
    let first = lengths::first_turns();
    let pause = find(&first, "think_time.p50");
    assert_eq!(pause.verdict, Verdict::Unknown, "no pause is left");
    let copies = time::copies();
    let peak = find(&copies, "arrivals.peak_10s");
    assert_eq!(peak.verdict, Verdict::Unknown, "{peak:?}");
}

#[test]
fn thinning_whole_sessions_is_expected_to_change_the_dispersion() {
    let (as_half, as_whole) = time::thinned();
    for id in [
        "arrivals.idc_1s",
        "arrivals.idc_10s",
        "arrivals.idc_60s",
        "arrivals.peak_10s",
    ] {
        let dimension = find(&as_half, id);
        assert_ne!(dimension.verdict, Verdict::Fail, "{dimension:?}");
    }
    // Without saying that it is a sample, the same set is half the load.
    fails(
        &as_whole,
        &[("arrivals.rate", Optimistic), ("tokens.input", Optimistic)],
    );
}
