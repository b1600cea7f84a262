//! What is measured of simulated jobs.

use crate::engine::{Job, JobResult};
use crate::quantile::{quantile, sorted};

/// What is measured: latencies in microseconds, a share of prompt tokens, tokens in memory.
pub const MEASURES: [&str; 9] = [
    "ttft_p50",
    "ttft_p90",
    "ttft_p99",
    "tpot_p50",
    "e2el_p50",
    "e2el_p99",
    "hits",
    "kv_tokens_p50",
    "kv_tokens_p99",
];

/// Measures that a direction is taken from: those that a user waits for.
pub const JUDGED: [&str; 5] = ["ttft_p50", "ttft_p99", "tpot_p50", "e2el_p50", "e2el_p99"];

/// Values of the measures; none where nothing was measured.
pub type Measured = [Option<f64>; MEASURES.len()];

/// Instants at which the tokens in memory are counted, in the time of one piece.
const INSTANTS: usize = 4_096;

/// Results of jobs, pooled.
#[derive(Clone, Debug, Default)]
pub struct Measures {
    ttft: Vec<f64>,
    tpot: Vec<f64>,
    e2el: Vec<f64>,
    kv_tokens: Vec<f64>,
    cached_tokens: u64,
    input_tokens: u64,
}

impl Measures {
    /// Those of one piece.
    pub fn of(jobs: &[Job], results: &[JobResult]) -> Self {
        let mut measures = Self::default();
        measures.add(jobs, results);
        measures
    }

    /// Adds a piece.
    pub fn add(&mut self, jobs: &[Job], results: &[JobResult]) {
        for (job, result) in jobs.iter().zip(results) {
            self.ttft.extend(result.ttft_us().map(|us| us as f64));
            self.tpot.extend(result.tpot_us());
            self.e2el.extend(result.e2el_us().map(|us| us as f64));
            if result.end_us.is_some() {
                self.cached_tokens += result.cached_tokens;
                self.input_tokens += job.prompt_tokens;
            }
        }
        self.kv_tokens.extend(in_flight(jobs, results));
    }

    /// The values.
    pub fn measured(self) -> Measured {
        let hits =
            (self.input_tokens > 0).then(|| self.cached_tokens as f64 / self.input_tokens as f64);
        let [ttft, tpot, e2el, kv] = [self.ttft, self.tpot, self.e2el, self.kv_tokens].map(sorted);
        MEASURES.map(|name| {
            let (what, q) = name.rsplit_once("_p").unwrap_or((name, ""));
            let q = q.parse::<f64>().unwrap_or(0.0) / 100.0;
            match what {
                "ttft" => quantile(&ttft, q),
                "tpot" => quantile(&tpot, q),
                "e2el" => quantile(&e2el, q),
                "kv_tokens" => quantile(&kv, q),
                _ => hits,
            }
        })
    }
}

/// Tokens in the memory of running sequences at instants spread evenly from the first arrival to the
/// last: of each job between its first token and its last, its prompt and what it has said so far.
fn in_flight(jobs: &[Job], results: &[JobResult]) -> Vec<f64> {
    let arrivals = || results.iter().map(|result| result.arrival_us);
    let (Some(first), Some(last)) = (arrivals().min(), arrivals().max()) else {
        return Vec::new();
    };
    let step_us = last.saturating_sub(first) as f64 / INSTANTS as f64;
    if step_us <= 0.0 {
        return Vec::new();
    }
    // A job adds a line from one instant to another: its height and its slope are noted where it
    // begins, and taken away where it ends.
    let mut heights = vec![(0.0, 0.0); INSTANTS + 1];
    for (job, result) in jobs.iter().zip(results) {
        let (Some(from), Some(to)) = (result.first_token_us, result.end_us) else {
            continue;
        };
        let at = |us: i64| us.saturating_sub(first) as f64 / step_us;
        let begin = (at(from).ceil().max(0.0) as usize).min(INSTANTS);
        let end = (at(to).ceil().max(0.0) as usize).min(INSTANTS);
        let slope = result.output_tokens as f64 / (at(to) - at(from)).max(1e-9);
        let slope = if begin == end { 0.0 } else { slope };
        let height = job.prompt_tokens as f64 - slope * at(from);
        for (place, sign) in [(begin, 1.0), (end, -1.0)] {
            if let Some((heights, slopes)) = heights.get_mut(place) {
                *heights += sign * height;
                *slopes += sign * slope;
            }
        }
    }
    let (mut height, mut slope) = (0.0, 0.0);
    let instants = heights.iter().take(INSTANTS).enumerate();
    instants
        .map(|(at, (more, steeper))| {
            height += more;
            slope += steeper;
            // Rounding leaves crumbs where nothing is in flight.
            (height + slope * at as f64).max(0.0).round()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_in_flight_are_prompts_and_what_was_said() {
        // From 0 to 4,096 us one instant a microsecond; the first job is there for half of it.
        let jobs = [
            Job {
                prompt_tokens: 100,
                output_tokens: 10,
                ..Job::default()
            },
            Job::default(),
        ];
        let result = |arrival_us, first, end, output_tokens| JobResult {
            arrival_us,
            output_tokens,
            first_token_us: first,
            end_us: end,
            ..JobResult::default()
        };
        let results = [
            result(0, Some(0), Some(2_048), 10),
            result(4_096, None, None, 1),
        ];
        let found = in_flight(&jobs, &results);
        assert_eq!(found.len(), INSTANTS);
        assert_eq!(
            (found[0], found[1_024], found[2_047], found[2_048]),
            (100.0, 105.0, 110.0, 0.0)
        );
    }

    #[test]
    fn nothing_measured_is_unknown() {
        assert_eq!(Measures::default().measured(), Measured::default());
        let one = Measures::of(&[Job::default()], &[JobResult::default()]).measured();
        assert_eq!(one, Measured::default());
    }
}
