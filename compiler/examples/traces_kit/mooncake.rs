//! The Mooncake conversation trace as a population, for evaluations.

use std::path::Path;
use truetape_fidelity::mix::{MixMap, MixSet};
use truetape_fidelity::population::{Population, PopulationTurn};

/// A block that this many prompts and this share of all hold ties nobody together.
const HOT_ROWS_MIN: f64 = 20.0;
const HOT_SHARE_MIN: f64 = 0.01;

/// The Mooncake conversation trace; sessions by block chains, as the compiler infers them.
pub(crate) fn mooncake(path: &Path) -> Result<Population, String> {
    let text =
        std::fs::read_to_string(path).map_err(|cause| format!("{}: {cause}", path.display()))?;
    let mut turns = Vec::new();
    for line in text.lines() {
        let row: serde_json::Value =
            serde_json::from_str(line).map_err(|cause| cause.to_string())?;
        let number = |key: &str| row.get(key).and_then(serde_json::Value::as_u64);
        let ids = row.get("hash_ids").and_then(serde_json::Value::as_array);
        turns.push(PopulationTurn {
            arrival_us: number("timestamp").map_or(0, |ms| ms as i64 * 1_000),
            input_tokens: number("input_length"),
            output_tokens: number("output_length"),
            blocks: ids
                .map(|ids| ids.iter().filter_map(serde_json::Value::as_u64).collect())
                .unwrap_or_default(),
            ..PopulationTurn::default()
        });
    }
    turns.sort_by_key(|turn| turn.arrival_us);
    let sessions = chain_sessions(&mut turns, 512);
    Ok(Population {
        turns,
        sessions,
        block_tokens: Some(512),
        clock_resolution_us: Some(3_000_000),
        ..Population::default()
    })
}

/// A prompt continues the latest whose full blocks are all a prefix of it.
fn chain_sessions(turns: &mut [PopulationTurn], block_tokens: u64) -> u32 {
    let mut uses: MixMap<u32> = MixMap::default();
    for block in turns.iter().flat_map(|turn| &turn.blocks) {
        *uses.entry(*block).or_default() += 1;
    }
    let least = HOT_ROWS_MIN.max(HOT_SHARE_MIN * turns.len() as f64);
    let hot: MixSet = uses
        .into_iter()
        .filter(|(_, uses)| f64::from(*uses) >= least)
        .map(|(block, _)| block)
        .collect();
    let mut by_last: MixMap<u32> = MixMap::default();
    let mut sessions = 0;
    for turn in turns {
        let parent = turn
            .blocks
            .iter()
            .rev()
            .find_map(|block| by_last.get(block))
            .copied();
        turn.session = parent.unwrap_or(sessions);
        sessions = sessions.max(turn.session + 1);
        let full = turn.input_tokens.map_or(0, |tokens| tokens / block_tokens) as usize;
        let last = turn
            .blocks
            .iter()
            .take(full)
            .rfind(|block| !hot.contains(*block));
        if let Some(last) = last {
            by_last.insert(*last, turn.session);
        }
    }
    sessions
}
