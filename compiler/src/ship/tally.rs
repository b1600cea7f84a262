//! What was shipped, and what was not: for the end of a run, and for `/metrics`.

use bytesize::ByteSize;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use truetape_schemas::time::wall_now_us;

/// Counters of one process.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Segments that were sent and read back.
    pub(super) shipped: AtomicU64,
    /// Segments that the store had already, byte for byte.
    pub(super) already_there: AtomicU64,
    /// Bytes of the segments that were shipped.
    pub(super) bytes: AtomicU64,
    /// Segments that are kept: the store has another object of that name.
    pub(super) conflicts: AtomicU64,
    /// Files that are kept: they are no segments of ours.
    pub(super) refused: AtomicU64,
    /// Segments that are kept: the machine did not let us read or remove them.
    pub(super) stuck: AtomicU64,
    /// Rounds that the store cut short.
    pub(super) store_failures: AtomicU64,
    /// Segments that are still to be shipped, as of the last look.
    pub(super) waiting: AtomicU64,
    /// Their bytes.
    pub(super) waiting_bytes: AtomicU64,
    /// Segments that the recorder has not settled, as of the last look.
    pub(super) unsettled: AtomicU64,
    /// When a segment was last shipped.
    last_shipped_us: AtomicU64,
}

/// The counters at the end of a run.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(super) struct Summary {
    pub(super) shipped: u64,
    pub(super) already_there: u64,
    pub(super) shipped_bytes: u64,
    pub(super) conflicts: u64,
    pub(super) refused: u64,
    pub(super) stuck: u64,
    pub(super) store_failures: u64,
    pub(super) waiting: u64,
    pub(super) waiting_bytes: u64,
    pub(super) unsettled: u64,
}

impl Tally {
    /// A segment is in the store, and was sent just now.
    pub(super) fn shipped(&self, bytes: u64) {
        self.shipped.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
        let now = u64::try_from(wall_now_us()).unwrap_or(0);
        self.last_shipped_us.store(now, Relaxed);
    }

    /// A segment is no longer waiting.
    pub(super) fn left(&self, bytes: u64) {
        let less = |by| move |now: u64| Some(now.saturating_sub(by));
        // An update that always gives a value cannot fail.
        self.waiting.fetch_update(Relaxed, Relaxed, less(1)).ok();
        self.waiting_bytes
            .fetch_update(Relaxed, Relaxed, less(bytes))
            .ok();
    }

    /// The counters now.
    pub(super) fn summary(&self) -> Summary {
        Summary {
            shipped: self.shipped.load(Relaxed),
            already_there: self.already_there.load(Relaxed),
            shipped_bytes: self.bytes.load(Relaxed),
            conflicts: self.conflicts.load(Relaxed),
            refused: self.refused.load(Relaxed),
            stuck: self.stuck.load(Relaxed),
            store_failures: self.store_failures.load(Relaxed),
            waiting: self.waiting.load(Relaxed),
            waiting_bytes: self.waiting_bytes.load(Relaxed),
            unsettled: self.unsettled.load(Relaxed),
        }
    }

    /// The same for people; what is zero and no news is left out.
    pub(super) fn text(&self) -> String {
        let summary = self.summary();
        let mut text = format!(
            "shipped {} segments, {}",
            summary.shipped,
            ByteSize::b(summary.shipped_bytes)
        );
        for (count, what) in [
            (summary.already_there, "were there already"),
            (
                summary.conflicts,
                "kept: the store has another object of that name",
            ),
            (summary.refused, "kept: no segments of ours"),
            (summary.stuck, "kept: could not be read or removed"),
            (summary.unsettled, "not settled by the recorder yet"),
            (summary.waiting, "still waiting"),
        ] {
            if count > 0 {
                text.push_str(&format!("; {count} {what}"));
            }
        }
        text
    }

    /// The counters as Prometheus text.
    pub(super) fn metrics(&self) -> String {
        let now = self.summary();
        let mut page = String::new();
        let mut metric = |name: &str, kind: &str, help: &str, values: &[(&str, f64)]| {
            let mut write = || {
                writeln!(page, "# HELP {name} {help}")?;
                writeln!(page, "# TYPE {name} {kind}")?;
                values
                    .iter()
                    .try_for_each(|(labels, value)| writeln!(page, "{name}{labels} {value}"))
            };
            // Writing to a string does not fail.
            if write().is_err() {
                tracing::debug!(name, "a metric was not written");
            }
        };
        let n = |value: u64| value as f64;
        metric(
            "truetape_ship_segments_total",
            "counter",
            "Segments, by what became of them.",
            &[
                ("{outcome=\"shipped\"}", n(now.shipped)),
                ("{outcome=\"already_there\"}", n(now.already_there)),
                ("{outcome=\"conflict\"}", n(now.conflicts)),
                ("{outcome=\"refused\"}", n(now.refused)),
                ("{outcome=\"stuck\"}", n(now.stuck)),
            ],
        );
        let one = |value: f64| [("", value)];
        metric(
            "truetape_ship_bytes_total",
            "counter",
            "Bytes of the segments that were shipped.",
            &one(n(now.shipped_bytes)),
        );
        metric(
            "truetape_ship_store_failures_total",
            "counter",
            "Rounds that the store cut short.",
            &one(n(now.store_failures)),
        );
        metric(
            "truetape_ship_waiting_segments",
            "gauge",
            "Segments that are still to be shipped.",
            &one(n(now.waiting)),
        );
        metric(
            "truetape_ship_waiting_bytes",
            "gauge",
            "Bytes of the segments that are still to be shipped.",
            &one(n(now.waiting_bytes)),
        );
        metric(
            "truetape_ship_unsettled_segments",
            "gauge",
            "Segments whose spool the recorder has yet to remove.",
            &one(n(now.unsettled)),
        );
        metric(
            "truetape_ship_last_shipped_seconds",
            "gauge",
            "When a segment was last shipped, in seconds since 1970; 0 for never.",
            &one(n(self.last_shipped_us.load(Relaxed)) / 1e6),
        );
        page
    }
}

#[cfg(test)]
mod tests {
    use super::Tally;

    /// The page that lists the names, and the code that prints them.
    #[test]
    fn the_page_lists_every_metric() {
        let page = include_str!("../../../docs/ship.md");
        let metrics = Tally::default().metrics();
        let names: Vec<&str> = metrics
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE "))
            .filter_map(|line| line.split(' ').next())
            .collect();
        assert_eq!(names.len(), 7, "{metrics}");
        for name in &names {
            assert!(
                page.contains(&format!("| `{name}`")),
                "docs/ship.md lacks {name}"
            );
        }
        let listed = page.matches("| `truetape_ship_").count();
        assert_eq!(
            listed,
            names.len(),
            "docs/ship.md lists a metric that is not there"
        );
    }

    #[test]
    fn what_left_is_no_longer_waiting() {
        let tally = Tally::default();
        tally.waiting.store(2, std::sync::atomic::Ordering::Relaxed);
        tally
            .waiting_bytes
            .store(100, std::sync::atomic::Ordering::Relaxed);
        tally.left(70);
        let summary = tally.summary();
        assert_eq!((summary.waiting, summary.waiting_bytes), (1, 30));
        assert!(tally.text().contains("1 still waiting"), "{}", tally.text());
    }
}
