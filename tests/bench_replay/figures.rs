//! From two lists of instants to lateness.

use crate::poll::now_ns;
use crate::subject::Claim;
use serde::Serialize;

/// Sends at either end that drift is told from.
const DRIFT_SENDS: usize = 1000;

const NS_PER_MS: f64 = 1e6;

/// How late the requests of a run came.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Lateness {
    pub(crate) requests: usize,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) max_ms: f64,
    /// From the schedule's own zero, where it is told: what is late throughout is seen too.
    pub(crate) from_zero_ms: Option<(f64, f64)>,
    /// What the subject says of itself.
    pub(crate) claimed_ms: Option<(f64, f64)>,
    /// Median lateness of the last sends less that of the first.
    pub(crate) drift_ms: f64,
}

/// Compares what came with what was due, both in order: a subject may send two of one instant in
/// either order. Requests before the run (a readiness check) come first and are left out.
pub(crate) fn lateness(
    due_ns: &[u64],
    mut came_ns: Vec<u64>,
    claim: &Claim,
) -> Result<Lateness, String> {
    if came_ns.len() < due_ns.len() || due_ns.is_empty() {
        return Err(format!(
            "{} of {} requests came",
            came_ns.len(),
            due_ns.len()
        ));
    }
    came_ns.sort_unstable();
    came_ns.drain(..came_ns.len() - due_ns.len());
    let late = |(came, due): (&u64, &u64)| *came as f64 - *due as f64;
    let raw: Vec<f64> = came_ns.iter().zip(due_ns).map(late).collect();
    let least = raw.iter().copied().fold(f64::INFINITY, f64::min);
    let late_ms: Vec<f64> = raw.iter().map(|ns| (ns - least) / NS_PER_MS).collect();
    let from_zero_ms = claim.zero_us.map(|zero_us| {
        let zero_ns = zero_us as f64 * 1000.0 - wall_offset_ns();
        let late: Vec<f64> = raw.iter().map(|ns| (ns - zero_ns) / NS_PER_MS).collect();
        (quantile(&late, 0.5), quantile(&late, 0.99))
    });
    let part = DRIFT_SENDS.min(late_ms.len() / 2).max(1);
    let drift_ms =
        quantile(&late_ms[late_ms.len() - part..], 0.5) - quantile(&late_ms[..part], 0.5);
    Ok(Lateness {
        requests: late_ms.len(),
        p50_ms: quantile(&late_ms, 0.5),
        p99_ms: quantile(&late_ms, 0.99),
        max_ms: quantile(&late_ms, 1.0),
        from_zero_ms,
        claimed_ms: claim.lateness_ms,
        drift_ms,
    })
}

/// The wall clock less the monotonic one.
fn wall_offset_ns() -> f64 {
    let wall_us = truetape_schemas::time::wall_now_us();
    wall_us as f64 * 1000.0 - now_ns() as f64
}

fn quantile(values: &[f64], q: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = (q * sorted.len() as f64).ceil() as usize;
    let at = at.clamp(1, sorted.len().max(1)) - 1;
    sorted.get(at).copied().unwrap_or(f64::NAN)
}
