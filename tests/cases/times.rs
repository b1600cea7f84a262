//! Times as the schedule would have them.
//!
//! A busy machine writes late. The scripted upstream says how late each write was, and that much
//! is taken off what was seen: what is left is the product's own delay, and the case's tolerance
//! is for that.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Instant;
use truetape_testkit::upstream::Record;

/// How late an upstream wrote, for each moment.
#[derive(Clone, Debug)]
pub(crate) struct Lateness {
    /// When each step was done, on the wall clock, and how late it was, in milliseconds.
    steps: Vec<(f64, f64)>,
}

/// Ties the clock of this process to the wall clock that a capture is written in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Anchor(Instant, i64);

impl Anchor {
    pub(crate) fn now() -> Self {
        Self(Instant::now(), truetape_schemas::time::wall_now_us())
    }

    /// An instant of this process, in milliseconds of wall time.
    pub(crate) fn wall_ms(self, at: Instant) -> f64 {
        let before = self.0.saturating_duration_since(at).as_secs_f64();
        let after = at.saturating_duration_since(self.0).as_secs_f64();
        self.1 as f64 / 1000.0 + (after - before) * 1000.0
    }
}

impl Lateness {
    pub(crate) fn of(record: &Record, nominal_ms: &[f64], anchor: Anchor) -> Self {
        let zero = anchor.wall_ms(record.read_at);
        let step = |(at, nominal): (&Instant, &f64)| {
            let at = anchor.wall_ms(*at);
            (at, (at - zero - nominal).max(0.0))
        };
        Self {
            steps: record.done_at.iter().zip(nominal_ms).map(step).collect(),
        }
    }

    /// How late the step was that caused what was seen at this moment of wall time.
    pub(crate) fn at(&self, wall_ms: f64) -> f64 {
        let caused = self
            .steps
            .iter()
            .take_while(|(at, _)| *at <= wall_ms + CLOCKS_APART_MS);
        caused.last().map_or(0.0, |(_, late)| *late)
    }
}

/// Two readings of one wall clock in two processes agree to about this.
const CLOCKS_APART_MS: f64 = 0.2;

/// The moments of one exchange, as offsets in microseconds from `zero_wall_ms`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moments {
    pub(crate) zero_wall_ms: f64,
    pub(crate) sent_us: i64,
    pub(crate) first_byte_us: Option<i64>,
    pub(crate) first_token_us: Option<i64>,
    pub(crate) first_output_us: Option<i64>,
    pub(crate) last_token_us: Option<i64>,
    pub(crate) end_us: Option<i64>,
    pub(crate) events_us: Vec<i64>,
    pub(crate) choices: Vec<i32>,
    pub(crate) output_tokens: Option<i64>,
}

impl Moments {
    /// The values that D1 to D4 define, as the schedule would have them.
    pub(crate) fn values(&self, late: &Lateness) -> BTreeMap<&'static str, Value> {
        let since_sent = |us: i64| {
            let wall_ms = self.zero_wall_ms + us as f64 / 1000.0;
            (us - self.sent_us) as f64 / 1000.0 - late.at(wall_ms)
        };
        let optional = |us: Option<i64>| us.map(since_sent);
        let ttft = optional(self.first_token_us);
        let e2el = optional(self.last_token_us);
        let events: Vec<f64> = self.events_us.iter().copied().map(since_sent).collect();
        let by_choice = self.by_choice(&events);
        let gaps: Vec<Vec<f64>> = by_choice.iter().map(|events| gaps(events)).collect();
        let n = self.output_tokens.filter(|n| *n >= 2);
        let tpot = n
            .zip(ttft.zip(e2el))
            .map(|(n, (ttft, e2el))| (e2el - ttft) / (n - 1) as f64);
        let per_event = |n: i64| (n as f64) / events.len() as f64;
        let tokens_per_event = self
            .output_tokens
            .filter(|_| !events.is_empty())
            .map(per_event);
        BTreeMap::from([
            ("ttft_ms", json!(ttft)),
            ("ttfo_ms", json!(optional(self.first_output_us))),
            ("e2el_ms", json!(e2el)),
            ("tpot_ms", json!(tpot)),
            ("first_body_byte_ms", json!(optional(self.first_byte_us))),
            ("stream_end_ms", json!(optional(self.end_us))),
            ("event_times_ms_token", json!(events)),
            ("token_events", json!(events.len())),
            ("tokens_per_event", json!(tokens_per_event)),
            ("itl_gaps_ms", json!(gaps.concat())),
            ("itl_gaps_by_choice_ms", json!(gaps)),
        ])
    }

    fn by_choice(&self, events: &[f64]) -> Vec<Vec<f64>> {
        let mut by_choice: BTreeMap<i32, Vec<f64>> = BTreeMap::new();
        for (index, at) in events.iter().enumerate() {
            let choice = self.choices.get(index).copied().unwrap_or(0);
            by_choice.entry(choice).or_default().push(*at);
        }
        by_choice.into_values().collect()
    }

    /// What is wrong with the moments whatever the case expects.
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut expect = |holds: bool, fault: &str| {
            if !holds {
                faults.push(fault.to_owned());
            }
        };
        let ordered = self
            .events_us
            .windows(2)
            .all(|pair| matches!(pair, [a, b] if a <= b));
        expect(ordered, "a token event came before the one before it");
        expect(
            self.events_us.first().copied() == self.first_token_us || self.events_us.is_empty(),
            "the first token event is not the first token",
        );
        expect(
            self.events_us.last().copied() == self.last_token_us || self.events_us.is_empty(),
            "the last token event is not the last token",
        );
        let known = [
            Some(self.sent_us),
            self.first_token_us,
            self.last_token_us,
            self.end_us,
        ];
        let known: Vec<i64> = known.into_iter().flatten().collect();
        expect(
            known.is_sorted(),
            "sent, first token, last token and end are out of order",
        );
        faults
    }
}

fn gaps(events: &[f64]) -> Vec<f64> {
    let gap = |pair: &[f64]| match pair {
        [a, b] => b - a,
        _ => 0.0,
    };
    events.windows(2).map(gap).collect()
}

/// Tokens share out the error of two reads among all gaps but one.
pub(crate) fn tpot_tolerance(tolerance_ms: f64, output_tokens: Option<i64>) -> f64 {
    let gaps = output_tokens.unwrap_or(2).saturating_sub(1).max(1);
    2.0 * tolerance_ms / gaps as f64
}
