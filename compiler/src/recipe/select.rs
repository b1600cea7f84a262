//! Which sessions are taken.

use super::duration_us;
use crate::select::group::Group;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use truetape_fidelity::engine::EngineConfig;

/// Share of the source's tokens that is taken when the recipe states no budget.
pub const TOKEN_SHARE_DEFAULT: f64 = 0.10;

/// Which sessions are taken. A session is taken whole or not at all (C2).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Select {
    /// How they are chosen.
    pub method: Method,
    /// Budget of `balanced` and `random`: share of the source's prompt and generated tokens.
    pub token_share: Option<f64>,
    /// Budget of `balanced` and `random`: prompt and generated tokens.
    pub tokens: Option<u64>,
    /// Where `window` looks.
    pub window: Option<Window>,
    /// How production spreads its traffic over replicas, where the view is one of them.
    pub routing: Option<RoutingRule>,
    /// Over how many replicas, where that is not captured; one for each share of the budget else.
    pub replicas: Option<u16>,
    /// How much each group of sums counts; 0 holds it out of the search.
    pub weights: BTreeMap<Group, f64>,
    /// By group: the error, as a share of all there should be, that counts as 1.
    pub tolerances: BTreeMap<Group, f64>,
    /// Fleet view: cache sizes at which hits are matched, in blocks; a spread where there are none.
    pub capacities_blocks: Vec<usize>,
    /// Replica view: the engine that latencies are simulated on; one that the captured load keeps
    /// busy where it is not stated.
    pub engine: Option<EngineConfig>,
    /// Replica view: samples that the engine model chooses among.
    pub candidates: usize,
    /// Replica view: exchanges of sessions that the engine model is asked about.
    pub refinements: usize,
}

/// Samples that the engine model chooses among.
const CANDIDATES_DEFAULT: usize = 6;

/// Exchanges that the engine model is asked about.
const REFINEMENTS_DEFAULT: usize = 600;

impl Default for Select {
    fn default() -> Self {
        Self {
            method: Method::default(),
            token_share: None,
            tokens: None,
            window: None,
            routing: None,
            replicas: None,
            weights: [(Group::Pauses, 0.0), (Group::Joint, 0.0)].into(),
            tolerances: Group::ALL.map(|group| (group, group.tolerance())).into(),
            capacities_blocks: Vec::new(),
            engine: None,
            candidates: CANDIDATES_DEFAULT,
            refinements: REFINEMENTS_DEFAULT,
        }
    }
}

/// How sessions are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Whole sessions, up to a token budget, exchanged until they add up to what the source is.
    #[default]
    Balanced,
    /// Whole sessions by permanent random numbers, up to a token budget.
    Random,
    /// Everything.
    All,
    /// The sessions that start inside a window.
    Window,
    /// The sessions of one replica: the one that is most like all of them.
    Replica,
}

impl Method {
    /// The word in recipes and manifests.
    pub fn name(self) -> &'static str {
        match self {
            Self::Balanced => "balanced",
            Self::Random => "random",
            Self::All => "all",
            Self::Window => "window",
            Self::Replica => "replica",
        }
    }

    /// Whether it has a token budget.
    pub fn has_budget(self) -> bool {
        matches!(self, Self::Balanced | Self::Random)
    }
}

/// How production spreads its traffic over replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RoutingRule {
    /// As the capture shows, by upstream or by recorder.
    Captured,
    /// A session stays on one replica.
    Session,
    /// Sessions with a common prefix stay on one replica.
    Prefix,
}

impl RoutingRule {
    /// The word in recipes and manifests.
    pub fn name(self) -> &'static str {
        match self {
            Self::Captured => "captured",
            Self::Session => "session",
            Self::Prefix => "prefix",
        }
    }
}

/// A stretch of the source's time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// Its start, after the source's first arrival, as in `"0s"`; where it is not stated, the start
    /// of the window that is most like the whole.
    pub start: Option<String>,
    /// Its length, as in `"5m"`.
    pub length: String,
}

impl Select {
    pub(super) fn check(&self) -> Result<(), String> {
        let budgets = usize::from(self.token_share.is_some()) + usize::from(self.tokens.is_some());
        if budgets > 1 {
            return Err("select: both token_share and tokens, allowed is one of them".to_owned());
        }
        if budgets > 0 && !self.method.has_budget() {
            let methods = "method = \"balanced\" and \"random\"";
            return Err(format!("select: a token budget goes with {methods} only"));
        }
        if self.window.is_some() && self.method != Method::Window {
            return Err("select: window goes with method = \"window\" only".to_owned());
        }
        if self.method == Method::Window {
            self.window_length_us()?;
            self.window_start_us()?;
        }
        self.check_share()?;
        self.check_numbers()
    }

    fn check_share(&self) -> Result<(), String> {
        match self.token_share {
            Some(share) if !(share > 0.0 && share <= 1.0) => Err(format!(
                "select.token_share: {share}, allowed is more than 0, up to 1"
            )),
            _ if self.tokens == Some(0) => Err("select.tokens: 0, allowed is 1 or more".to_owned()),
            _ => Ok(()),
        }
    }

    fn check_numbers(&self) -> Result<(), String> {
        for (group, weight) in &self.weights {
            if !(weight.is_finite() && *weight >= 0.0) {
                let name = group.name();
                return Err(format!(
                    "select.weights.{name}: {weight}, allowed is 0 or more"
                ));
            }
        }
        for (group, tolerance) in &self.tolerances {
            if !(tolerance.is_finite() && *tolerance > 0.0) {
                let name = group.name();
                return Err(format!(
                    "select.tolerances.{name}: {tolerance}, allowed is more than 0"
                ));
            }
        }
        match (self.replicas, self.candidates) {
            (Some(0), _) => Err("select.replicas: 0, allowed is 1 or more".to_owned()),
            (_, 0) => Err("select.candidates: 0, allowed is 1 or more".to_owned()),
            (Some(_), _) if self.routing == Some(RoutingRule::Captured) => {
                Err("select.replicas: does not go with routing = \"captured\"".to_owned())
            }
            _ => Ok(()),
        }
    }

    fn window(&self) -> Result<&Window, String> {
        self.window
            .as_ref()
            .ok_or_else(|| "select.window: missing; give window = { length = \"5m\" }".to_owned())
    }

    /// The length of the window in microseconds.
    pub fn window_length_us(&self) -> Result<i64, String> {
        match duration_us("select.window.length", &self.window()?.length)? {
            0 => Err("select.window.length: 0, allowed is more than 0".to_owned()),
            length_us => Ok(length_us),
        }
    }

    /// The start of the window in microseconds after the source's first arrival, where it is stated.
    pub fn window_start_us(&self) -> Result<Option<i64>, String> {
        let start = self.window()?.start.as_ref();
        start
            .map(|start| duration_us("select.window.start", start))
            .transpose()
    }
}
