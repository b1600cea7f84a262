//! What a row of readings comes to: differences of counters, peaks of gauges.

use super::Phase;
use super::names::{Families, NAMES};
use super::text::Scraped;
use truetape_schemas::run::metrics::Counters;

/// Counters whose difference over the run is taken, in the order of [`Totals::first`].
const COUNTERS: usize = 5;

/// Readings, added up.
#[derive(Debug, Default)]
pub struct Totals {
    names: Option<&'static Families>,
    first: Option<[Option<f64>; COUNTERS]>,
    last: [Option<f64>; COUNTERS],
    /// A counter was seen to fall: the target was started again.
    restarted: bool,
    running: Option<f64>,
    waiting: Option<f64>,
    kv_usage: Option<f64>,
    ended: bool,
}

impl Totals {
    /// Takes in one reading.
    pub fn add(&mut self, phase: Phase, samples: &[Scraped]) {
        self.names = self.names.or_else(|| detect(samples));
        let Some(names) = self.names else { return };
        let now = [
            names.prompt_tokens,
            names.generation_tokens,
            names.queried_tokens,
            names.cached_tokens,
            names.preemptions,
        ]
        .map(|list| sum(samples, list));
        for (before, now) in self.last.iter().zip(&now) {
            self.restarted |= before.zip(*now).is_some_and(|(before, now)| now < before);
        }
        self.last = now;
        match phase {
            Phase::Before => self.first = Some(now),
            Phase::During => {}
            Phase::After => self.ended = true,
        }
        peak(&mut self.running, sum(samples, names.running));
        peak(&mut self.waiting, sum(samples, names.waiting));
        peak(&mut self.kv_usage, most(samples, names.kv_usage));
    }

    /// What they say of the run. Without both ends there is no difference.
    pub fn counters(&self) -> Counters {
        let first = self.first.filter(|_| self.ended && !self.restarted);
        let over = |at: usize| -> Option<f64> {
            let last = (*self.last.get(at)?)?;
            // A counter that appears with its first event began at nothing.
            Some(last - first?.get(at)?.unwrap_or(0.0))
        };
        Counters {
            names: self.names.map(|names| names.engine.to_owned()),
            prompt_tokens: over(0),
            generation_tokens: over(1),
            queried_tokens: over(2),
            cached_tokens: over(3),
            preemptions: over(4),
            running_peak: self.running,
            waiting_peak: self.waiting,
            kv_usage_peak: self.kv_usage,
            ..Counters::default()
        }
    }

    /// What a user should know.
    pub fn findings(&self) -> Vec<String> {
        let mut findings = Vec::new();
        if self.names.is_none() {
            findings.push(
                "metrics: the names of the target's counters are of no engine that is known: they are kept, and say nothing in the report".to_owned(),
            );
        }
        if self.restarted {
            findings.push(
                "metrics: a counter of the target fell during the run: it was started again, or several servers answer for it".to_owned(),
            );
        }
        findings
    }
}

/// The engine that has the most to say.
fn detect(samples: &[Scraped]) -> Option<&'static Families> {
    NAMES.iter().find(|names| {
        samples
            .iter()
            .any(|s| plain(&s.name).starts_with(names.prefix))
    })
}

fn plain(name: &str) -> String {
    name.replace(':', "_")
}

fn values<'a>(samples: &'a [Scraped], list: &[&str]) -> Vec<&'a Scraped> {
    let named = |name: &&str| -> Vec<&'a Scraped> {
        let of = samples
            .iter()
            .filter(|sample| plain(&sample.name) == **name);
        of.collect()
    };
    list.iter()
        .map(named)
        .find(|found| !found.is_empty())
        .unwrap_or_default()
}

/// Engines of one server are label values: what they count is added up.
fn sum(samples: &[Scraped], list: &[&str]) -> Option<f64> {
    let found = values(samples, list);
    (!found.is_empty()).then(|| found.iter().map(|sample| sample.value).sum())
}

fn most(samples: &[Scraped], list: &[&str]) -> Option<f64> {
    let found = values(samples, list).into_iter().map(|sample| sample.value);
    found.reduce(f64::max)
}

fn peak(peak: &mut Option<f64>, value: Option<f64>) {
    *peak = match (*peak, value) {
        (Some(before), Some(value)) => Some(before.max(value)),
        (before, value) => before.or(value),
    };
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    fn reading(running: u32, queries: u32, hits: u32) -> Vec<Scraped> {
        parse(&format!(
            "vllm:num_requests_running{{engine=\"0\"}} {running}\n\
             vllm:num_requests_running{{engine=\"1\"}} 1\n\
             vllm:kv_cache_usage_perc{{engine=\"0\"}} 0.25\n\
             vllm:kv_cache_usage_perc{{engine=\"1\"}} 0.5\n\
             vllm:prefix_cache_queries_total 1{queries}\nvllm:prefix_cache_hits_total {hits}\n"
        ))
    }

    fn over(readings: [(Phase, Vec<Scraped>); 3]) -> Totals {
        let mut totals = Totals::default();
        for (phase, reading) in readings {
            totals.add(phase, &reading);
        }
        totals
    }

    #[test]
    fn counters_are_differences_and_gauges_are_peaks() {
        let totals = over([
            (Phase::Before, reading(0, 100, 7)),
            (Phase::During, reading(8, 400, 8)),
            (Phase::After, reading(2, 500, 107)),
        ]);
        let counters = totals.counters();
        assert_eq!(counters.names.as_deref(), Some("vllm"));
        assert_eq!(
            (counters.queried_tokens, counters.cached_tokens),
            (Some(400.0), Some(100.0))
        );
        assert_eq!(counters.cached_share(), Some(0.25));
        assert_eq!(
            (counters.running_peak, counters.kv_usage_peak),
            (Some(9.0), Some(0.5))
        );
        assert_eq!((counters.waiting_peak, counters.preemptions), (None, None));
        assert!(totals.findings().is_empty());
    }

    #[test]
    fn a_target_that_was_started_again_has_no_differences() {
        let totals = over([
            (Phase::Before, reading(0, 500, 90)),
            (Phase::During, reading(8, 100, 1)),
            (Phase::After, reading(2, 600, 100)),
        ]);
        assert_eq!(totals.counters().cached_tokens, None);
        assert_eq!(totals.counters().running_peak, Some(9.0));
        assert_eq!(totals.findings().len(), 1);
    }

    #[test]
    fn without_a_last_reading_there_is_no_difference() {
        let mut totals = Totals::default();
        totals.add(Phase::Before, &reading(0, 100, 7));
        assert_eq!(totals.counters().cached_tokens, None);
    }

    #[test]
    fn names_are_known_however_they_are_written() {
        for (text, engine) in [
            ("sglang:cached_tokens_total 1\n", "sglang"),
            ("sglang_cached_tokens_total 1\n", "sglang"),
            (
                "dynamo_frontend_cached_tokens_sum 1\nvllm:prefix_cache_hits_total 1\n",
                "dynamo",
            ),
            ("trtllm_kv_cache_utilization 0.5\n", "trtllm"),
            ("llamacpp:requests_processing 1\n", "llamacpp"),
        ] {
            let mut totals = Totals::default();
            totals.add(Phase::Before, &parse(text));
            assert_eq!(totals.counters().names.as_deref(), Some(engine), "{text}");
        }
        let mut totals = Totals::default();
        totals.add(Phase::Before, &parse("http_requests_total 1\n"));
        assert_eq!(totals.counters(), Counters::default());
        assert!(totals.findings()[0].contains("no engine that is known"));
    }
}
