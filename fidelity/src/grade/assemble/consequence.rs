//! What a direction means for a reader, in words.

use crate::direction::simulated::{Change, NEUTRAL_RELATIVE};
use truetape_schemas::report::{Direction, Push, Simulation, Verdict};

/// The latency that a reader buys machines by.
const CORRECTED: (&str, &str) = ("ttft_p99", "p99 TTFT");

/// Beyond this a correction is told as a factor.
const AS_FACTOR: f64 = 1.0;

/// The second half of a report's sentence.
pub(super) fn of(
    verdict: Verdict,
    overall: Direction,
    pushes: &[Push],
    simulations: &[Simulation],
) -> String {
    let mut text = format!("; {}{}", hedge(verdict, overall), consequence(overall));
    if matches!(overall, Direction::Optimistic | Direction::Pessimistic) {
        text.push_str(&because(overall, pushes));
        text.push_str(&correction(overall, simulations).unwrap_or_default());
    }
    text
}

/// Without a failure a direction is a leaning.
fn hedge(verdict: Verdict, overall: Direction) -> &'static str {
    match overall {
        Direction::Optimistic | Direction::Pessimistic if verdict != Verdict::Fail => {
            "if anything, "
        }
        _ => "",
    }
}

fn consequence(overall: Direction) -> &'static str {
    match overall {
        Direction::Optimistic => {
            "this replay is optimistic: results will look better than production"
        }
        Direction::Pessimistic => {
            "this replay is pessimistic: results will look worse than production"
        }
        Direction::Mixed => "what was found pushes results both ways",
        Direction::Neutral => "nothing that was found bends results",
        Direction::Unknown => "which way results are bent is not known",
    }
}

fn because(overall: Direction, pushes: &[Push]) -> String {
    let same = pushes
        .iter()
        .find(|push| push.direction == overall && !push.reason.is_empty());
    same.map_or_else(
        || ", though no dimension alone says so".to_owned(),
        |push| format!(", mostly because {}", push.reason.replace(':', ",")),
    )
}

/// What to do to a measured p99 of TTFT, where the engine model knows.
fn correction(overall: Direction, simulations: &[Simulation]) -> Option<String> {
    let (measure, words) = CORRECTED;
    let change = Change::of(simulations, measure)?;
    if change.direction() != overall {
        return None;
    }
    // Production is what was measured, without the change.
    let mut ends = [change.low_ln, change.high_ln].map(|ln| (-ln).exp());
    ends.sort_by(|a, b| (a - 1.0).abs().total_cmp(&(b - 1.0).abs()));
    let [least, most] = ends;
    let way = if most > 1.0 { "upward" } else { "downward" };
    let amount = if (most - 1.0).abs() > AS_FACTOR {
        factors(least, most)
    } else {
        percents(least, most)
    };
    Some(format!(
        "; correct {words} {way} {amount}, by the engine model"
    ))
}

fn factors(least: f64, most: f64) -> String {
    let [low, high] = [least, most].map(|factor| format!("{factor:.1}"));
    if low == high {
        format!("by a factor of about {high}")
    } else {
        format!("by a factor of {low} to {high}")
    }
}

fn percents(least: f64, most: f64) -> String {
    let percent = |factor: f64| ((factor - 1.0).abs() * 100.0).round();
    // The engine that says least may say the other way, within what is neutral.
    let crosses = (least - 1.0) * (most - 1.0) < 0.0;
    let low = if crosses { 0.0 } else { percent(least) };
    let high = percent(most);
    if high - low <= 100.0 * NEUTRAL_RELATIVE {
        format!("by about {high:.0} %")
    } else {
        format!("by {low:.0} to {high:.0} %")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corrections_are_told_as_far_as_engines_agree() {
        assert_eq!(percents(1.10, 1.12), "by about 12 %");
        assert_eq!(percents(1.08, 1.15), "by 8 to 15 %");
        assert_eq!(percents(0.99, 1.15), "by 0 to 15 %");
        assert_eq!(percents(0.80, 0.75), "by 20 to 25 %");
        assert_eq!(factors(2.04, 2.0), "by a factor of about 2.0");
        assert_eq!(factors(1.4, 3.0), "by a factor of 1.4 to 3.0");
    }

    #[test]
    fn without_a_failure_it_is_a_leaning_and_without_a_cause_that_is_said() {
        let text = of(Verdict::Pass, Direction::Pessimistic, &[], &[]);
        assert_eq!(
            text,
            "; if anything, this replay is pessimistic: results will look worse than production, \
             though no dimension alone says so"
        );
        assert_eq!(
            of(Verdict::Pass, Direction::Neutral, &[], &[]),
            "; nothing that was found bends results"
        );
    }
}
