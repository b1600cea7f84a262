//! Bars made of characters.

/// Width of a full bar.
pub(super) const BAR_WIDTH: usize = 30;

/// Eighths of a character, from nothing.
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// A bar for a share of the full width.
pub(super) fn bar(share: f64) -> String {
    if !share.is_finite() {
        return String::new();
    }
    let eighths = (share.clamp(0.0, 1.0) * (BAR_WIDTH * 8) as f64).round() as usize;
    let rest = EIGHTHS.get(eighths % 8).copied().unwrap_or_default();
    format!("{}{rest}", "█".repeat(eighths / 8))
}

/// A bar for a value between 1 and a maximum, on a logarithmic scale; below 1 there is none.
pub(super) fn log_bar(value: f64, max: f64) -> String {
    if value <= 1.0 || max <= 1.0 {
        String::new()
    } else {
        bar(value.ln() / max.ln())
    }
}

/// Heights of a mark, from the lowest that can be seen.
const HEIGHTS: [&str; 8] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

/// A line of marks, one for each count, as high as its share of the largest; none is a blank.
pub(super) fn spark(counts: &[u64]) -> String {
    let most = counts.iter().max().copied().unwrap_or(0).max(1);
    let mark = |count: &u64| {
        let height = (*count as f64 / most as f64 * (HEIGHTS.len() - 1) as f64).round() as usize;
        match count {
            0 => " ",
            _ => HEIGHTS.get(height).copied().unwrap_or(" "),
        }
    };
    counts.iter().map(mark).collect()
}
