//! Student's t: what few runs are worth.

/// Returns the probability that a t of so many degrees of freedom lies further from 0 than `t`.
pub fn two_sided_p(t: f64, freedom: f64) -> f64 {
    if !t.is_finite() {
        return 0.0;
    }
    incomplete_beta(freedom / (freedom + t * t), freedom / 2.0, 0.5)
}

/// Returns the quantile `q` of a t of so many degrees of freedom.
pub fn quantile(q: f64, freedom: f64) -> f64 {
    if q < 0.5 {
        return -quantile(1.0 - q, freedom);
    }
    let tail = 2.0 * (1.0 - q);
    let (mut low, mut high) = (0.0, 1.0);
    while two_sided_p(high, freedom) > tail && high < 1e9 {
        high *= 2.0;
    }
    // Fifty halvings leave nothing that a float could tell.
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if two_sided_p(middle, freedom) > tail {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low + high) / 2.0
}

/// The regularized incomplete beta function, by its continued fraction (Lentz).
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (-x).ln_1p()).exp();
    if x < (a + 1.0) / (a + b + 2.0) {
        front * fraction(x, a, b) / a
    } else {
        1.0 - front * fraction(1.0 - x, b, a) / b
    }
}

fn fraction(x: f64, a: f64, b: f64) -> f64 {
    const TINY: f64 = 1e-300;
    const STEPS: u32 = 300;
    let guarded = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / guarded(1.0 - (a + b) * x / (a + 1.0));
    let mut sum = d;
    for step in 1..STEPS {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / guarded(1.0 + even * d);
        c = guarded(1.0 + even / c);
        sum *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / guarded(1.0 + odd * d);
        c = guarded(1.0 + odd / c);
        let factor = d * c;
        sum *= factor;
        if (factor - 1.0).abs() < 1e-15 {
            break;
        }
    }
    sum
}

/// The logarithm of the gamma function, by Stirling's series after a shift to where it is exact.
fn ln_gamma(x: f64) -> f64 {
    let (mut x, mut shift) = (x, 0.0);
    while x < 10.0 {
        shift -= x.ln();
        x += 1.0;
    }
    let inverse = 1.0 / x;
    let square = inverse * inverse;
    let series =
        inverse * (1.0 / 12.0 - square * (1.0 / 360.0 - square * (1.0 / 1260.0 - square / 1680.0)));
    shift + (x - 0.5) * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI).ln() + series
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Printed tables.
    #[test]
    fn quantiles_are_those_of_the_tables() {
        let cases = [
            (0.975, 1.0, 12.706),
            (0.975, 2.0, 4.303),
            (0.975, 4.0, 2.776),
            (0.975, 9.0, 2.262),
            (0.8, 4.0, 0.941),
            (0.975, 1e6, 1.960),
        ];
        for (q, freedom, want) in cases {
            let found = quantile(q, freedom);
            assert!((found - want).abs() < 6e-4, "{q} {freedom}: {found}");
            assert!((quantile(1.0 - q, freedom) + found).abs() < 1e-9);
        }
    }

    #[test]
    fn probabilities_are_those_of_the_tables() {
        assert!((two_sided_p(2.776, 4.0) - 0.05).abs() < 1e-4);
        assert!((two_sided_p(0.0, 4.0) - 1.0).abs() < 1e-12);
        assert_eq!(two_sided_p(f64::INFINITY, 4.0), 0.0);
    }
}
