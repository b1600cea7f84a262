//! The seven points that every report answers first.

use truetape_schemas::report::{CheckPoint, Dimension, Direction, Push, Verdict};

/// The points that rest on dimensions: number, question, and what the ids start with.
const MEASURED: [(u8, &str, &[&str]); 5] = [
    (
        1,
        "are prompts as long as in production, counted by turn and by token?",
        &["tokens.input", "input_tokens", "joint", "run.input_tokens"],
    ),
    (
        2,
        "are sessions replayed as sessions, with production's prefix reuse?",
        &[
            "turns_per_session",
            "think_time",
            "prefix",
            "mix.models",
            "mix.tenants",
            "mix.stream",
            "mix.tools",
            "mix.schemas",
            "mix.sampling",
            "outcomes.retries",
            "run.completed",
            "run.order",
            "run.think_time",
            "run.cached_tokens",
            "run.cache",
        ],
    ),
    (
        3,
        "is the shape of the bursts kept?",
        &[
            "arrivals",
            "work",
            "kv",
            "run.arrivals",
            "run.lateness",
            "run.validity",
        ],
    ),
    (
        4,
        "are answers as long as in production?",
        &[
            "tokens.output",
            "output_tokens",
            "mix.limits",
            "outcomes.errors",
            "outcomes.aborts",
            "outcomes.finish_reasons",
            "run.output_tokens",
        ],
    ),
    (
        5,
        "is the run isolated: no prefixes of earlier runs, no real downstream?",
        &["run.isolation"],
    ),
];

/// Answers the seven points.
pub fn points(
    dimensions: &[Dimension],
    overall: Direction,
    pushes: &[Push],
    is_run: bool,
) -> Vec<CheckPoint> {
    let mut points: Vec<CheckPoint> = MEASURED
        .iter()
        .map(|(number, question, prefixes)| {
            measured(*number, question, prefixes, dimensions, is_run)
        })
        .collect();
    points.push(unknowns(dimensions));
    let failed = dimensions
        .iter()
        .any(|dimension| dimension.verdict == Verdict::Fail);
    points.push(directions(overall, failed, pushes));
    points
}

fn measured(
    number: u8,
    question: &str,
    prefixes: &[&str],
    dimensions: &[Dimension],
    is_run: bool,
) -> CheckPoint {
    let on: Vec<&Dimension> = dimensions
        .iter()
        .filter(|dimension| prefixes.iter().any(|prefix| starts(&dimension.id, prefix)))
        .collect();
    let verdict = on
        .iter()
        .map(|dimension| dimension.verdict)
        .max()
        .unwrap_or(Verdict::Unknown);
    let answer = match (number, on.is_empty()) {
        (5, true) if !is_run => "a set alone cannot say; the replayer's flags decide".to_owned(),
        (_, true) => "nothing was measured".to_owned(),
        _ => answer(&on),
    };
    CheckPoint {
        number,
        question: question.to_owned(),
        verdict,
        answer,
        dimensions: on.iter().map(|dimension| dimension.id.clone()).collect(),
    }
}

/// Ids are dotted paths: `work` is not the start of `workers`.
fn starts(id: &str, prefix: &str) -> bool {
    id.strip_prefix(prefix)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '_']))
}

fn answer(on: &[&Dimension]) -> String {
    let of = |wanted: Verdict| {
        on.iter()
            .copied()
            .filter(move |dimension| dimension.verdict == wanted)
            .collect::<Vec<_>>()
    };
    let (passed, failed, unknown) = (of(Verdict::Pass), of(Verdict::Fail), of(Verdict::Unknown));
    let mut parts = vec![format!("{} of {} within tolerance", passed.len(), on.len())];
    let listed = |dimensions: &[&Dimension]| {
        let texts: Vec<String> = dimensions
            .iter()
            .take(NAMED_MAX)
            .map(|dimension| format!("{} {}", dimension.id, crate::render::deviation(dimension)))
            .collect();
        let more = dimensions.len().saturating_sub(NAMED_MAX);
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        format!("{}{more}", texts.join(", "))
    };
    if !failed.is_empty() {
        parts.push(format!("outside: {}", listed(&failed)));
    }
    if let Some(first) = unknown.first() {
        let why = first.note.as_deref().unwrap_or("no evidence");
        parts.push(format!("{} unknown, as {}: {why}", unknown.len(), first.id));
    }
    parts.join("; ")
}

/// Dimensions that an answer names before it counts.
const NAMED_MAX: usize = 3;

fn unknowns(dimensions: &[Dimension]) -> CheckPoint {
    let names: Vec<String> = dimensions
        .iter()
        .filter(|dimension| dimension.verdict == Verdict::Unknown)
        .map(|dimension| dimension.id.clone())
        .collect();
    let answer = match names.len() {
        0 => "every dimension could be judged".to_owned(),
        count => format!("{count} of {}: {}", dimensions.len(), names.join(", ")),
    };
    CheckPoint {
        number: 6,
        question: "what could not be computed?".to_owned(),
        verdict: if names.is_empty() {
            Verdict::Pass
        } else {
            Verdict::Unknown
        },
        answer,
        dimensions: names,
    }
}

fn directions(overall: Direction, failed: bool, pushes: &[Push]) -> CheckPoint {
    let side = |wanted: Direction| {
        let names: Vec<&str> = pushes
            .iter()
            .filter(|push| push.direction == wanted)
            .map(|push| push.dimension.as_str())
            .collect();
        (!names.is_empty()).then(|| format!("{}: {}", wanted.name(), names.join(", ")))
    };
    let sides = [
        Direction::Optimistic,
        Direction::Pessimistic,
        Direction::Mixed,
    ];
    let said: Vec<String> = sides.into_iter().filter_map(side).collect();
    let said = if said.is_empty() {
        "nothing pushes".to_owned()
    } else {
        said.join("; ")
    };
    CheckPoint {
        number: 7,
        question: "which way is the result bent?".to_owned(),
        verdict: match overall {
            Direction::Neutral => Verdict::Pass,
            Direction::Unknown => Verdict::Unknown,
            // Without a failure behind it, a direction is a leaning.
            _ if failed => Verdict::Fail,
            _ => Verdict::Unknown,
        },
        answer: format!("overall {}; {said}", overall.name()),
        dimensions: pushes.iter().map(|push| push.dimension.clone()).collect(),
    }
}
