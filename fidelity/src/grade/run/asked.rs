//! What the user asked of the arrivals: another rate, or a control in their place.

use super::Log;
use truetape_schemas::run::Dispatch;

/// Arrivals that are not the set's own.
#[derive(Clone, Debug, Default)]
pub(super) struct Asked {
    /// The control that stands in their place.
    pub(super) control: Option<String>,
    /// How the rate was changed.
    pub(super) rate: Option<String>,
}

impl Asked {
    pub(super) fn of(log: &Log<'_>) -> Self {
        let flag = |name: &str| {
            let value = log.run.flags.get(name)?;
            value.as_str().map(str::to_owned)
        };
        let control = flag("arrivals").filter(|arrivals| arrivals != "recorded");
        let scale = log
            .run
            .flags
            .get("rate_scale")
            .and_then(serde_json::Value::as_f64);
        let shape = flag("rate_mode").is_some_and(|mode| mode == "shape");
        let scale = scale.filter(|scale| *scale != 1.0 && !shape);
        let mut rate: Vec<String> = Vec::new();
        rate.extend(scale.map(|scale| format!("{scale} times")));
        rate.extend(flag("ramp").map(|ramp| format!("a ramp of {ramp} times")));
        rate.extend(flag("steps").map(|steps| format!("steps of {steps} times")));
        Self {
            control,
            rate: (!rate.is_empty()).then(|| rate.join(", ")),
        }
    }

    /// When a turn should have been sent, of a rate that was asked for: when it was due.
    pub(super) fn due(&self, dispatch: &Dispatch) -> Option<i64> {
        self.rate.as_ref().map(|_| dispatch.due_us)
    }

    /// What a reader of the arrivals must know.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(control) = &self.control {
            notes.push(format!("arrivals are a control: {control}"));
        }
        if let Some(rate) = &self.rate {
            notes.push(format!("against what was asked for: {rate} the set's rate"));
        }
        notes
    }
}
