//! Every metric, by name. `docs/metrics.md` lists the same, and a test compares the two.
//!
//! No label has values that come from traffic.

use crate::recorder::Recorder;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use truetape_schemas::capture;

/// A counter of the proxy that is not part of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each has its help text below")]
pub enum Metric {
    Connections,
    Requests,
    Tunnels,
    Opaque,
    InterimLost,
    ProtocolErrors,
    UpstreamConnects,
    UpstreamReplaced,
    UpstreamUnreachable,
    UpstreamBroken,
    SegmentsSealed,
    SealFailures,
    RowsRecovered,
    TornBytes,
    SegmentsRemoved,
    DiskErrors,
    ParseFailures,
    TlsHandshakeFailures,
    UpstreamTlsFailures,
    TlsReloads,
    TlsReloadFailures,
    LoopsRefused,
    Reloads,
    ReloadFailures,
}

impl Metric {
    /// All of them, in the order of their counters.
    pub const ALL: [Self; 24] = [
        Self::Connections,
        Self::Requests,
        Self::Tunnels,
        Self::Opaque,
        Self::InterimLost,
        Self::ProtocolErrors,
        Self::UpstreamConnects,
        Self::UpstreamReplaced,
        Self::UpstreamUnreachable,
        Self::UpstreamBroken,
        Self::SegmentsSealed,
        Self::SealFailures,
        Self::RowsRecovered,
        Self::TornBytes,
        Self::SegmentsRemoved,
        Self::DiskErrors,
        Self::ParseFailures,
        Self::TlsHandshakeFailures,
        Self::UpstreamTlsFailures,
        Self::TlsReloads,
        Self::TlsReloadFailures,
        Self::LoopsRefused,
        Self::Reloads,
        Self::ReloadFailures,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connections => "truetape_connections_total",
            Self::Requests => "truetape_requests_total",
            Self::Tunnels => "truetape_tunnels_total",
            Self::Opaque => "truetape_opaque_connections_total",
            Self::InterimLost => "truetape_interim_lost_total",
            Self::ProtocolErrors => "truetape_protocol_errors_total",
            Self::UpstreamConnects => "truetape_upstream_connects_total",
            Self::UpstreamReplaced => "truetape_upstream_replaced_total",
            Self::UpstreamUnreachable => "truetape_upstream_unreachable_total",
            Self::UpstreamBroken => "truetape_upstream_broken_total",
            Self::SegmentsSealed => "truetape_segments_sealed_total",
            Self::SealFailures => "truetape_seal_failures_total",
            Self::RowsRecovered => "truetape_rows_recovered_total",
            Self::TornBytes => "truetape_torn_bytes_total",
            Self::SegmentsRemoved => "truetape_segments_removed_total",
            Self::DiskErrors => "truetape_disk_errors_total",
            Self::ParseFailures => "truetape_parse_failures_total",
            Self::TlsHandshakeFailures => "truetape_tls_handshake_failures_total",
            Self::UpstreamTlsFailures => "truetape_upstream_tls_failures_total",
            Self::TlsReloads => "truetape_tls_reloads_total",
            Self::TlsReloadFailures => "truetape_tls_reload_failures_total",
            Self::LoopsRefused => "truetape_loops_refused_total",
            Self::Reloads => "truetape_reloads_total",
            Self::ReloadFailures => "truetape_reload_failures_total",
        }
    }

    /// What it counts.
    pub fn help(self) -> &'static str {
        match self {
            Self::Connections => "Client connections accepted.",
            Self::Requests => "Requests received.",
            Self::Tunnels => "Upgraded connections, tunnelled and not recorded.",
            Self::Opaque => {
                "Client connections that do not speak HTTP, or not any more as far as can be read: tunnelled."
            }
            Self::InterimLost => "Interim responses (1xx) that could not be passed on.",
            Self::ProtocolErrors => "Client connections that broke HTTP, or exceeded a limit.",
            Self::UpstreamConnects => "Connections opened to the upstream.",
            Self::UpstreamReplaced => {
                "A client's idle upstream connections found closed before a byte of its request was sent."
            }
            Self::UpstreamUnreachable => "Requests answered with our 502.",
            Self::UpstreamBroken => "Requests that the upstream gave no response to.",
            Self::SegmentsSealed => "Segments sealed.",
            Self::SealFailures => "Attempts to seal a segment that failed; they are repeated.",
            Self::RowsRecovered => "Rows recovered from the spools of an earlier process.",
            Self::TornBytes => "Bytes at the end of recovered spools that were not whole.",
            Self::SegmentsRemoved => {
                "Sealed segments removed for their room (`--on-quota drop-oldest`)."
            }
            Self::DiskErrors => "Writes or syncs that the disk refused.",
            Self::ParseFailures => "Records whose bodies could not be read; their times are kept.",
            Self::TlsHandshakeFailures => {
                "Client connections whose TLS handshake failed, or took too long."
            }
            Self::UpstreamTlsFailures => {
                "Connections to the upstream whose TLS handshake failed; the request got our 502."
            }
            Self::TlsReloads => {
                "Times that certificates, keys and authorities were read again and put in force."
            }
            Self::TlsReloadFailures => {
                "Times that they could not be used; those before stayed in force."
            }
            Self::LoopsRefused => {
                "Connections that would have led back to the proxy, or had no original destination."
            }
            Self::Reloads => "Times that SIGHUP put other settings in force.",
            Self::ReloadFailures => {
                "Times that SIGHUP changed nothing, because the settings are not sound."
            }
        }
    }
}

/// Metrics that are read off other state: name, kind, help.
pub const DERIVED: &[(&str, &str, &str)] = &[
    (
        "truetape_build_info",
        "gauge",
        "Always 1; the labels name version and capture format.",
    ),
    (
        "truetape_records_offered_total",
        "counter",
        "Exchanges that arrived. Offered less all below is in progress.",
    ),
    (
        "truetape_records_recorded_total",
        "counter",
        "Exchanges recorded whole.",
    ),
    (
        "truetape_records_degraded_total",
        "counter",
        "Exchanges recorded with something given up.",
    ),
    (
        "truetape_records_sampled_out_total",
        "counter",
        "Exchanges of sessions that are not in the sample.",
    ),
    (
        "truetape_records_excluded_total",
        "counter",
        "Exchanges left out by a rule, by reason.",
    ),
    (
        "truetape_records_dropped_total",
        "counter",
        "Exchanges lost, by reason.",
    ),
    (
        "truetape_exchanges_in_flight",
        "gauge",
        "Exchanges to be recorded that are happening.",
    ),
    (
        "truetape_capture_memory_bytes",
        "gauge",
        "Memory that capture holds.",
    ),
    (
        "truetape_capture_memory_bytes_max",
        "gauge",
        "Memory that capture may hold.",
    ),
    (
        "truetape_capture_state",
        "gauge",
        "1 for the state that capture is in, 0 for the others.",
    ),
    (
        "truetape_capture_last_record_age_seconds",
        "gauge",
        "Time since an exchange was last offered to the recorder.",
    ),
];

/// The states of capture, as `/capture` and `truetape_capture_state` name them.
pub const STATES: &[&str] = &["recording", "off", "paused_disk", "failed"];

/// The counters of one proxy.
#[derive(Debug, Default)]
pub struct Metrics([AtomicU64; Metric::ALL.len()]);

impl Metrics {
    /// Counts one.
    pub fn count(&self, metric: Metric) {
        self.add(metric, 1);
    }

    /// Counts several.
    pub fn add(&self, metric: Metric, n: u64) {
        if let Some(counter) = self.0.get(metric as usize) {
            counter.fetch_add(n, Relaxed);
        }
    }

    /// A counter's value.
    pub fn get(&self, metric: Metric) -> u64 {
        self.0
            .get(metric as usize)
            .map_or(0, |counter| counter.load(Relaxed))
    }

    /// All metrics in Prometheus' text format.
    pub fn render(&self, recorder: &Recorder, state: &str) -> String {
        let mut page = Page::default();
        for metric in Metric::ALL {
            page.family(metric.name(), "counter", metric.help());
            page.sample(metric.name(), "", self.get(metric));
        }
        let ledger = recorder.account().snapshot();
        for (name, kind, help) in DERIVED {
            page.family(name, kind, help);
            let mut by_reason = |counts: &std::collections::BTreeMap<String, u64>| {
                for (reason, n) in counts {
                    page.sample(name, &format!("{{reason=\"{reason}\"}}"), n);
                }
            };
            match *name {
                "truetape_records_excluded_total" => by_reason(&ledger.excluded),
                "truetape_records_dropped_total" => by_reason(&ledger.dropped),
                "truetape_build_info" => page.sample(name, &build_labels(), 1),
                "truetape_capture_state" => {
                    for known in STATES {
                        let label = format!("{{state=\"{known}\"}}");
                        page.sample(name, &label, u8::from(*known == state));
                    }
                }
                "truetape_capture_last_record_age_seconds" => {
                    let age_us = recorder.clock().now_us() - recorder.last_offer_us();
                    page.sample(
                        name,
                        "",
                        format!("{}.{:06}", age_us / 1_000_000, age_us % 1_000_000),
                    );
                }
                "truetape_records_offered_total" => page.sample(name, "", ledger.offered),
                "truetape_records_recorded_total" => page.sample(name, "", ledger.recorded),
                "truetape_records_degraded_total" => page.sample(name, "", ledger.degraded),
                "truetape_records_sampled_out_total" => page.sample(name, "", ledger.sampled_out),
                "truetape_exchanges_in_flight" => page.sample(name, "", recorder.inflight()),
                "truetape_capture_memory_bytes" => page.sample(name, "", recorder.budget().used()),
                _ => page.sample(name, "", recorder.budget().max()),
            }
        }
        page.0
    }
}

fn build_labels() -> String {
    format!(
        "{{version=\"{}\",capture_format=\"{}\"}}",
        env!("CARGO_PKG_VERSION"),
        capture::FORMAT
    )
}

#[derive(Default)]
struct Page(String);

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a `String` cannot fail.
        writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}").ok();
    }

    fn sample(&mut self, name: &str, labels: &str, value: impl std::fmt::Display) {
        writeln!(self.0, "{name}{labels} {value}").ok();
    }
}

#[cfg(test)]
mod tests {
    use super::{DERIVED, Metric, Metrics};
    use crate::account::{Exclusion, Loss};
    use crate::recorder::Recorder;

    #[test]
    fn the_page_lists_every_metric_with_its_help() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/metrics.md");
        let page = std::fs::read_to_string(path).unwrap();
        let counters = Metric::ALL.iter().map(|m| (m.name(), "counter", m.help()));
        let listed: Vec<&str> = page
            .lines()
            .filter(|line| line.starts_with("| `truetape_"))
            .collect();
        let wanted: Vec<String> = counters
            .chain(DERIVED.iter().copied())
            .map(|(name, kind, help)| format!("| `{name}` | {kind} | {help} |"))
            .collect();
        assert_eq!(listed, wanted, "docs/metrics.md is out of date");
        for reason in Exclusion::ALL
            .map(Exclusion::name)
            .iter()
            .chain(&Loss::ALL.map(Loss::name))
        {
            assert!(
                page.contains(&format!("`{reason}`")),
                "docs/metrics.md lacks reason {reason}"
            );
        }
    }

    #[test]
    fn the_counters_are_in_order_and_rendered() {
        for (index, metric) in Metric::ALL.iter().enumerate() {
            assert_eq!(*metric as usize, index);
        }
        let (recorder, _records) = Recorder::new(1 << 20, 4);
        let metrics = Metrics::default();
        metrics.add(Metric::Tunnels, 3);
        recorder.skip(Exclusion::NotInference);
        let page = metrics.render(&recorder, "recording");
        for line in [
            "truetape_tunnels_total 3",
            "truetape_records_offered_total 1",
            "truetape_records_excluded_total{reason=\"not_inference\"} 1",
            "# TYPE truetape_exchanges_in_flight gauge",
            "truetape_capture_state{state=\"recording\"} 1",
            "truetape_capture_state{state=\"off\"} 0",
        ] {
            assert!(
                page.lines().any(|found| found == line),
                "{line} is not in\n{page}"
            );
        }
    }
}
