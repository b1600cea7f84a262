//! Whether a capture is whole: every segment opens, the ledger balances, rows make sense.

use super::Findings;
use crate::error::Error;
use crate::source::{self, Footers};
use std::collections::HashSet;
use std::path::PathBuf;
use truetape_schemas::capture::Exchange;

pub(super) fn verify(segments: &[PathBuf]) -> Result<Findings, Error> {
    let mut findings = Findings::of("capture");
    let mut footers = Footers::default();
    let mut seen = HashSet::new();
    for segment in segments {
        let name = segment
            .file_name()
            .unwrap_or_default()
            .display()
            .to_string();
        let (reader, footer) = source::open(segment)?;
        let stated = reader.row_count();
        let mut rows = 0;
        for batch in reader {
            for exchange in batch? {
                rows += 1;
                check_row(&name, &exchange, &mut findings);
                if !seen.insert(exchange.exchange_id.clone()) {
                    let subject = format!("{name}: exchange {}", exchange.exchange_id);
                    findings.fault(subject, "is there twice");
                }
            }
        }
        if rows != stated {
            findings.fault(&name, format!("{rows} rows, its footer says {stated}"));
        }
        if let Some(ledger) = footer
            .ledger
            .as_ref()
            .filter(|ledger| ledger.rows() != rows)
        {
            let problem = format!("{rows} rows, its ledger says {}", ledger.rows());
            findings.fault(&name, problem);
        }
        findings.rows += rows;
        footers.add(&footer);
    }
    match &footers.ledger {
        None => findings.fault(
            "ledger",
            "no segment has one: what is missing, nobody knows",
        ),
        Some(ledger) if !ledger.balances() => {
            let problem = format!(
                "{} offered, {} accounted for",
                ledger.offered,
                ledger.accounted()
            );
            findings.fault("ledger", problem);
        }
        Some(_) => {}
    }
    Ok(findings)
}

fn check_row(segment: &str, exchange: &Exchange, findings: &mut Findings) {
    let mut fault = |problem: String| {
        findings.fault(
            format!("{segment}: exchange {}", exchange.exchange_id),
            problem,
        );
    };
    let offsets = [
        ("request_end_us", exchange.request_end_us),
        ("response_head_us", exchange.response_head_us),
        ("first_byte_us", exchange.first_byte_us),
        ("first_token_us", exchange.first_token_us),
        ("last_token_us", exchange.last_token_us),
        ("end_us", exchange.end_us),
    ];
    for (name, value) in offsets {
        if let Some(us) = value.filter(|us| *us < 0) {
            fault(format!("{name} {us}, before its arrival"));
        }
    }
    let ordered = [
        (
            "first_token_us",
            exchange.first_token_us,
            "last_token_us",
            exchange.last_token_us,
        ),
        (
            "last_token_us",
            exchange.last_token_us,
            "end_us",
            exchange.end_us,
        ),
    ];
    for (before, earlier, after, later) in ordered {
        if let (Some(earlier), Some(later)) = (earlier, later)
            && later < earlier
        {
            fault(format!("{after} {later} is before {before} {earlier}"));
        }
    }
    let events = exchange
        .token_event_offsets_us
        .as_deref()
        .unwrap_or_default();
    if events.windows(2).any(|pair| pair[1] < pair[0]) {
        fault("token events go back in time".to_owned());
    }
}
