//! Where a run is, on stderr: one live line on a terminal, a plain line now and then elsewhere.

use std::collections::VecDeque;
use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use truetape_schemas::run::Dispatch;

/// Exchanges over which the shown quantiles are taken.
const LATEST: usize = 1_000;

/// The time over which the shown token rate is taken.
const RATE_WINDOW_US: i64 = 10_000_000;

/// Between two drawings of the live line.
const LIVE_PERIOD: Duration = Duration::from_millis(250);

/// Between two plain lines: 6 a minute.
const PLAIN_PERIOD: Duration = Duration::from_secs(10);

/// What is shown of a run while it goes on.
#[derive(Debug)]
pub struct Progress {
    shown: Shown,
    planned: usize,
    planned_us: i64,
    ended: usize,
    failed: usize,
    begun: Arc<AtomicUsize>,
    lateness_us: VecDeque<f64>,
    ttft_us: VecDeque<f64>,
    /// Ends of the latest exchanges and what they brought.
    tokens: VecDeque<(i64, i64)>,
    input_tokens: i64,
    cached_tokens: i64,
    due_us: Vec<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    Live,
    Plain,
    Nothing,
}

impl Progress {
    /// Shows a plan whose dispatches are due at these times, in order.
    pub fn new(due_us: Vec<i64>) -> Self {
        let shown = if std::io::stderr().is_terminal() {
            Shown::Live
        } else {
            Shown::Plain
        };
        Self {
            shown,
            ..Self::silent(due_us)
        }
    }

    /// Shows nothing.
    pub fn silent(due_us: Vec<i64>) -> Self {
        Self {
            shown: Shown::Nothing,
            planned: due_us.len(),
            planned_us: due_us.last().copied().unwrap_or(0),
            ended: 0,
            failed: 0,
            begun: Arc::default(),
            lateness_us: VecDeque::new(),
            ttft_us: VecDeque::new(),
            tokens: VecDeque::new(),
            input_tokens: 0,
            cached_tokens: 0,
            due_us,
        }
    }

    /// How often [`Progress::show`] wants to be called.
    pub fn period(&self) -> Duration {
        if self.shown == Shown::Live {
            LIVE_PERIOD
        } else {
            PLAIN_PERIOD
        }
    }

    /// Counts exchanges that have begun; whoever begins one adds it.
    pub fn begun(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.begun)
    }

    /// Takes in the end of an exchange.
    pub fn ended(&mut self, row: &Dispatch, now_us: i64) {
        let complete = truetape_schemas::capture::Outcome::Complete;
        self.ended += 1;
        self.failed += usize::from(row.outcome != Some(complete));
        keep(&mut self.lateness_us, row.lateness_us.map(|us| us as f64));
        keep(&mut self.ttft_us, row.first_token_us.map(|us| us as f64));
        keep(&mut self.tokens, row.output_tokens.map(|n| (now_us, n)));
        if let (Some(input), Some(cached)) = (row.input_tokens, row.cached_tokens) {
            self.input_tokens = self.input_tokens.saturating_add(input);
            self.cached_tokens = self.cached_tokens.saturating_add(cached);
        }
    }

    /// Draws where the run is at `now_us`.
    pub fn show(&self, now_us: i64) {
        match self.shown {
            Shown::Nothing => {}
            Shown::Live => write(&format!("\r\x1b[2K{}", self.line(now_us))),
            Shown::Plain => write(&format!("{}\n", self.line(now_us))),
        }
    }

    /// Ends the live line.
    pub fn finish(&self) {
        if self.shown == Shown::Live {
            write("\r\x1b[2K");
        }
    }

    fn line(&self, now_us: i64) -> String {
        let due = self.due_us.partition_point(|due_us| *due_us <= now_us);
        let in_flight = self
            .begun
            .load(Ordering::Relaxed)
            .saturating_sub(self.ended);
        let cached = if self.input_tokens == 0 {
            "unknown".to_owned()
        } else {
            let share = self.cached_tokens as f64 / self.input_tokens as f64;
            format!("{:.0} %", share * 100.0)
        };
        format!(
            "{:.0} of {:.0} s, {due} of {} due, {in_flight} in flight, {} ended, {} failed, \
             lateness p99 {}, ttft p50 {}, {:.0} tokens/s, cached {cached}",
            seconds(now_us.max(0)),
            seconds(self.planned_us),
            self.planned,
            self.ended,
            self.failed,
            milliseconds(&self.lateness_us, 0.99),
            milliseconds(&self.ttft_us, 0.5),
            self.tokens_per_s(now_us),
        )
    }

    /// Output tokens of the answers that ended in the latest seconds. Of so many answers that not all
    /// are kept, those that are tell the rate since the first of them.
    fn tokens_per_s(&self, now_us: i64) -> f64 {
        let first_us = match self.tokens.front() {
            Some((first_us, _)) if self.tokens.len() == LATEST => *first_us,
            _ => 0,
        };
        let since_us = first_us.max(now_us.saturating_sub(RATE_WINDOW_US));
        let recent = self.tokens.iter().filter(|(at_us, _)| since_us <= *at_us);
        let tokens: i64 = recent.map(|(_, tokens)| tokens).sum();
        tokens as f64 / seconds(now_us.saturating_sub(since_us).max(1))
    }
}

fn keep<T>(values: &mut VecDeque<T>, value: Option<T>) {
    let Some(value) = value else { return };
    if values.len() == LATEST {
        values.pop_front();
    }
    values.push_back(value);
}

fn seconds(us: i64) -> f64 {
    us as f64 / 1e6
}

fn milliseconds(values_us: &VecDeque<f64>, q: f64) -> String {
    let mut sorted: Vec<f64> = values_us.iter().copied().collect();
    sorted.sort_by(f64::total_cmp);
    match truetape_fidelity::quantile::quantile(&sorted, q) {
        Some(us) => format!("{:.1} ms", us / 1_000.0),
        None => "unknown".to_owned(),
    }
}

/// Progress that cannot be shown is not worth an error.
fn write(text: &str) {
    let mut stderr = std::io::stderr().lock();
    if stderr
        .write_all(text.as_bytes())
        .and_then(|()| stderr.flush())
        .is_err()
    {
        tracing::debug!("stderr is closed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_where_the_plan_is_and_how_it_goes() {
        let mut progress = Progress::silent(vec![0, 1_000_000, 9_000_000]);
        assert_eq!(
            progress.line(-20_000),
            "0 of 9 s, 0 of 3 due, 0 in flight, 0 ended, 0 failed, lateness p99 unknown, \
             ttft p50 unknown, 0 tokens/s, cached unknown"
        );
        progress.begun().fetch_add(3, Ordering::Relaxed);
        let row = Dispatch {
            lateness_us: Some(120),
            first_token_us: Some(45_000),
            input_tokens: Some(200),
            cached_tokens: Some(50),
            output_tokens: Some(30),
            outcome: Some(truetape_schemas::capture::Outcome::Complete),
            ..Dispatch::default()
        };
        progress.ended(&row, 500_000);
        assert_eq!(
            progress.line(1_500_000),
            "2 of 9 s, 2 of 3 due, 2 in flight, 1 ended, 0 failed, lateness p99 0.1 ms, \
             ttft p50 45.0 ms, 20 tokens/s, cached 25 %"
        );
        // What ended long ago is no rate of now.
        assert_eq!(progress.tokens_per_s(20_000_000), 0.0);
    }
}
