//! When a run is better stopped.

use crate::plan::reason;
use std::collections::VecDeque;
use truetape_schemas::capture::Outcome;
use truetape_schemas::run::Dispatch;

/// Exchanges over which the error rate is taken.
const WINDOW: usize = 100;

/// Before this many exchanges have ended, no error rate is worth a stop.
const ENDED_MIN: usize = 20;

/// Why a run was stopped before its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trip {
    /// The reason in the rows that were not sent.
    pub reason: &'static str,
    /// The same in a sentence.
    pub problem: String,
}

/// Watches the ends of exchanges.
#[derive(Debug)]
pub struct Breaker {
    error_rate_max: f64,
    token_budget: Option<u64>,
    failed: VecDeque<bool>,
    tokens: u64,
}

impl Breaker {
    /// A breaker with its limits.
    pub fn new(error_rate_max: f64, token_budget: Option<u64>) -> Self {
        Self {
            error_rate_max,
            token_budget,
            failed: VecDeque::new(),
            tokens: 0,
        }
    }

    /// Takes in the end of an exchange, and says whether it was one too many.
    ///
    /// What we cut ourselves says nothing about the target.
    pub fn ended(&mut self, row: &Dispatch) -> Option<Trip> {
        if row.outcome == Some(Outcome::ClientAborted) {
            return None;
        }
        if self.failed.len() == WINDOW {
            self.failed.pop_front();
        }
        self.failed
            .push_back(row.outcome != Some(Outcome::Complete));
        let reported = row.input_tokens.unwrap_or(0) + row.output_tokens.unwrap_or(0);
        self.tokens += u64::try_from(reported).unwrap_or(0);
        self.errors().or_else(|| self.budget())
    }

    fn errors(&self) -> Option<Trip> {
        let ended = self.failed.len();
        let failed = self.failed.iter().filter(|failed| **failed).count();
        let rate = failed as f64 / ended as f64;
        if ended < ENDED_MIN || rate <= self.error_rate_max {
            return None;
        }
        let most = self.error_rate_max;
        let problem = format!(
            "{failed} of the latest {ended} exchanges failed, above --error-rate-max {most}"
        );
        Some(Trip {
            reason: reason::ERROR_RATE,
            problem,
        })
    }

    /// The plan keeps inside the budget by what it asks for; a target that generates more than that
    /// is stopped here.
    fn budget(&self) -> Option<Trip> {
        let budget = self.token_budget.filter(|budget| *budget < self.tokens)?;
        let problem = format!(
            "the target reported {} tokens, above --token-budget {budget}",
            self.tokens
        );
        Some(Trip {
            reason: reason::TOKEN_BUDGET,
            problem,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(outcome: Outcome, tokens: i64) -> Dispatch {
        Dispatch {
            outcome: Some(outcome),
            output_tokens: Some(tokens),
            ..Dispatch::default()
        }
    }

    #[test]
    fn a_bad_start_is_not_a_trend() {
        let mut breaker = Breaker::new(0.5, None);
        for ended in 1..ENDED_MIN {
            assert_eq!(breaker.ended(&row(Outcome::Error, 0)), None, "{ended}");
        }
        let trip = breaker.ended(&row(Outcome::Truncated, 0)).unwrap();
        assert_eq!(trip.reason, "error_rate");
        assert!(
            trip.problem
                .starts_with("20 of the latest 20 exchanges failed")
        );
    }

    #[test]
    fn only_the_latest_exchanges_count() {
        let mut breaker = Breaker::new(0.5, None);
        for _ in 0..1_000 {
            assert_eq!(breaker.ended(&row(Outcome::Complete, 0)), None);
        }
        let tripped = (1..).find(|_| breaker.ended(&row(Outcome::Error, 0)).is_some());
        assert_eq!(tripped, Some(51));
    }

    #[test]
    fn what_we_cut_is_not_the_targets_fault() {
        let mut breaker = Breaker::new(0.0, None);
        for _ in 0..10 * WINDOW {
            assert_eq!(breaker.ended(&row(Outcome::ClientAborted, 0)), None);
        }
    }

    #[test]
    fn a_target_that_generates_past_the_budget_is_stopped() {
        let mut breaker = Breaker::new(1.0, Some(10));
        assert_eq!(breaker.ended(&row(Outcome::Complete, 10)), None);
        assert_eq!(
            breaker.ended(&row(Outcome::Complete, 1)).unwrap().reason,
            "token_budget"
        );
    }
}
