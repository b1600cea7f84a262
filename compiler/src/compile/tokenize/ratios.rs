//! How many bytes a token has, where no vocabulary says it: what servers reported tells.

use super::super::row::{Name, Row};
use std::collections::BTreeMap;
use truetape_fidelity::tokens::BYTES_PER_TOKEN;
use truetape_schemas::set::manifest::Calibration;

/// What has a ratio of its own: a model, and whether its prompts are text or hashes of it. The
/// latter are measured with the JSON around them.
type Kind = (Option<Name>, bool);

/// Bytes of a token, by model.
#[derive(Debug, Default)]
pub(super) struct Ratios {
    by_kind: BTreeMap<Kind, Calibration>,
    overall: Option<f64>,
}

/// A prompt whose length the server reported.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reported<'a> {
    pub(super) row: &'a Row,
    pub(super) bytes: f64,
    pub(super) tokens: f64,
    hashed: bool,
}

/// Prompts of text, or of hashes, whose length the server reported. Those with images have tokens
/// that no text has.
pub(super) fn reported(rows: &[Row]) -> impl Iterator<Item = Reported<'_>> {
    rows.iter().filter_map(|row| {
        let text = row.text.as_ref().filter(|text| !text.media)?;
        let tokens = row.input_tokens.filter(|tokens| *tokens > 0)?;
        Some(Reported {
            row,
            bytes: text.rendered_bytes as f64,
            tokens: tokens as f64,
            hashed: text.hashed,
        })
    })
}

impl Ratios {
    /// Four bytes a token, whatever the model.
    pub(super) fn four_bytes() -> Self {
        Self::default()
    }

    /// Bytes over tokens, for each model and for all, with the error that is left.
    pub(super) fn calibrated(rows: &[Row]) -> Self {
        let mut sums: BTreeMap<Kind, (f64, f64)> = BTreeMap::new();
        for reported in reported(rows) {
            let kind = (reported.row.model.clone(), reported.hashed);
            let sum = sums.entry(kind).or_default();
            *sum = (sum.0 + reported.bytes, sum.1 + reported.tokens);
        }
        let (bytes, tokens) = sums
            .values()
            .fold((0.0, 0.0), |all, sum| (all.0 + sum.0, all.1 + sum.1));
        let by_kind = sums.into_iter().map(|(kind, sum)| {
            let bytes_per_token = sum.0 / sum.1;
            let calibration = Calibration {
                bytes_per_token: Some(bytes_per_token),
                ..Calibration::default()
            };
            (kind, calibration)
        });
        let mut ratios = Self {
            by_kind: by_kind.collect(),
            overall: (tokens > 0.0).then(|| bytes / tokens),
        };
        ratios.judge(rows);
        ratios
    }

    /// Bytes of a token in the prompts of a model.
    pub(super) fn of(&self, row: &Row) -> f64 {
        let hashed = row.text.as_ref().is_some_and(|text| text.hashed);
        let own = self.by_kind.get(&(row.model.clone(), hashed));
        own.and_then(|calibration| calibration.bytes_per_token)
            .unwrap_or_else(|| self.overall())
    }

    /// The same over all models.
    pub(super) fn overall(&self) -> f64 {
        self.overall.unwrap_or(BYTES_PER_TOKEN as f64)
    }

    /// The ratio and the error of each model, as the set holds them.
    pub(super) fn by_model(&self) -> BTreeMap<String, Calibration> {
        let named = self.by_kind.iter().map(|((model, hashed), calibration)| {
            let model = model.as_deref().unwrap_or("unnamed");
            let name = if *hashed {
                format!("{model}, hashed")
            } else {
                model.to_owned()
            };
            (name, calibration.clone())
        });
        named.collect()
    }

    /// Mean absolute relative error against reported usage.
    pub(super) fn error(&self, rows: &[Row]) -> Option<f64> {
        mean(reported(rows).map(|reported| self.error_of(&reported)))
    }

    fn error_of(&self, reported: &Reported<'_>) -> f64 {
        let estimate = (reported.bytes / self.of(reported.row)).ceil();
        relative(estimate, reported.tokens)
    }

    /// Fills in the error of each model.
    fn judge(&mut self, rows: &[Row]) {
        let mut errors: BTreeMap<Kind, Vec<f64>> = BTreeMap::new();
        for reported in reported(rows) {
            let kind = (reported.row.model.clone(), reported.hashed);
            errors
                .entry(kind)
                .or_default()
                .push(self.error_of(&reported));
        }
        for (kind, errors) in errors {
            if let Some(calibration) = self.by_kind.get_mut(&kind) {
                calibration.prompts = errors.len() as u64;
                calibration.error = mean(errors.into_iter());
            }
        }
    }
}

/// How far a count is from the one that was reported, as a share of it.
pub(super) fn relative(estimate: f64, reported: f64) -> f64 {
    (estimate - reported).abs() / reported
}

/// The mean; none of nothing.
pub(super) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (n, sum) = values.fold((0_u32, 0.0), |(n, sum), value| (n + 1, sum + value));
    (n > 0).then(|| sum / f64::from(n))
}
