//! Whether an exchange came out the same.

use crate::stage::Came;
use std::time::Duration;

/// How an exchange came out.
#[derive(Debug)]
pub(crate) enum Verdict {
    Same,
    Differs(Vec<String>),
}

/// The upstream must know so soon that its client has gone: 100 ms are promised, and a busy
/// machine may be this much later.
const KNOWN_WITHIN: Duration = Duration::from_secs(2);

/// Judges what came of an entry. Nothing may differ.
pub(crate) fn judge(came: &Came) -> Verdict {
    let line = |difference: &crate::compare::Difference| {
        format!("{}: {}", difference.key, difference.text)
    };
    let mut wrong: Vec<String> = came.differences.iter().map(line).collect();
    if let Some((_, proxied)) = came.gone
        && proxied > KNOWN_WITHIN
    {
        wrong.push(format!("the upstream knew only after {proxied:?}"));
    }
    if wrong.is_empty() {
        Verdict::Same
    } else {
        Verdict::Differs(wrong)
    }
}
