//! Reads a gate from its file.

use crate::error::Error;
use std::path::Path;
use truetape_fidelity::gate::Gate;

/// The flag that names the file.
const FLAG: &str = "--gate";

/// Reads a gate, and refuses one that says what nobody understands, or nothing.
pub(super) fn read(path: &Path) -> Result<Gate, Error> {
    let refuse = |problem: String| Error::config(FLAG, format!("{}: {problem}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|cause| refuse(cause.to_string()))?;
    let gate = parse(&text).map_err(refuse)?;
    Ok(gate)
}

fn parse(text: &str) -> Result<Gate, String> {
    let gate: Gate = toml::from_str(text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start));
        let line = before.map_or(1, |before| before.matches('\n').count() + 1);
        format!("line {line}: {}", error.message())
    })?;
    gate.check()?;
    Ok(gate)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn a_gate_is_read_with_everything_it_may_say() {
        let text = r#"
            must_pass = ["*"]
            may_be_unknown = ["input_tokens.p99"]
            directions = ["NEUTRAL", "PESSIMISTIC"]
            [bounds]
            clock = "from_send"
            failures = "left_out"
            error_rate = 0.01
            ttft_ms = { p50 = 300, p99 = 2000.5 }
            tpot_ms = { p90 = 40 }
            e2el_ms = { p95 = 9000 }
        "#;
        let gate = parse(text).unwrap();
        assert_eq!(gate.bounds.ttft_ms.p99, Some(2000.5));
        assert_eq!(gate.directions.len(), 2);
    }

    #[test]
    fn what_is_not_known_is_refused_with_its_line_and_with_what_is_allowed() {
        for (text, says) in [
            (
                "must_pas = []",
                "line 1: unknown field `must_pas`, expected one of `must_pass`",
            ),
            (
                "\n[bounds]\nttft_ms = { p42 = 1 }",
                "line 3: unknown field `p42`, expected one of `p50`",
            ),
            (
                "directions = [\"UP\"]",
                "line 1: unknown variant `UP`, expected one of `OPTIMISTIC`",
            ),
            (
                "[bounds]\nclock = \"noon\"",
                "line 2: unknown variant `noon`, expected `from_due` or `from_send`",
            ),
            ("", "holds no rule"),
        ] {
            let problem = parse(text).unwrap_err();
            assert!(problem.starts_with(says), "{text}: {problem}");
        }
    }
}
