//! One line of a trace.

use super::format::TraceFormat;
use super::spoken::{self, Spoken};
use super::{gor, table};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use truetape_schemas::capture::Exchange;

/// What a line says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceRow {
    /// Its timestamp, in microseconds.
    pub timestamp_us: i64,
    /// What that leaves out, in nanoseconds, where the format is finer.
    pub timestamp_rest_ns: Option<i32>,
    /// `input_length`, from its own field: it includes the history.
    pub input_tokens: Option<i64>,
    /// `output_length`.
    pub output_tokens: Option<i64>,
    /// `hash_ids`: cumulative from the start of the prompt; the last may cover a partial block.
    pub hash_ids: Option<Vec<u64>>,
    /// `session_id`.
    pub session_id: Option<String>,
    /// `chat_id` and, unless it is -1, `parent_chat_id`.
    pub chat: Option<(i64, Option<i64>)>,
    /// The model, where a format without text names it.
    pub model: Option<String>,
    /// Whether the line says that the request failed.
    pub failed: bool,
    /// What was asked and answered, where the format holds text.
    pub spoken: Option<Box<Spoken>>,
    /// All that a recorder would have written, where the format holds messages.
    pub recorded: Option<Box<Exchange>>,
    /// Keys that are not carried over.
    pub other_keys: BTreeSet<String>,
}

/// Why a line cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unusable {
    /// The word in the ledger.
    pub reason: &'static str,
    /// What was found, and what was wanted.
    pub problem: String,
}

pub(super) fn unusable<T>(reason: &'static str, problem: impl Into<String>) -> Result<T, Unusable> {
    Err(Unusable {
        reason,
        problem: problem.into(),
    })
}

/// Reads one line.
pub fn read(format: TraceFormat, line: &[u8], block_tokens: u32) -> Result<TraceRow, Unusable> {
    if format == TraceFormat::Goreplay {
        return gor::read(line);
    }
    if let Some(layouts) = table::layouts(format) {
        return table::read(layouts, format, line);
    }
    let object: Map<String, Value> = match serde_json::from_slice(line) {
        Ok(object) => object,
        Err(cause) => return unusable("not_json", format!("not a JSON object: {cause}")),
    };
    let other_keys = object
        .keys()
        .filter(|key| !format.keys().contains(&key.as_str()))
        .cloned()
        .collect();
    match format {
        TraceFormat::Lmcache | TraceFormat::Litellm => {
            let row = spoken::read(format, &object)?;
            return Ok(TraceRow { other_keys, ..row });
        }
        TraceFormat::Mooncake
        | TraceFormat::Bailian
        | TraceFormat::Azure
        | TraceFormat::Burstgpt
        | TraceFormat::Goreplay => {}
    }
    let input_tokens = count(&object, "input_length")?;
    let row = TraceRow {
        timestamp_us: timestamp_us(&object, "timestamp", format.unit_us())?,
        input_tokens: Some(input_tokens.map_or_else(|| missing("no input_length"), Ok)?),
        output_tokens: count(&object, "output_length")?,
        hash_ids: hash_ids(&object)?,
        session_id: session_id(&object)?,
        chat: match format {
            TraceFormat::Bailian => Some(chat(&object)?),
            _ => None,
        },
        other_keys,
        ..TraceRow::default()
    };
    check_blocks(&row, block_tokens)?;
    Ok(row)
}

/// A field that a line cannot do without.
pub(super) fn missing<T>(problem: impl Into<String>) -> Result<T, Unusable> {
    unusable("missing_field", problem)
}

/// A timestamp as a number of units.
pub(super) fn timestamp_us(
    object: &Map<String, Value>,
    key: &str,
    unit_us: i64,
) -> Result<i64, Unusable> {
    let Some(value) = object.get(key) else {
        return missing(format!("no {key}"));
    };
    number_us(value, key, unit_us)
}

/// A number of units as microseconds.
pub(super) fn number_us(value: &Value, key: &str, unit_us: i64) -> Result<i64, Unusable> {
    // Integers stay integers: a double would blur microseconds after 285 years only, but exact
    // is cheap.
    if let Some(units) = value.as_i64() {
        return match units.checked_mul(unit_us) {
            Some(us) if us >= 0 => Ok(us),
            Some(_) => unusable("negative", format!("{key} {units}, wanted 0 or more")),
            None => unusable("out_of_range", format!("{key} {units} is too large")),
        };
    }
    match value.as_f64() {
        Some(units) if units < 0.0 => {
            unusable("negative", format!("{key} {units}, wanted 0 or more"))
        }
        Some(units) if units * (unit_us as f64) < TIMESTAMP_US_MAX => {
            Ok((units * unit_us as f64).round() as i64)
        }
        Some(units) => unusable("out_of_range", format!("{key} {units} is too large")),
        None => unusable("not_a_number", format!("{key} {value}, wanted a number")),
    }
}

/// 2^53 microseconds, 285 years: beyond it doubles are coarser than a microsecond.
const TIMESTAMP_US_MAX: f64 = 9_007_199_254_740_992.0;

/// Tokens of a prompt or an answer at most: longer ones are typing errors.
const LENGTH_MAX: i64 = 1 << 31;

pub(super) fn count(object: &Map<String, Value>, key: &str) -> Result<Option<i64>, Unusable> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => length(value, key).map(Some),
    }
}

/// A length in tokens.
pub(super) fn length(value: &Value, key: &str) -> Result<i64, Unusable> {
    match value.as_i64() {
        Some(n) if n > LENGTH_MAX => unusable(
            "out_of_range",
            format!("{key} {n}, wanted {LENGTH_MAX} or less"),
        ),
        Some(n) if n >= 0 => Ok(n),
        Some(n) => unusable("negative", format!("{key} {n}, wanted 0 or more")),
        None => unusable("not_a_number", format!("{key} {value}, wanted an integer")),
    }
}

fn hash_ids(object: &Map<String, Value>) -> Result<Option<Vec<u64>>, Unusable> {
    let ids = match object.get("hash_ids") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Array(ids)) => ids,
        Some(other) => return unusable("bad_ids", format!("hash_ids {other}, wanted a list")),
    };
    // Ids are 64 bits wide: a narrower type merges ids and invents cache hits.
    let read = |id: &Value| {
        id.as_u64().map_or_else(
            || {
                unusable(
                    "bad_ids",
                    format!("hash_ids has {id}, wanted 0 to 18446744073709551615"),
                )
            },
            Ok,
        )
    };
    ids.iter().map(read).collect::<Result<_, _>>().map(Some)
}

pub(super) fn session_id(object: &Map<String, Value>) -> Result<Option<String>, Unusable> {
    match object.get("session_id") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(Value::Number(number)) => Ok(Some(number.to_string())),
        Some(other) => unusable(
            "bad_session",
            format!("session_id {other}, wanted a text or a number"),
        ),
    }
}

fn chat(object: &Map<String, Value>) -> Result<(i64, Option<i64>), Unusable> {
    let id = |key: &str| {
        object.get(key).and_then(Value::as_i64).map_or_else(
            || unusable("missing_field", format!("no {key}, or not an integer")),
            Ok,
        )
    };
    let parent = id("parent_chat_id")?;
    Ok((id("chat_id")?, (parent != -1).then_some(parent)))
}

/// An id count that does not fit the length means another block size, or a made-up file.
fn check_blocks(row: &TraceRow, block_tokens: u32) -> Result<(), Unusable> {
    let (Some(ids), Some(tokens)) = (&row.hash_ids, row.input_tokens) else {
        return Ok(());
    };
    let wanted = tokens.cast_unsigned().div_ceil(u64::from(block_tokens));
    if wanted == ids.len() as u64 {
        return Ok(());
    }
    unusable(
        "blocks_disagree",
        format!(
            "{} hash_ids for {} tokens, wanted {wanted} at {block_tokens} tokens a block",
            ids.len(),
            tokens
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::{TraceFormat, TraceRow, read};

    fn mooncake(line: &str) -> Result<TraceRow, &'static str> {
        read(TraceFormat::Mooncake, line.as_bytes(), 512).map_err(|unusable| unusable.reason)
    }

    #[test]
    fn a_line_says_what_it_says() {
        let row = mooncake(
            r#"{"timestamp":2500,"input_length":1100,"output_length":7,"hash_ids":[0,3,18446744073709551615],"x":1}"#,
        )
        .unwrap();
        assert_eq!(row.timestamp_us, 2_500_000);
        assert_eq!((row.input_tokens, row.output_tokens), (Some(1100), Some(7)));
        assert_eq!(row.hash_ids, Some(vec![0, 3, u64::MAX]));
        assert_eq!(row.other_keys.into_iter().collect::<Vec<_>>(), ["x"]);
    }

    #[test]
    fn seconds_and_milliseconds_are_not_mixed_up() {
        let line =
            br#"{"chat_id":3,"parent_chat_id":-1,"timestamp":2.5,"input_length":0,"turn":1}"#;
        let row = read(TraceFormat::Bailian, line, 16).unwrap();
        assert_eq!((row.timestamp_us, row.chat), (2_500_000, Some((3, None))));
        assert_eq!(row.output_tokens, None);
        let row = mooncake(r#"{"timestamp":2.5,"input_length":0}"#).unwrap();
        assert_eq!(row.timestamp_us, 2_500);
    }

    #[test]
    fn what_cannot_be_used_has_a_reason() {
        let cases = [
            ("", "not_json"),
            ("[1]", "not_json"),
            (r#"{"input_length":1}"#, "missing_field"),
            (r#"{"timestamp":0}"#, "missing_field"),
            (r#"{"timestamp":-1,"input_length":1}"#, "negative"),
            (r#"{"timestamp":-0.5,"input_length":1}"#, "negative"),
            (r#"{"timestamp":"1","input_length":1}"#, "not_a_number"),
            (r#"{"timestamp":1e300,"input_length":1}"#, "out_of_range"),
            (r#"{"timestamp":0,"input_length":-1}"#, "negative"),
            (
                r#"{"timestamp":0,"input_length":9000000000}"#,
                "out_of_range",
            ),
            (r#"{"timestamp":0,"input_length":1.5}"#, "not_a_number"),
            (
                r#"{"timestamp":0,"input_length":1,"hash_ids":[-1]}"#,
                "bad_ids",
            ),
            (
                r#"{"timestamp":0,"input_length":1,"hash_ids":[1.0]}"#,
                "bad_ids",
            ),
            (
                r#"{"timestamp":0,"input_length":1,"hash_ids":["1"]}"#,
                "bad_ids",
            ),
            (
                r#"{"timestamp":0,"input_length":20,"hash_ids":[1,2]}"#,
                "blocks_disagree",
            ),
            (
                r#"{"timestamp":0,"input_length":513,"hash_ids":[7]}"#,
                "blocks_disagree",
            ),
        ];
        for (line, reason) in cases {
            assert_eq!(mooncake(line), Err(reason), "{line}");
        }
    }
}
