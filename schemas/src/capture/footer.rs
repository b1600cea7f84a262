//! The footer of a capture segment: what is true of all its rows.

use crate::ledger::Ledger;
use crate::time::ClockAnchor;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The ledger of this segment, as JSON. Absent: the writer kept none.
pub const LEDGER: &str = "ledger";
/// Readings of both clocks, as a JSON list. Absent: the wall clock of the source is unknown.
pub const CLOCK_ANCHORS: &str = "clock_anchors";
/// Digest of the configuration the recorder ran with.
pub const PROXY_CONFIG_DIGEST: &str = "proxy_config_digest";
/// Share of sessions recorded, as a number. Absent means 1.
pub const SAMPLING_RATE: &str = "sampling_rate";
/// Salt of the session hash that decides.
pub const SAMPLING_SALT: &str = "sampling_salt";
/// Names the key of the hashes that stand in for text, so that captures can be told to compare;
/// never the key. Absent: no text was hashed.
pub const DIGEST_KEY_FINGERPRINT: &str = "digest_key_fingerprint";
/// Name of the redaction profile.
pub const REDACTION_PROFILE: &str = "redaction_profile";
/// What an importer could not carry over, as a JSON list of sentences.
pub const IMPORT_LOSSES: &str = "import_losses";
/// Smallest step of the source's clock in microseconds, where it is coarser than ours.
pub const CLOCK_RESOLUTION_US: &str = "clock_resolution_us";
/// Version of the tool that wrote the file.
pub const TOOL_VERSION: &str = "tool_version";

/// What the footer of a segment says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "every field is a footer key, documented above")]
pub struct Footer {
    pub ledger: Option<Ledger>,
    pub clock_anchors: Vec<ClockAnchor>,
    pub proxy_config_digest: Option<String>,
    pub sampling_rate: Option<f64>,
    pub sampling_salt: Option<String>,
    pub digest_key_fingerprint: Option<String>,
    pub redaction_profile: Option<String>,
    pub import_losses: Vec<String>,
    pub clock_resolution_us: Option<i64>,
    pub tool_version: Option<String>,
}

impl Footer {
    /// The keys and values that go into the file.
    pub fn to_pairs(&self) -> Vec<(String, String)> {
        let mut pairs = Vec::new();
        let mut put = |key: &str, value: Option<String>| {
            if let Some(value) = value {
                pairs.push((key.to_owned(), value));
            }
        };
        put(
            LEDGER,
            self.ledger
                .as_ref()
                .and_then(|ledger| serde_json::to_string(ledger).ok()),
        );
        if !self.clock_anchors.is_empty() {
            put(
                CLOCK_ANCHORS,
                serde_json::to_string(&self.clock_anchors).ok(),
            );
        }
        put(PROXY_CONFIG_DIGEST, self.proxy_config_digest.clone());
        put(
            SAMPLING_RATE,
            self.sampling_rate.map(|rate| rate.to_string()),
        );
        put(SAMPLING_SALT, self.sampling_salt.clone());
        put(DIGEST_KEY_FINGERPRINT, self.digest_key_fingerprint.clone());
        put(REDACTION_PROFILE, self.redaction_profile.clone());
        if !self.import_losses.is_empty() {
            put(
                IMPORT_LOSSES,
                serde_json::to_string(&self.import_losses).ok(),
            );
        }
        put(
            CLOCK_RESOLUTION_US,
            self.clock_resolution_us.map(|us| us.to_string()),
        );
        put(TOOL_VERSION, self.tool_version.clone());
        pairs
    }

    /// Reads the keys back; what cannot be read is as if it were absent.
    pub fn from_pairs(pairs: &BTreeMap<String, String>) -> Self {
        fn json<T: serde::de::DeserializeOwned>(
            pairs: &BTreeMap<String, String>,
            key: &str,
        ) -> Option<T> {
            pairs
                .get(key)
                .and_then(|text| serde_json::from_str(text).ok())
        }
        Self {
            ledger: json(pairs, LEDGER),
            clock_anchors: json(pairs, CLOCK_ANCHORS).unwrap_or_default(),
            proxy_config_digest: pairs.get(PROXY_CONFIG_DIGEST).cloned(),
            sampling_rate: json(pairs, SAMPLING_RATE),
            sampling_salt: pairs.get(SAMPLING_SALT).cloned(),
            digest_key_fingerprint: pairs.get(DIGEST_KEY_FINGERPRINT).cloned(),
            redaction_profile: pairs.get(REDACTION_PROFILE).cloned(),
            import_losses: json(pairs, IMPORT_LOSSES).unwrap_or_default(),
            clock_resolution_us: json(pairs, CLOCK_RESOLUTION_US),
            tool_version: pairs.get(TOOL_VERSION).cloned(),
        }
    }
}
