//! The rows a directory holds.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use truetape_schemas::capture::footer::Footer;
use truetape_schemas::capture::{Exchange, SEGMENT_SUFFIX};
use truetape_schemas::file::Reader;
use truetape_schemas::ledger::Ledger;

/// How often a directory is looked at again.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The sealed segments of a directory and the ones below it, by name.
pub fn sealed(dir: &Path) -> Vec<PathBuf> {
    files(dir)
        .into_iter()
        .filter(|path| has_suffix(path, SEGMENT_SUFFIX))
        .collect()
}

/// Every file below a directory, by name.
pub fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn has_suffix(path: &Path, suffix: &str) -> bool {
    path.file_name()
        .is_some_and(|name| name.to_string_lossy().ends_with(suffix))
}

/// All rows of all sealed segments, in order of arrival.
pub fn rows(dir: &Path) -> Vec<Exchange> {
    let mut rows = Vec::new();
    for path in sealed(dir) {
        let reader = Reader::<Exchange>::open(&path).unwrap_or_else(|e| panic!("{e}"));
        rows.extend(reader.read_all().unwrap_or_else(|e| panic!("{e}")));
    }
    rows.sort_by_key(|row| (row.arrival, row.arrival_mono_us));
    rows
}

/// The footers of all sealed segments, by name.
pub fn footers(dir: &Path) -> Vec<Footer> {
    let open = |path: PathBuf| Reader::<Exchange>::open(&path).unwrap_or_else(|e| panic!("{e}"));
    sealed(dir)
        .into_iter()
        .map(|path| Footer::from_pairs(open(path).footer()))
        .collect()
}

/// Waits until sealed segments hold so many rows.
#[track_caller]
pub fn await_rows(dir: &Path, count: usize, within: Duration) -> Vec<Exchange> {
    let deadline = Instant::now() + within;
    loop {
        let rows = rows(dir);
        if rows.len() >= count {
            return rows;
        }
        let held = files(dir);
        assert!(
            Instant::now() < deadline,
            "{} of {count} rows sealed in {held:?}",
            rows.len()
        );
        std::thread::sleep(LOOK_EVERY);
    }
}

/// The footer of so many rows, all of which were recorded.
pub fn whole(rows: usize) -> Footer {
    let ledger = Ledger {
        offered: rows as u64,
        recorded: rows as u64,
        ..Ledger::default()
    };
    Footer {
        ledger: Some(ledger),
        ..Footer::default()
    }
}

/// Writes rows as a capture of one segment.
pub fn write(dir: &Path, rows: &[Exchange], footer: &Footer) {
    std::fs::create_dir_all(dir).expect("a folder");
    let path = dir.join(format!("part-0{SEGMENT_SUFFIX}"));
    let mut writer =
        truetape_schemas::file::Writer::create(&path).unwrap_or_else(|e| panic!("{e}"));
    writer.write(rows).unwrap_or_else(|e| panic!("{e}"));
    writer
        .finish(&footer.to_pairs())
        .unwrap_or_else(|e| panic!("{e}"));
}
