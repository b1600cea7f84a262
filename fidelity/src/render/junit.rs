//! Reports as JUnit XML: a test case a dimension, and one a rule of the gate.
//!
//! What CI counts as failed is what the exit code says. With a gate only its rules fail, together
//! with the failed dimensions it asks for; other failed dimensions are skipped, and say so. Without
//! one, a dimension that is FAIL is a failure. UNKNOWN is skipped, with the reason.

use crate::gate::{Gate, Outcome};
use std::fmt::Write as _;
use truetape_schemas::report::{Dimension, Level, Report, Verdict};

/// A report with what its gate came to.
#[derive(Clone, Copy, Debug)]
pub struct Judged<'a> {
    /// The report.
    pub report: &'a Report,
    /// The gate and its outcome, where there is one.
    pub gate: Option<(&'a Gate, &'a Outcome)>,
}

/// How a test case came out.
enum Case {
    Passed,
    Failed(String),
    Skipped(String),
}

/// A suite being written.
struct Suite {
    name: String,
    cases: String,
    tests: usize,
    failures: usize,
    skipped: usize,
}

impl Suite {
    fn new(name: String) -> Self {
        Self {
            name,
            cases: String::new(),
            tests: 0,
            failures: 0,
            skipped: 0,
        }
    }

    fn add(&mut self, class: &str, name: &str, case: &Case, out: &str) {
        self.tests += 1;
        let came = match case {
            Case::Passed => String::new(),
            Case::Failed(why) => {
                self.failures += 1;
                format!("<failure message=\"{}\"/>", escape(why))
            }
            Case::Skipped(why) => {
                self.skipped += 1;
                format!("<skipped message=\"{}\"/>", escape(why))
            }
        };
        // Writing to a `String` cannot fail.
        let _infallible = writeln!(
            self.cases,
            "    <testcase classname=\"{}\" name=\"{}\">{came}<system-out>{}</system-out></testcase>",
            escape(class),
            escape(name),
            escape(out)
        );
    }

    fn text(&self) -> String {
        format!(
            "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\">\n{}  </testsuite>\n",
            escape(&self.name),
            self.tests,
            self.failures,
            self.skipped,
            self.cases
        )
    }
}

/// Renders reports, two suites each at most.
pub(super) fn xml(all: &[Judged<'_>]) -> String {
    let suites: Vec<Suite> = all.iter().flat_map(suites).collect();
    let sum = |of: fn(&Suite) -> usize| suites.iter().map(of).sum::<usize>();
    let body: String = suites.iter().map(Suite::text).collect();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"truetape\" tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\">\n{body}</testsuites>\n",
        sum(|suite| suite.tests),
        sum(|suite| suite.failures),
        sum(|suite| suite.skipped)
    )
}

fn suites(judged: &Judged<'_>) -> Vec<Suite> {
    let subject = super::words::subject(judged.report);
    let mut dimensions = Suite::new(format!("fidelity: {subject}"));
    for dimension in &judged.report.dimensions {
        let case = case(dimension, judged.gate.map(|(gate, _)| gate));
        dimensions.add(
            level(dimension.level),
            &dimension.id,
            &case,
            &line(dimension),
        );
    }
    let Some((_, outcome)) = judged.gate else {
        return vec![dimensions];
    };
    let mut gate = Suite::new(format!("gate: {subject}"));
    for rule in &outcome.rules {
        let case = if rule.held {
            Case::Passed
        } else {
            Case::Failed(rule.said.clone())
        };
        gate.add("gate", &rule.name, &case, &rule.said);
    }
    vec![dimensions, gate]
}

fn case(dimension: &Dimension, gate: Option<&Gate>) -> Case {
    let asked = gate.is_none_or(|gate| gate.asks_for(&dimension.id));
    match dimension.verdict {
        Verdict::Pass => Case::Passed,
        Verdict::Fail if asked => Case::Failed(line(dimension)),
        Verdict::Fail => Case::Skipped(format!(
            "FAIL, which the gate does not ask for: {}",
            line(dimension)
        )),
        Verdict::Unknown => {
            let why = dimension.note.as_deref().unwrap_or("nobody can say");
            Case::Skipped(format!("UNKNOWN: {why}"))
        }
    }
}

fn level(level: Level) -> &'static str {
    match level {
        Level::SetAgainstSource => "set_against_source",
        Level::RunAgainstSet => "run_against_set",
        Level::Noise => "noise",
    }
}

fn line(dimension: &Dimension) -> String {
    use super::words::{deviation, tolerance, value};
    format!(
        "{}: value {}, target {}, deviation {}, tolerance {}, {} {}",
        dimension.title,
        value(dimension, dimension.value),
        value(dimension, dimension.target),
        deviation(dimension),
        tolerance(dimension),
        dimension.verdict.name(),
        dimension.direction.name()
    )
}

/// Text as it may stand in XML, which has no way at all to write most control characters.
fn escape(text: &str) -> String {
    let allowed = |c: char| !c.is_control() && !matches!(c, '\u{fffe}' | '\u{ffff}');
    let plain: String = text
        .chars()
        .map(|c| if allowed(c) { c } else { ' ' })
        .collect();
    super::svg::escape(&plain)
}

#[cfg(test)]
mod tests {
    use super::super::tests::short_answers;
    use super::*;
    use crate::gate::Rule;

    fn of(gate: Option<(&Gate, &Outcome)>) -> String {
        let report = short_answers();
        xml(&[Judged {
            report: &report,
            gate,
        }])
    }

    #[test]
    fn without_a_gate_what_failed_is_a_failure_and_what_is_unknown_is_skipped() {
        let report = short_answers();
        let of_verdict = |verdict| {
            report
                .dimensions
                .iter()
                .filter(|d| d.verdict == verdict)
                .count()
        };
        let text = of(None);
        let counted = format!(
            "tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\"",
            report.dimensions.len(),
            of_verdict(Verdict::Fail),
            of_verdict(Verdict::Unknown)
        );
        // Once for all suites, once for the only one.
        assert_eq!(text.matches(&counted).count(), 2, "{text}");
        assert!(
            text.contains("<skipped message=\"UNKNOWN: 240 turns; this quantile needs 662\"/>")
        );
        assert!(text.contains("<failure message=\"output tokens"), "{text}");
    }

    #[test]
    fn with_a_gate_only_what_it_asks_for_fails() {
        let gate = Gate {
            must_pass: vec!["output_tokens.p50".to_owned()],
            ..Gate::default()
        };
        let outcome = Outcome {
            rules: vec![Rule {
                name: "must_pass output_tokens.p50".to_owned(),
                held: false,
                said: "1 < 2 & \u{1}".to_owned(),
            }],
        };
        let text = of(Some((&gate, &outcome)));
        assert_eq!(text.matches("<failure ").count(), 2, "{text}");
        assert!(text.contains("<skipped message=\"FAIL, which the gate does not ask for"));
        assert!(
            text.contains("<failure message=\"1 &lt; 2 &amp;  \"/>"),
            "{text}"
        );
    }
}
