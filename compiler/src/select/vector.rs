//! Sums over vectors of residuals: where a search spends its time.

/// Adds a vector, in tolerances.
pub(super) fn add(off: &mut [f32], x: &[f32], scale: &[f32]) {
    for ((off, x), scale) in off.iter_mut().zip(x).zip(scale) {
        *off += x * scale;
    }
}

/// Takes a vector away, in tolerances.
pub(super) fn subtract(off: &mut [f32], x: &[f32], scale: &[f32]) {
    for ((off, x), scale) in off.iter_mut().zip(x).zip(scale) {
        *off -= x * scale;
    }
}

/// Lanes that are added up apart, so that the processor can add them at the same time.
const LANES: usize = 8;

/// The sum of the squares.
pub(super) fn squares(off: &[f32]) -> f64 {
    let mut sums = [0.0_f32; LANES];
    let chunks = off.chunks_exact(LANES);
    let rest: f32 = chunks.remainder().iter().map(|off| off * off).sum();
    for chunk in chunks {
        for (sum, off) in sums.iter_mut().zip(chunk) {
            *sum += off * off;
        }
    }
    f64::from(sums.iter().sum::<f32>() + rest)
}

/// The sum of the squares after a vector is added, in tolerances.
pub(super) fn squares_with(off: &[f32], x: &[f32], scale: &[f32]) -> f64 {
    let n = off.len().min(x.len()).min(scale.len());
    let (Some(off), Some(x), Some(scale)) = (off.get(..n), x.get(..n), scale.get(..n)) else {
        return f64::INFINITY;
    };
    let whole = n - n % LANES;
    let mut sums = [0.0_f32; LANES];
    let chunks = off
        .chunks_exact(LANES)
        .zip(x.chunks_exact(LANES))
        .zip(scale.chunks_exact(LANES));
    for ((off, x), scale) in chunks {
        for (((sum, off), x), scale) in sums.iter_mut().zip(off).zip(x).zip(scale) {
            let off = off + x * scale;
            *sum += off * off;
        }
    }
    let rest = off.iter().zip(x).zip(scale).skip(whole);
    let rest: f32 = rest
        .map(|((off, x), scale)| (off + x * scale).powi(2))
        .sum();
    f64::from(sums.iter().sum::<f32>() + rest)
}
