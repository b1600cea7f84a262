//! Random numbers of a shape, from uniform ones that the caller draws.
//!
//! Whoever seeds the uniform numbers owns the stream; the same stream gives the same numbers.

/// Uniform numbers that are added up to a normal one: twelve have a variance of one, and tails that
/// end at six deviations. Only additions: no machine rounds them in a way of its own.
const UNIFORMS: u32 = 12;

/// The bits of a random word that a float can hold, as a number from 0 to below 1.
pub fn unit(word: u64) -> f64 {
    (word >> 11) as f64 / (1_u64 << 53) as f64
}

/// A normal number of mean 0 and deviation 1.
pub fn normal(unit: &mut impl FnMut() -> f64) -> f64 {
    (0..UNIFORMS).map(|_| unit()).sum::<f64>() - f64::from(UNIFORMS) / 2.0
}

/// An exponential number of mean 1.
pub fn exponential(unit: &mut impl FnMut() -> f64) -> f64 {
    -(1.0 - unit()).ln()
}

/// A gamma number of mean 1 with that coefficient of variation, by Marsaglia and Tsang.
pub fn gamma_of_mean_1(unit: &mut impl FnMut() -> f64, cv: f64) -> f64 {
    let shape = 1.0 / (cv * cv);
    if shape < 1.0 {
        // A shape below one is one above it, and a uniform number to the power of its inverse.
        let boost = (1.0 - unit()).powf(1.0 / shape);
        return gamma(unit, shape + 1.0) * boost / shape;
    }
    gamma(unit, shape) / shape
}

fn gamma(unit: &mut impl FnMut() -> f64, shape: f64) -> f64 {
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = normal(unit);
        let v = (1.0 + c * x).powi(3);
        let accepted = (1.0 - unit()).ln() < 0.5 * x * x + d - d * v + d * v.ln();
        if v > 0.0 && accepted {
            return d * v;
        }
    }
}
