//! What the evaluations have in common besides traces.

use std::path::{Path, PathBuf};

/// The folder of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A number given as `--name N`.
pub(crate) fn argument(name: &str, default: u64) -> u64 {
    let args: Vec<String> = std::env::args().collect();
    let place = args.iter().position(|arg| arg == name);
    let given = place.and_then(|place| args.get(place + 1));
    given
        .and_then(|given| given.parse().ok())
        .unwrap_or(default)
}

/// Mean and root of the mean square, of what is known.
pub(crate) fn bias_and_rms(errors: impl Iterator<Item = f64>) -> (f64, f64) {
    let known: Vec<f64> = errors.filter(|error| error.is_finite()).collect();
    let n = known.len() as f64;
    let bias = known.iter().sum::<f64>() / n;
    let rms = (known.iter().map(|error| error * error).sum::<f64>() / n).sqrt();
    (bias, rms)
}
