//! Formats do not change by accident.
use truetape_schemas::capture::{Exchange, Header};
use truetape_schemas::file::{Reader, Writer};

#[test]
fn rows_survive_the_round_trip() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.parquet");
    let rows = vec![
        Exchange::default(),
        Exchange {
            exchange_id: "x".into(),
            arrival: 1_767_323_045_123_456,
            request_headers: vec![Header { name: "A".into(), value: "b".into() }],
            request_body: Some(vec![0, 255, 3]),
            block_hashes: Some(vec![u64::MAX, 1 << 63]),
            stop: Some(vec![String::new()]),
            temperature: Some(0.5),
            stream: Some(true),
            segments: Some(vec![truetape_schemas::capture::Segment { role: "user".into(), bytes: 3, hash: 9 }]),
            ..Exchange::default()
        },
    ];
    let mut writer = Writer::<Exchange>::create(&path).unwrap();
    writer.write(&rows).unwrap();
    let sealed = writer.finish(&[("a".into(), "b".into())]).unwrap();
    assert_eq!(sealed.rows, 2);
    let reader = Reader::<Exchange>::open(&path).unwrap();
    assert_eq!(reader.footer().get("a").map(String::as_str), Some("b"));
    assert_eq!(reader.read_all().unwrap(), rows);
}
