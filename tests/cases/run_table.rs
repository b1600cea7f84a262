//! Runs `trace.csv`: an import whose rows do not depend on where the machine stands.

use crate::Stop;
use crate::case::Case;
use crate::check::Seen;
use crate::compiled::import_in;
use serde_json::json;
use std::path::Path;
use truetape_schemas::capture::Exchange;
use truetape_testkit::capture;
use truetape_testkit::tempdir::TempDir;

/// Zones of the importing machine: one that skips an hour in spring, and none.
const ZONES: [&str; 2] = ["Europe/Berlin", "UTC"];

/// Imports a table in every zone.
pub(crate) fn run(case: &Case, file: &str) -> Result<Seen, Stop> {
    let dir = TempDir::new(&case.id);
    let mut by_zone = Vec::new();
    for zone in ZONES {
        by_zone.push(imported(&case.dir.join(file), &dir.join(zone), zone)?);
    }
    let rows = by_zone.first().map(Vec::as_slice).unwrap_or_default();
    let same = by_zone.iter().all(|others| others == rows);
    let ticks =
        |row: &Exchange| row.arrival * 10 + i64::from(row.arrival_rest_ns.unwrap_or(0)) / 100;
    let first = rows.first().map_or(0, ticks);
    let offsets: Vec<i64> = rows.iter().map(|row| ticks(row) - first).collect();
    let lengths = |of: fn(&Exchange) -> Option<i64>| json!(rows.iter().map(of).collect::<Vec<_>>());
    let mut seen = Seen::new("", "import");
    seen.put("rows", rows.len());
    seen.put("offsets_100ns", offsets);
    seen.put("context", lengths(|row| row.input_tokens));
    seen.put("generated", lengths(|row| row.output_tokens));
    seen.put("tz_invariant", same);
    Ok(seen)
}

fn imported(file: &Path, out: &Path, zone: &str) -> Result<Vec<Exchange>, Stop> {
    let ended = import_in("auto", &[file.to_owned()], out, zone);
    if ended.code != Some(0) {
        let (code, stderr) = (ended.code, ended.stderr);
        return Err(Stop(format!(
            "import in {zone} ended with {code:?}: {stderr}"
        )));
    }
    Ok(capture::rows(out))
}
