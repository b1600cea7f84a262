//! What the fuzzers start from: the golden files of the formats, and what broke once.
//!
//! `TRUETAPE_SEEDS=DIR cargo test --test fuzz` writes them, a folder a target, for `cargo fuzz`.

use std::path::{Path, PathBuf};
use truetape_proxy::spool;
use truetape_schemas::capture::Exchange;
use truetape_schemas::ledger::Ledger;
use truetape_schemas::time::ClockAnchor;
use truetape_schemas::wire::Dialect;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The seeds of a target.
pub(super) fn of(target: &str) -> Vec<Vec<u8>> {
    let mut seeds = match target {
        "sse" => bodies()
            .into_iter()
            .map(|body| [&[7], &*body].concat())
            .collect(),
        "dialects" => dialects(),
        "codings" => codings(),
        "spool" => vec![a_spool()],
        "capture" => {
            vec![std::fs::read(root().join("schemas/testdata/capture-v1.parquet")).unwrap()]
        }
        other => panic!("no seeds for {other}"),
    };
    seeds.extend(files(&root().join("tests/fuzz/found").join(target)));
    if let Some(folder) = std::env::var_os("TRUETAPE_SEEDS") {
        let folder = Path::new(&folder).join(target);
        std::fs::create_dir_all(&folder).unwrap();
        for (index, seed) in seeds.iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{index:03}")), seed).unwrap();
        }
    }
    seeds
}

fn files(folder: &Path) -> Vec<Vec<u8>> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
        .iter()
        .filter_map(|path| std::fs::read(path).ok())
        .collect()
}

/// Everything below the golden exchanges that is no expectation: requests and answers as sent.
fn bodies() -> Vec<Vec<u8>> {
    let golden = root().join("schemas/testdata/wire");
    let folders = std::fs::read_dir(golden).unwrap().flatten();
    let mut found: Vec<PathBuf> = folders
        .flat_map(|folder| {
            std::fs::read_dir(folder.path())
                .into_iter()
                .flatten()
                .flatten()
        })
        .map(|entry| entry.path())
        .filter(|path| path.is_file() && !path.to_string_lossy().contains("expected"))
        .collect();
    found.sort();
    let small = |body: &Vec<u8>| body.len() < 16 * 1024;
    found
        .iter()
        .filter_map(|path| std::fs::read(path).ok())
        .flat_map(|text| {
            // Head and body apart: the readers are given bodies.
            let body = text
                .windows(4)
                .position(|four| four == b"\r\n\r\n")
                .map(|at| text[at + 4..].to_vec());
            [Some(text), body]
        })
        .flatten()
        .filter(small)
        .collect()
}

fn dialects() -> Vec<Vec<u8>> {
    let prefixed = |(index, body): (usize, Vec<u8>)| {
        let dialect = (index % Dialect::ALL.len()) as u8;
        [&[dialect, 13, (index % 6) as u8], &*body].concat()
    };
    bodies().into_iter().enumerate().map(prefixed).collect()
}

fn codings() -> Vec<Vec<u8>> {
    use flate2::Compression;
    use std::io::Write as _;
    let text = b"data: {\"choices\":[{\"delta\":{\"content\":\"hello\"}}]}\n\n".repeat(8);
    let zipped = |text: &[u8]| {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), Compression::default());
        gzip.write_all(text).unwrap();
        gzip.finish().unwrap()
    };
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), Compression::default());
    zlib.write_all(&text).unwrap();
    let packed = [
        (0, zipped(&text)),
        (1, zlib.finish().unwrap()),
        (3, zstd::encode_all(&text[..], 1).unwrap()),
        // A short brotli stream: one uncompressed meta-block, then the last, empty one.
        (2, [&[0x21, 0x2c, 0x00], &text[..6], &[0x03]].concat()),
        // 2,000 events up to a flush, from the reference encoder: more than a buffer at once.
        (
            2,
            b"\x8b\x27\x23\x00\xa4\x15\x40\x62\x74\xd4\x20\xaf\x15\x73\x8a\x2c\x03\x7c\x00\x36\x60\x00"
                .to_vec(),
        ),
        (8, zipped(&zstd::encode_all(&text[..], 1).unwrap())),
        (6, text),
    ];
    packed
        .into_iter()
        .map(|(label, body)| [&[label, 5], &*body].concat())
        .collect()
}

/// A spool with a frame of each kind, as a killed process leaves it.
fn a_spool() -> Vec<u8> {
    let anchor = ClockAnchor {
        wall_us: 1_700_000_000_000_000,
        mono_us: 1,
    };
    let head = spool::head(&spool::Head {
        opened: anchor,
        terms: spool::Terms::default(),
        tool_version: "0".to_owned(),
        columns: spool::columns().to_vec(),
    });
    let row = spool::row(Exchange {
        request_body: Some(b"{\"model\":\"m\"}".to_vec()),
        response_body: Some(b"data: [DONE]\n\n".to_vec()),
        ..Exchange::default()
    });
    let note = spool::note(&spool::Note {
        ledger: Ledger {
            offered: 3,
            dropped: [("memory".to_owned(), 1)].into(),
            ..Ledger::default()
        },
        anchor,
        closed: false,
    });
    let (mut pen, mut bytes) = spool::Pen::new(None).unwrap();
    for frame in [head, row, note] {
        pen.write(&frame.unwrap(), &mut bytes).unwrap();
    }
    bytes
}
