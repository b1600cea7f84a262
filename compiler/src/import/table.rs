//! Traces that are tables: a header, and a line of numbers for each request.
//!
//! A layout is known by its header, and a line by its number of fields: columns that were put in
//! between by a later version of a trace are not taken for others.

use super::format::TraceFormat;
use super::line::{TraceRow, Unusable, length, number_us, unusable};
use crate::error::Error;
use serde_json::Value;
use std::path::Path;

/// The byte order mark that spreadsheets put before a header.
const BYTE_ORDER_MARK: &str = "\u{feff}";

/// Nanoseconds in a microsecond.
const US_NS: i128 = 1_000;

/// The columns of a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// The header, as the publisher writes it.
    header: &'static [&'static str],
    timestamp: usize,
    input: usize,
    output: usize,
    model: Option<usize>,
    session: Option<usize>,
    /// Columns that are not carried over.
    others: &'static [&'static str],
}

const AZURE: [Layout; 2] = [
    Layout {
        header: &["TIMESTAMP", "ContextTokens", "GeneratedTokens"],
        timestamp: 0,
        input: 1,
        output: 2,
        model: None,
        session: None,
        others: &[],
    },
    Layout {
        header: &["TIMESTAMP", "NumImages", "ContextTokens", "GeneratedTokens"],
        timestamp: 0,
        input: 2,
        output: 3,
        model: None,
        session: None,
        others: &["NumImages"],
    },
];

const BURSTGPT: [Layout; 2] = [
    Layout {
        header: &[
            "Timestamp",
            "Model",
            "Request tokens",
            "Response tokens",
            "Total tokens",
            "Log Type",
        ],
        timestamp: 0,
        input: 2,
        output: 3,
        model: Some(1),
        session: None,
        others: &["Log Type"],
    },
    Layout {
        header: &[
            "Timestamp",
            "Session ID",
            "Elapsed time",
            "Model",
            "Request tokens",
            "Response tokens",
            "Total tokens",
            "Log Type",
        ],
        timestamp: 0,
        input: 4,
        output: 5,
        model: Some(3),
        session: Some(1),
        others: &["Elapsed time", "Log Type"],
    },
];

/// The layouts of a format; none where it is no table.
pub(super) fn layouts(format: TraceFormat) -> Option<&'static [Layout]> {
    match format {
        TraceFormat::Azure => Some(&AZURE),
        TraceFormat::Burstgpt => Some(&BURSTGPT),
        TraceFormat::Mooncake
        | TraceFormat::Bailian
        | TraceFormat::Lmcache
        | TraceFormat::Litellm
        | TraceFormat::Goreplay => None,
    }
}

/// The format of a file whose first line is the header of a table.
pub(super) fn told_by(line: &str) -> Option<TraceFormat> {
    [TraceFormat::Azure, TraceFormat::Burstgpt]
        .into_iter()
        .find(|format| layouts(*format).is_some_and(|layouts| layout_of(layouts, line).is_some()))
}

fn layout_of<'a>(layouts: &'a [Layout], header: &str) -> Option<&'a Layout> {
    let found: Vec<&str> = fields(header.trim_start_matches(BYTE_ORDER_MARK)).collect();
    // BurstGPT's header has been written with the unit and without.
    let same = |found: &&str, wanted: &&str| found.trim_end_matches("(s)") == *wanted;
    layouts.iter().find(|layout| {
        layout.header.len() == found.len()
            && found.iter().zip(layout.header).all(|(a, b)| same(a, b))
    })
}

/// Refuses a table whose columns nobody knows: a wrong column is a wrong length in every row.
pub(super) fn check_header(layouts: &[Layout], path: &Path, line: &[u8]) -> Result<(), Error> {
    let header = String::from_utf8_lossy(line);
    if layout_of(layouts, &header).is_some() {
        return Ok(());
    }
    let allowed: Vec<String> = layouts
        .iter()
        .map(|layout| format!("`{}`", layout.header.join(",")))
        .collect();
    let problem = format!(
        "the header is `{header}`, allowed are {}",
        allowed.join(" and ")
    );
    Err(Error::data(format!("{}: line 1", path.display()), problem))
}

/// The fields of a line. No field of these traces holds a comma or the end of a line, so quotes
/// around one are all the CSV there is.
fn fields(line: &str) -> impl Iterator<Item = &str> {
    line.trim_end()
        .split(',')
        .map(|field| field.trim().trim_matches('"'))
}

/// Reads a line.
pub(super) fn read(
    layouts: &[Layout],
    format: TraceFormat,
    line: &[u8],
) -> Result<TraceRow, Unusable> {
    let Ok(text) = std::str::from_utf8(line) else {
        return unusable("not_csv", "not UTF-8 text");
    };
    let fields: Vec<&str> = fields(text).collect();
    let Some(layout) = layouts.iter().find(|one| one.header.len() == fields.len()) else {
        let wanted: Vec<String> = layouts
            .iter()
            .map(|layout| layout.header.len().to_string())
            .collect();
        let (found, wanted) = (fields.len(), wanted.join(" or "));
        return unusable("not_csv", format!("{found} fields, wanted {wanted}"));
    };
    let at = |column: usize| fields.get(column).copied().unwrap_or_default();
    let name = |column: usize| layout.header.get(column).copied().unwrap_or_default();
    let tokens = |column: usize| match number(at(column)) {
        Some(value) => length(&value, name(column)),
        None => unusable(
            "not_a_number",
            wrong(name(column), at(column), "an integer"),
        ),
    };
    let text = |column: usize| Some(at(column).to_owned()).filter(|text| !text.is_empty());
    let (timestamp_us, timestamp_rest_ns) = match format {
        TraceFormat::Azure => instant(name(layout.timestamp), at(layout.timestamp))?,
        _ => (seconds(name(layout.timestamp), at(layout.timestamp))?, None),
    };
    let output_tokens = tokens(layout.output)?;
    Ok(TraceRow {
        timestamp_us,
        timestamp_rest_ns,
        input_tokens: Some(tokens(layout.input)?),
        output_tokens: Some(output_tokens),
        session_id: layout.session.and_then(text),
        model: layout.model.and_then(text),
        // BurstGPT's publishers count an answer of no tokens as a failure.
        failed: format == TraceFormat::Burstgpt && output_tokens == 0,
        other_keys: layout.others.iter().map(|key| (*key).to_owned()).collect(),
        ..TraceRow::default()
    })
}

fn wrong(column: &str, found: &str, wanted: &str) -> String {
    format!("{column} `{found}`, wanted {wanted}")
}

fn number(field: &str) -> Option<Value> {
    serde_json::from_str(field).ok().filter(Value::is_number)
}

fn seconds(column: &str, field: &str) -> Result<i64, Unusable> {
    match number(field) {
        Some(value) => number_us(&value, column, TraceFormat::Burstgpt.unit_us()),
        None => unusable("not_a_number", wrong(column, field, "seconds")),
    }
}

/// An instant in microseconds since 1970, and the nanoseconds beyond. Without a zone it is UTC: the
/// zone of whoever imports must not move a trace.
fn instant(column: &str, field: &str) -> Result<(i64, Option<i32>), Unusable> {
    let zoned = field.parse::<jiff::Timestamp>();
    let instant = zoned.or_else(|_| {
        let civil = field.parse::<jiff::civil::DateTime>()?;
        jiff::tz::Offset::UTC.to_timestamp(civil)
    });
    let Ok(instant) = instant else {
        let wanted = "an instant as in 2024-05-10 00:00:00.0099301";
        return unusable("not_a_number", wrong(column, field, wanted));
    };
    let ns = instant.as_nanosecond();
    let us = i64::try_from(ns.div_euclid(US_NS)).unwrap_or(i64::MAX);
    let rest_ns = i32::try_from(ns.rem_euclid(US_NS)).ok();
    Ok((us, rest_ns.filter(|rest_ns| *rest_ns != 0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn azure(line: &str) -> Result<TraceRow, &'static str> {
        read(&AZURE, TraceFormat::Azure, line.as_bytes()).map_err(|bad| bad.reason)
    }

    fn burstgpt(line: &str) -> Result<TraceRow, &'static str> {
        read(&BURSTGPT, TraceFormat::Burstgpt, line.as_bytes()).map_err(|bad| bad.reason)
    }

    #[test]
    fn instants_keep_seven_digits_and_are_utc() {
        let row = azure("2025-03-30 01:59:59.9999999,4808,10").unwrap();
        assert_eq!(row.timestamp_us, 1_743_299_999_999_999);
        assert_eq!(row.timestamp_rest_ns, Some(900));
        assert_eq!(
            (row.input_tokens, row.output_tokens),
            (Some(4808), Some(10))
        );
        let zoned = azure("2024-05-10 00:00:00.009930+00:00,2162,5").unwrap();
        assert_eq!(zoned.timestamp_us, 1_715_299_200_009_930);
        assert_eq!(zoned.timestamp_rest_ns, None);
        let images = azure("2025-03-30 01:59:59.5,3,4808,10").unwrap();
        assert_eq!(images.input_tokens, Some(4808));
        assert!(images.other_keys.contains("NumImages"));
    }

    #[test]
    fn columns_are_those_of_their_version() {
        let old = burstgpt("5,ChatGPT,472,18,490,Conversation log").unwrap();
        assert_eq!((old.timestamp_us, old.input_tokens), (5_000_000, Some(472)));
        assert_eq!(old.model.as_deref(), Some("ChatGPT"));
        let new = burstgpt("5.5,a-1,3.2,GPT-4,472,0,472,Conversation log").unwrap();
        assert_eq!((new.timestamp_us, new.failed), (5_500_000, true));
        assert_eq!(new.session_id.as_deref(), Some("a-1"));
        let none = burstgpt("5.5,,3.2,GPT-4,472,1,473,API log").unwrap();
        assert_eq!((none.session_id, none.failed), (None, false));
    }

    #[test]
    fn what_cannot_be_used_has_a_reason() {
        let cases = [
            ("", "not_csv"),
            ("1,2", "not_csv"),
            ("yesterday,1,2", "not_a_number"),
            ("2025-03-30 01:59:59,x,2", "not_a_number"),
            ("2025-03-30 01:59:59,-1,2", "negative"),
            ("2025-03-30 01:59:59,1.5,2", "not_a_number"),
            ("2025-03-30 01:59:59,9000000000,2", "out_of_range"),
        ];
        for (line, reason) in cases {
            assert_eq!(azure(line), Err(reason), "{line}");
        }
        assert_eq!(burstgpt("-1,m,1,1,2,x"), Err("negative"));
    }

    #[test]
    fn a_header_tells_its_format_and_another_is_refused() {
        let told = |line: &str| told_by(line);
        assert_eq!(
            told("\u{feff}TIMESTAMP,ContextTokens,GeneratedTokens\r"),
            Some(TraceFormat::Azure)
        );
        assert_eq!(
            told("Timestamp(s),Model,Request tokens,Response tokens,Total tokens,Log Type"),
            Some(TraceFormat::Burstgpt)
        );
        assert_eq!(told("TIMESTAMP,GeneratedTokens,ContextTokens"), None);
        let refused = check_header(&AZURE, Path::new("x.csv"), b"a,b,c").unwrap_err();
        assert!(refused.to_string().contains("allowed are"), "{refused}");
    }
}
