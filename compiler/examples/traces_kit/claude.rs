//! Claude Code sessions as a population, for evaluations.

use std::path::Path;
use truetape_fidelity::mix::mix;
use truetape_fidelity::population::{Population, PopulationTurn};

/// Tokens of a block of the Claude Code sessions, here: sixteen of the trace's.
const CLAUDE_BLOCK_TOKENS: u32 = 1_024;

/// The sessions have no common clock: they start somewhere in so long.
const CLAUDE_SPAN_US: u64 = 8 * 3_600 * 1_000_000;

/// The Claude Code sessions, duplicates left out, each started at a time of its own.
pub(crate) fn claude_code(path: &Path) -> Result<Population, String> {
    let text =
        std::fs::read_to_string(path).map_err(|cause| format!("{}: {cause}", path.display()))?;
    let mut turns = Vec::new();
    let mut sessions = 0_u32;
    let mut next_block = 0_u64;
    for line in text.lines() {
        let row: serde_json::Value =
            serde_json::from_str(line).map_err(|cause| cause.to_string())?;
        if !row.get("dup_of").is_none_or(serde_json::Value::is_null) {
            continue;
        }
        let start = (mix(u64::from(sessions)) % CLAUDE_SPAN_US) as i64;
        let mut chains: std::collections::BTreeMap<String, Vec<u64>> =
            std::collections::BTreeMap::new();
        let requests = row.get("req").and_then(serde_json::Value::as_array);
        for request in requests.into_iter().flatten() {
            let number = |key: &str| {
                request
                    .get(key)
                    .and_then(serde_json::Value::as_f64)
                    .unwrap_or(0.0)
            };
            let agent = request
                .get("a")
                .and_then(serde_json::Value::as_str)
                .unwrap_or_default();
            let chain = chains.entry(agent.to_owned()).or_default();
            chain.truncate((number("lcp") / 16.0) as usize);
            while chain.len() < (number("nb") / 16.0) as usize {
                chain.push(next_block);
                next_block += 1;
            }
            let arrival_us = start + (number("t") * 1e6) as i64;
            turns.push(PopulationTurn {
                session: sessions,
                arrival_us,
                end_us: Some(arrival_us + (number("api") * 1e6) as i64),
                input_tokens: Some(number("in") as u64),
                output_tokens: Some(number("out") as u64),
                blocks: chain.clone(),
                ..PopulationTurn::default()
            });
        }
        sessions += 1;
    }
    turns.sort_by_key(|turn| turn.arrival_us);
    Ok(Population {
        turns,
        sessions,
        block_tokens: Some(CLAUDE_BLOCK_TOKENS),
        ..Population::default()
    })
}
