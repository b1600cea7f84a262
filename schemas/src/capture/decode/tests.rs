use super::rows;
use crate::capture::{Exchange, Header, LengthSource, Outcome, ParseStatus, Segment, v1};
use crate::column::{Kind, schema};
use arrow_array::RecordBatch;
use arrow_schema::FieldRef;
use proptest::prelude::*;

pub(in crate::capture) fn batch(rows: &[Exchange]) -> RecordBatch {
    let fields: Vec<FieldRef> = schema(v1::COLUMNS).fields().to_vec();
    serde_arrow::to_record_batch(&fields, &rows).unwrap()
}

/// A row with a value in every column, each its own; blobs aside, which are serde's.
pub(in crate::capture) fn full(n: u64) -> Exchange {
    let mut fields = serde_json::Map::new();
    for (at, column) in v1::COLUMNS.iter().enumerate() {
        let number = n * 1_000 + at as u64;
        let value = match (column.name, column.kind) {
            ("request_blobs", _) => serde_json::Value::Null,
            ("outcome", _) => "client_aborted".into(),
            ("parse_status", _) => "partial".into(),
            (name, _) if name.ends_with("_source") => "exact".into(),
            (name, Kind::Text) => format!("{name}-{number}").into(),
            (_, Kind::Bool) => number.is_multiple_of(2).into(),
            (_, Kind::Int32 | Kind::Int64 | Kind::UInt64 | Kind::TimestampUs) => number.into(),
            (_, Kind::Float64) => (number as f64 / 8.0).into(),
            (_, Kind::Bytes) => vec![number as u8, 0, 255].into(),
            (_, Kind::Int32List | Kind::Int64List | Kind::UInt64List) => {
                vec![number, 0, number + 1].into()
            }
            (name, Kind::TextList) => vec![format!("{name}-{number}"), String::new()].into(),
            (_, Kind::Headers) => serde_json::json!([{"name": "A", "value": number.to_string()}]),
            (_, Kind::Segments) => {
                serde_json::json!([{"role": "user", "bytes": 3, "hash": number}])
            }
            (_, Kind::Blobs) => serde_json::Value::Null,
        };
        fields.insert(column.name.to_owned(), value);
    }
    serde_json::from_value(fields.into()).unwrap()
}

#[test]
fn every_column_is_read_into_its_own_field() {
    let wanted: Vec<Exchange> = (0..3).map(full).collect();
    assert_eq!(rows(&batch(&wanted)).unwrap(), wanted);
    let empty = vec![Exchange::default(); 2];
    assert_eq!(rows(&batch(&empty)).unwrap(), empty);
    let mixed = vec![full(1), Exchange::default(), full(2)];
    assert_eq!(rows(&batch(&mixed)).unwrap(), mixed);
}

#[test]
fn a_file_without_our_types_or_columns_is_left_to_serde() {
    let whole = batch(&[full(1)]);
    for missing in ["exchange_id", "outcome"] {
        let at = whole.schema().index_of(missing).unwrap();
        let mut fields = whole.schema().fields().to_vec();
        fields.remove(at);
        let mut columns = whole.columns().to_vec();
        columns.remove(at);
        let fewer = arrow_schema::Schema::new(fields);
        let fewer = RecordBatch::try_new(fewer.into(), columns).unwrap();
        assert_eq!(rows(&fewer), None, "{missing}");
    }
    // A column that may be absent is absent.
    let at = whole.schema().index_of("answer_hash").unwrap();
    let kept: Vec<usize> = (0..whole.num_columns())
        .filter(|other| *other != at)
        .collect();
    let old = rows(&whole.project(&kept).unwrap()).unwrap();
    assert_eq!(
        old,
        [Exchange {
            answer_hash: None,
            ..full(1)
        }]
    );
}

proptest! {
    #[test]
    fn it_reads_what_serde_reads(
        text in proptest::option::of(".{0,8}"),
        numbers in proptest::option::of(proptest::collection::vec(any::<u64>(), 0..4)),
        body in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..9)),
        roles in proptest::collection::vec("[a-z]{0,5}", 0..3),
        count in proptest::option::of(any::<i64>()),
    ) {
        let row = Exchange {
            model: text.clone(),
            session_key: text.clone(),
            stop: text.clone().map(|text| vec![text, "x".to_owned()]),
            request_headers: text.map(|value| Header { name: "n".to_owned(), value }).into_iter().collect(),
            block_hashes: numbers,
            request_body: body,
            segments: Some(roles.into_iter().map(|role| Segment { role, bytes: 1, hash: u64::MAX }).collect()),
            input_tokens: count,
            input_tokens_source: LengthSource::Exact,
            outcome: Outcome::Truncated,
            parse_status: ParseStatus::Ok,
            ..Exchange::default()
        };
        let batch = batch(&[row.clone(), Exchange::default()]);
        let by_serde: Vec<Exchange> = serde_arrow::from_record_batch(&batch).unwrap();
        prop_assert_eq!(rows(&batch).unwrap(), by_serde);
    }
}
