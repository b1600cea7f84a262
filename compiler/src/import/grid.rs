//! The grid that a trace's timestamps sit on, where they do.

/// Gaps that must be there before a grid is believed.
const GAPS_MIN: usize = 3;

/// Share of the gaps that must be one step, give or take [`STEP_TOLERANCE`].
const STEP_SHARE_MIN: f64 = 0.5;

/// Mooncake's 3 s grid has steps of 2999, 3000 and 3001 ms.
const STEP_TOLERANCE: f64 = 0.001;

/// Finds the step that most gaps between neighbouring distinct timestamps share.
///
/// A clock that steps in its own unit has no grid: milliseconds that are one apart are just
/// milliseconds. Microseconds in, microseconds out.
pub fn resolution_us(mut timestamps_us: Vec<i64>, unit_us: i64) -> Option<i64> {
    timestamps_us.sort_unstable();
    timestamps_us.dedup();
    let mut gaps: Vec<i64> = timestamps_us
        .windows(2)
        .map(|pair| pair[1] - pair[0])
        .collect();
    if gaps.len() < GAPS_MIN {
        return None;
    }
    gaps.sort_unstable();
    let step = mode(&gaps);
    let tolerance = (step as f64 * STEP_TOLERANCE).ceil() as i64;
    let near = gaps
        .iter()
        .filter(|gap| (*gap - step).abs() <= tolerance)
        .count();
    let is_grid = step > unit_us && near as f64 >= STEP_SHARE_MIN * gaps.len() as f64;
    is_grid.then_some(step)
}

/// The most frequent value of a sorted list; the smaller of two that are as frequent.
fn mode(sorted: &[i64]) -> i64 {
    let runs = sorted.chunk_by(|a, b| a == b);
    let best = runs.reduce(|best, run| if run.len() > best.len() { run } else { best });
    best.and_then(|run| run.first().copied()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::resolution_us;

    #[test]
    fn a_grid_is_found_and_not_invented() {
        let ms = |ms: &[i64]| ms.iter().map(|ms| ms * 1_000).collect::<Vec<_>>();
        let cases = [
            (ms(&[0, 0, 2_999, 6_000, 9_001]), Some(3_001_000)),
            (ms(&[0, 3_000, 6_000, 8_999, 12_000]), Some(3_000_000)),
            (ms(&[0, 1_000, 2_500]), None),
            (ms(&[0, 1, 2, 3, 4, 5]), None),
            (ms(&[0, 17, 340, 391, 1_210]), None),
        ];
        for (timestamps, wanted) in cases {
            assert_eq!(
                resolution_us(timestamps.clone(), 1_000),
                wanted,
                "{timestamps:?}"
            );
        }
    }
}
