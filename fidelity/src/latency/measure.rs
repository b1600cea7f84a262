//! ITL and TPOT of one answer (D4).

use std::collections::BTreeMap;
use truetape_schemas::run::Dispatch;

/// Gaps between consecutive token events, per choice: two interleaved choices invent no gap.
pub(super) fn itl_us(dispatch: &Dispatch) -> Vec<i64> {
    let offsets = dispatch
        .token_event_offsets_us
        .as_deref()
        .unwrap_or_default();
    let choices = dispatch.token_event_choices.as_deref().unwrap_or_default();
    let mut last: BTreeMap<i32, i64> = BTreeMap::new();
    let mut gaps = Vec::with_capacity(offsets.len());
    for (index, offset) in offsets.iter().enumerate() {
        let choice = choices.get(index).copied().unwrap_or(0);
        if let Some(before) = last.insert(choice, *offset) {
            gaps.push(offset.saturating_sub(before));
        }
    }
    gaps
}

/// Time per output token after the first, in milliseconds; none below two tokens, or when nobody
/// counted them: events are not tokens (D5).
pub(crate) fn tpot_ms(dispatch: &Dispatch) -> Option<f64> {
    let tokens = dispatch.output_tokens.filter(|tokens| *tokens >= 2)?;
    let generating = dispatch
        .last_token_us?
        .saturating_sub(dispatch.first_token_us?);
    Some(generating as f64 / 1_000.0 / (tokens - 1) as f64)
}
