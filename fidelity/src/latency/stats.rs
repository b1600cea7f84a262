//! Distributions of latencies, finite and not.

use crate::quantile::{mean, quantile, sorted};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A distribution of finite values, in the unit that the key names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Stats {
    /// Values.
    pub count: u64,
    /// Mean.
    pub mean: Option<f64>,
    /// Median.
    pub p50: Option<f64>,
    /// 90th percentile.
    pub p90: Option<f64>,
    /// 95th percentile.
    pub p95: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// The largest.
    pub max: Option<f64>,
}

impl Stats {
    /// Describes microseconds, in milliseconds.
    pub fn of_us(values: impl Iterator<Item = i64>) -> Self {
        Self::of_ms(values.map(|us| us as f64 / 1_000.0))
    }

    /// Describes milliseconds.
    pub fn of_ms(values: impl Iterator<Item = f64>) -> Self {
        let values = sorted(values);
        Self {
            count: values.len() as u64,
            mean: mean(&values),
            p50: quantile(&values, 0.5),
            p90: quantile(&values, 0.9),
            p95: quantile(&values, 0.95),
            p99: quantile(&values, 0.99),
            max: values.last().copied(),
        }
    }
}

/// A distribution that may reach infinity. It has no mean.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Adjusted {
    /// Values, the infinite ones included.
    pub count: u64,
    /// Infinite ones.
    pub infinite: u64,
    /// Median.
    pub p50: Option<Millis>,
    /// 90th percentile.
    pub p90: Option<Millis>,
    /// 95th percentile.
    pub p95: Option<Millis>,
    /// 99th percentile.
    pub p99: Option<Millis>,
}

impl Adjusted {
    /// Describes milliseconds, infinity included.
    pub fn of_ms(values: impl Iterator<Item = f64>) -> Self {
        let values = sorted(values);
        let at = |q| quantile(&values, q).map(Millis);
        Self {
            count: values.len() as u64,
            infinite: values.iter().filter(|value| value.is_infinite()).count() as u64,
            p50: at(0.5),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
        }
    }
}

/// The text that stands for infinity in JSON, which has no number for it.
pub const INFINITE: &str = "inf";

/// Milliseconds, possibly infinite: a number in JSON, or the text `"inf"`. Null stays "unknown".
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Millis(pub f64);

impl Serialize for Millis {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.is_finite() {
            serializer.serialize_f64(self.0)
        } else {
            serializer.serialize_str(INFINITE)
        }
    }
}

impl<'de> Deserialize<'de> for Millis {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Number(f64),
            Text(String),
        }
        match Form::deserialize(deserializer)? {
            Form::Number(ms) => Ok(Self(ms)),
            Form::Text(text) if text == INFINITE => Ok(Self(f64::INFINITY)),
            Form::Text(text) => Err(serde::de::Error::custom(format!(
                "`{text}` is neither a number nor `{INFINITE}`"
            ))),
        }
    }
}
