//! Formats do not change by accident.
//!
//! The columns of each format are kept as text in `testdata/`, one real file of each version is
//! kept beside them and must stay readable, and the spec pages must quote the columns. `BLESS=1`
//! writes what would be new beside the old as `*.modified`. Moving it into place is a decision,
//! and so it is left to a person.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::path::{Path, PathBuf};
use truetape_schemas::capture::footer::Footer;
use truetape_schemas::capture::{self, Exchange, Header, LengthSource, Outcome, Segment};
use truetape_schemas::column::{Column, render};
use truetape_schemas::file::{Error, FORMAT_KEY, Reader, Row, Writer};
use truetape_schemas::ledger::Ledger;
use truetape_schemas::run::{self, Dispatch};
use truetape_schemas::set::{self, Content, Turn};
use truetape_schemas::time::ClockAnchor;

fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("testdata")
        .join(name)
}

fn blessing() -> bool {
    std::env::var_os("BLESS").is_some()
}

fn check_text(name: &str, now: &str) {
    let path = testdata(name);
    let before = std::fs::read_to_string(&path).unwrap_or_default();
    if before == now {
        return;
    }
    if blessing() {
        std::fs::write(testdata(&format!("{name}.modified")), now).unwrap();
    }
    panic!("{} is not what the code says now:\n{now}", path.display());
}

const FORMATS: [(&str, &[Column]); 5] = [
    ("capture-v1", capture::v1::COLUMNS),
    ("set-v1.turns", set::v1::TURN_COLUMNS),
    ("set-v1.content", set::v1::CONTENT_COLUMNS),
    ("run-v1", run::v1::COLUMNS),
    ("run-v1.metrics", run::v1::METRIC_COLUMNS),
];

#[test]
fn columns_have_not_changed() {
    for (name, columns) in FORMATS {
        check_text(&format!("{name}.columns.md"), &render(columns));
    }
}

#[test]
fn the_spec_quotes_the_columns_it_specifies() {
    for (name, columns) in FORMATS {
        let page = name.split('.').next().unwrap_or(name);
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("spec")
            .join(format!("{page}.md"));
        let spec = std::fs::read_to_string(&path).unwrap();
        let table = render(columns);
        assert!(
            spec.contains(&table),
            "{} is out of date; it must quote:\n{table}",
            path.display()
        );
    }
}

fn exchanges() -> Vec<Exchange> {
    let full = Exchange {
        exchange_id: "01890a5d-ac96-774b-bcce-b302099a8057".into(),
        proxy_id: "p0".into(),
        conn_id: 3,
        conn_seq: 1,
        upstream: "127.0.0.1:8000".into(),
        arrival: 1_767_323_045_123_456,
        arrival_mono_us: 12_000,
        request_end_us: Some(40),
        response_head_us: Some(900),
        first_byte_us: Some(950),
        first_token_us: Some(1_000),
        first_output_us: Some(1_000),
        last_token_us: Some(2_000),
        end_us: Some(2_100),
        inflight: Some(0),
        client_stall_us: Some(0),
        method: "POST".into(),
        path: "/v1/chat/completions".into(),
        dialect: "openai_chat".into(),
        model: Some("m".into()),
        stream: Some(true),
        request_headers: vec![
            Header {
                name: "X-Tag".into(),
                value: "one".into(),
            },
            Header {
                name: "X-Tag".into(),
                value: "two".into(),
            },
        ],
        request_body: Some(vec![0, 255, b'{']),
        request_bytes: Some(3),
        temperature: Some(0.5),
        n: Some(1),
        stop: Some(vec![String::new(), "\n".into()]),
        ignore_eos: Some(false),
        seed: Some(i64::MIN),
        tool_count: Some(0),
        status: Some(200),
        response_body: Some(Vec::new()),
        response_bytes: Some(0),
        finish_reasons: Some(vec!["stop".into()]),
        input_tokens: Some(7),
        input_tokens_source: LengthSource::Usage,
        output_tokens: Some(i64::MAX),
        output_tokens_source: LengthSource::Exact,
        frame_offsets_us: Some(vec![950, 1_000]),
        frame_bytes: Some(vec![10, 20]),
        token_event_offsets_us: Some(vec![]),
        block_tokens: Some(16),
        block_hashes: Some(vec![u64::MAX, 1 << 63, 0]),
        segments: Some(vec![Segment {
            role: "user".into(),
            bytes: 3,
            hash: u64::MAX,
        }]),
        session_key: Some("s".into()),
        session_rule: Some("header".into()),
        outcome: Outcome::ClientAborted,
        degraded: Some(vec!["body".into()]),
        ..Exchange::default()
    };
    vec![Exchange::default(), full]
}

fn footer() -> Footer {
    Footer {
        ledger: Some(Ledger {
            offered: 2,
            recorded: 1,
            degraded: 1,
            ..Ledger::default()
        }),
        clock_anchors: vec![ClockAnchor {
            wall_us: 1_767_323_045_111_456,
            mono_us: 0,
        }],
        sampling_rate: Some(1.0),
        tool_version: Some("0.1.0".into()),
        ..Footer::default()
    }
}

fn write<T: Row>(path: &Path, rows: &[T], footer: &[(String, String)]) {
    let mut writer = Writer::<T>::create(path).unwrap();
    writer.write(rows).unwrap();
    assert_eq!(writer.finish(footer).unwrap().rows, rows.len() as u64);
}

fn survives<T: Row + PartialEq + std::fmt::Debug>(rows: &[T]) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rows.parquet");
    write(&path, rows, &[]);
    assert_eq!(Reader::<T>::open(&path).unwrap().read_all().unwrap(), rows);
}

#[test]
fn rows_survive_the_round_trip() {
    survives(&exchanges());
    survives(&[Exchange {
        proxy_epoch_us: Some(1_767_323_045_111_456),
        ..Exchange::default()
    }]);
    survives(&[
        Turn::default(),
        Turn {
            depends_on: vec![0],
            parent: Some(0),
            ..Turn::default()
        },
    ]);
    survives(&[Content {
        body: vec![0, 1, 255],
        tokens: Some(1),
        ..Content::default()
    }]);
    survives(&[
        Dispatch::default(),
        Dispatch {
            outcome: Some(Outcome::Complete),
            conn_reused: Some(true),
            ..Dispatch::default()
        },
    ]);
    survives::<Exchange>(&[]);
}

#[test]
fn the_first_file_of_each_version_still_reads() {
    let path = testdata("capture-v1.parquet");
    if !path.is_file() && blessing() {
        write(&path, &exchanges(), &footer().to_pairs());
    }
    let reader = Reader::<Exchange>::open(&path).unwrap();
    assert_eq!(Footer::from_pairs(reader.footer()), footer());
    assert_eq!(reader.read_all().unwrap(), exchanges());
}

#[test]
fn a_newer_format_is_refused_by_name() {
    #[derive(Debug, serde::Serialize, serde::Deserialize)]
    struct Future {
        exchange_id: String,
    }
    impl Row for Future {
        const FORMAT: truetape_schemas::file::Format = truetape_schemas::file::Format {
            name: "capture",
            version: 99,
        };
        fn columns() -> &'static [Column] {
            &capture::v1::COLUMNS[..1]
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("future.parquet");
    write(
        &path,
        &[Future {
            exchange_id: "x".into(),
        }],
        &[],
    );
    let error = Reader::<Exchange>::open(&path).unwrap_err();
    let said = error.to_string();
    assert!(matches!(error, Error::FormatTooNew { .. }), "{said}");
    assert!(
        said.contains("capture/99") && said.contains("capture/1"),
        "{said}"
    );
    let error = Reader::<Turn>::open(&path).unwrap_err();
    assert!(matches!(error, Error::WrongFormat { .. }), "{error}");
}

#[test]
fn a_nullable_column_that_an_older_file_lacks_is_null() {
    #[derive(Debug, serde::Serialize, serde::Deserialize)]
    struct Older {
        content_id: String,
        kind: String,
        #[serde(with = "serde_bytes")]
        body: Vec<u8>,
    }
    impl Row for Older {
        const FORMAT: truetape_schemas::file::Format = set::FORMAT;
        fn columns() -> &'static [Column] {
            const C: &[Column] = set::v1::CONTENT_COLUMNS;
            const OLDER: &[Column] = &[C[0], C[1], C[3]];
            OLDER
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("older.parquet");
    let older = Older {
        content_id: "c".into(),
        kind: "text".into(),
        body: vec![7],
    };
    write(&path, &[older], &[]);
    let rows = Reader::<Content>::open(&path).unwrap().read_all().unwrap();
    assert_eq!((rows[0].tokens, rows[0].body.as_slice()), (None, &[7][..]));
}

#[test]
fn a_damaged_arrow_schema_costs_nothing() {
    let mut bytes = std::fs::read(testdata("capture-v1.parquet")).unwrap();
    let key = b"ARROW:schema";
    // Its value, in base64, comes behind the key and a few bytes of framing.
    const FRAMING_BYTES_MAX: usize = 8;
    let found = bytes.windows(key.len()).position(|part| part == key);
    let value = found.unwrap() + key.len() + FRAMING_BYTES_MAX;
    bytes[value..value + 400].fill(b'A');
    let dir = tempfile::tempdir().unwrap();
    let damaged = dir.path().join("damaged.parquet");
    std::fs::write(&damaged, bytes).unwrap();
    let rows = |path: &Path| Reader::<Exchange>::open(path).unwrap().read_all().unwrap();
    assert_eq!(rows(&damaged), rows(&testdata("capture-v1.parquet")));
}

#[test]
fn a_torn_or_foreign_file_is_an_error_and_not_a_panic() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("whole.parquet");
    write(&path, &exchanges(), &[]);
    let whole = std::fs::read(&path).unwrap();
    for cut in [0, 1, 4, whole.len() / 2, whole.len() - 1] {
        let torn = dir.path().join("torn.parquet");
        std::fs::write(&torn, &whole[..cut]).unwrap();
        assert!(
            matches!(
                Reader::<Exchange>::open(&torn),
                Err(Error::Unreadable { .. })
            ),
            "{cut}"
        );
    }
    assert!(Reader::<Exchange>::open(&dir.path().join("none.parquet")).is_err());
    assert_eq!(FORMAT_KEY, "format");
}
