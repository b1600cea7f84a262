//! What the engine model makes of both sides: the sign of a distortion, in latencies.

use super::super::svg::escape;
use super::super::words;
use super::Evidence;
use super::head::direction;
use super::scale::digits;
use truetape_schemas::report::{SimulatedEngine, SimulatedMeasure, Simulation};

/// Renders the simulations, where the report has any.
pub(super) fn section(evidence: &Evidence<'_>) -> String {
    let simulations = &evidence.report.simulations;
    let body = match simulations.as_slice() {
        [] => "<p>Nothing: the report has no simulation; its directions are those of the table of priors.</p>\n".to_owned(),
        all => all.iter().map(one).collect(),
    };
    format!(
        "<section id=\"simulated\"><h2>Simulated</h2>\n<p class=\"soft\">Both sides through the reference engine \
         model. A latency that falls is OPTIMISTIC; a change under 3 % is NEUTRAL.</p>\n{body}</section>\n"
    )
}

fn one(simulation: &Simulation) -> String {
    let note = simulation.note.as_deref().unwrap_or_default();
    let head: String = simulation.engines.iter().map(head).collect();
    let names = simulation
        .engines
        .first()
        .map(|engine| engine.measures.as_slice());
    let rows: String = names
        .unwrap_or_default()
        .iter()
        .map(|measure| row(&measure.name, &simulation.engines))
        .collect();
    let table = if rows.is_empty() {
        String::new()
    } else {
        format!(
            "<div class=\"wide\" tabindex=\"0\"><table class=\"numbers\"><tr><th>wanted, replay, change</th>{head}</tr>\n{rows}</table></div>\n"
        )
    };
    format!(
        "<h3>{} {}</h3>\n<p class=\"soft\">{} turns of the replay against {} over {} replicas. {}</p>\n{table}",
        words::level(simulation.level),
        direction(simulation.direction),
        simulation.turns,
        simulation.target_turns,
        simulation.replicas,
        escape(note)
    )
}

fn head(engine: &SimulatedEngine) -> String {
    format!(
        "<th colspan=\"3\">{} KV tokens, busy {}</th>",
        engine.kv_tokens,
        words::percent(Some(engine.busy))
    )
}

/// One measure on every engine.
fn row(name: &str, engines: &[SimulatedEngine]) -> String {
    let cells: String = engines
        .iter()
        .map(|engine| {
            let measure = engine.measures.iter().find(|measure| measure.name == name);
            let of = |pick: fn(&SimulatedMeasure) -> Option<f64>| {
                measure.and_then(pick).map_or_else(String::new, digits)
            };
            let change = measure.and_then(|measure| measure.change);
            let change =
                change.map_or_else(String::new, |change| format!("{:+.1} %", change * 100.0));
            format!(
                "<td>{}</td><td>{}</td><td><strong>{change}</strong></td>",
                of(|measure| measure.target),
                of(|measure| measure.value)
            )
        })
        .collect();
    format!("<tr><td>{}</td>{cells}</tr>\n", escape(name))
}
