//! Runs what is about sets and files: planned sharing, block ids, column types, prompt lengths.

use crate::Stop;
use crate::case::Case;
use crate::check::Seen;
use crate::compiled::{self, RECIPE_LENGTHS, RECIPE_SYNTHETIC, Set, import, truetape};
use crate::replays::{Options, replay};
use crate::run_replay::{bodies, settings};
use crate::server::{self, Target};
use serde_json::{Map, Value, json};
use std::ffi::OsString;
use std::path::Path;
use truetape_fidelity::blocks::{BlockKey, of_rendered, of_tokens};
use truetape_fidelity::tokens;
use truetape_replay::cli::Pacing;
use truetape_testkit::capture;
use truetape_testkit::tempdir::TempDir;

/// `set.jsonl`: the sharing that is planned is the sharing that is sent, whatever the salt.
pub(crate) fn run_set(case: &Case) -> Result<Vec<Seen>, Stop> {
    let meta = if case.has("meta.json") {
        case.json("meta.json")?
    } else {
        Value::Null
    };
    let block = meta.get("block_size").and_then(Value::as_u64).unwrap_or(16);
    let salts = crate::case::strings(meta.get("salts"));
    let dir = TempDir::new(&case.id);
    let rows = case.lines("set.jsonl")?;
    let set = from_rows(&dir, &rows, block)?;
    let mut runs = Vec::new();
    for salt in &salts {
        let settings = truetape_replay::plan::Settings {
            cache_salt: Some(salt.clone()),
            ..settings(Pacing::Hybrid, 1.0, 1.0)
        };
        runs.push((bodies(&set, &settings)?, bodies(&set, &settings)?));
    }
    let mut seen = Seen::new("", "set");
    let same = runs.iter().all(|(once, again)| {
        let text = |bodies: &[Value]| bodies.iter().map(Value::to_string).collect::<Vec<_>>();
        text(once) == text(again)
    });
    seen.put("same_salt_identical", same && !runs.is_empty());
    let blocks: Vec<Vec<Vec<u64>>> = runs
        .iter()
        .map(|(once, _)| once.iter().map(|body| server_blocks(body, block)).collect())
        .collect();
    if let [first, second, ..] = blocks.as_slice() {
        let ours = first.concat();
        let crossed = second
            .concat()
            .iter()
            .filter(|id| ours.contains(id))
            .count();
        seen.put("cross_salt_shared_full_blocks", crossed);
    }
    let names: Vec<String> = rows.iter().map(|row| row["id"].to_string()).collect();
    let first = blocks.first().map(Vec::as_slice).unwrap_or_default();
    seen.put("within_run_shared_blocks", shared(&names, first));
    let salt = salts.first().cloned().unwrap_or_default();
    let upstream = server::start(Target::default());
    let more = ["--salt", salt.as_str()];
    let ran = replay(
        &set.dir,
        &upstream,
        &dir.join("run"),
        &Options { more: &more },
    )?;
    let said = serde_json::to_string(&ran.run).map_err(|e| e.to_string())?;
    seen.put(
        "report_contains_salt",
        said.contains(&format!("\"{salt}\"")),
    );
    seen.faults.extend(ran.faults);
    Ok(vec![seen])
}

/// A set of requests with these block ids, all at once.
fn from_rows(dir: &TempDir, rows: &[Value], block: u64) -> Result<Set, String> {
    let timed = |(at, row): (usize, &Value)| {
        let mut row = row.clone();
        row["timestamp"] = json!(at);
        format!("{row}\n")
    };
    let trace: String = rows.iter().enumerate().map(timed).collect();
    compiled::write(&dir.join("mooncake.jsonl"), &trace);
    let block = block.to_string();
    let more = ["--block-tokens", block.as_str()];
    let ended = import(
        "mooncake",
        &[dir.join("mooncake.jsonl")],
        &dir.join("capture"),
        &more,
    );
    if ended.code != Some(0) {
        return Err(format!(
            "import ended with {:?}: {}",
            ended.code, ended.stderr
        ));
    }
    compiled::compile(&[dir.join("capture")], &dir.join("store"), RECIPE_SYNTHETIC)
        .map_err(|ended| format!("compile ended with {:?}: {}", ended.code, ended.stderr))
}

/// The full blocks that a server with a prefix cache would see: `cache_salt` is part of them.
fn server_blocks(body: &Value, block: u64) -> Vec<u64> {
    let salt = body
        .get("cache_salt")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let rendered = match body.get("prompt").and_then(Value::as_str) {
        Some(prompt) => tokens::render_completion(prompt),
        None => tokens::render_chat(body),
    };
    let bytes = usize::try_from(block).unwrap_or(1) * tokens::BYTES_PER_TOKEN;
    let whole = rendered.len() / bytes * bytes;
    let block = u32::try_from(block).unwrap_or(1);
    let key = BlockKey::new(salt.as_bytes());
    let rendered = rendered.get(..whole).unwrap_or_default();
    of_rendered(&key, rendered, tokens::BYTES_PER_TOKEN as f64, block)
}

/// Blocks in common at the front, for each pair.
fn shared(names: &[String], blocks: &[Vec<u64>]) -> Map<String, Value> {
    let mut pairs = Map::new();
    for (at, (name, ours)) in names.iter().zip(blocks).enumerate() {
        for (other, theirs) in names.iter().zip(blocks).skip(at + 1) {
            let common = ours.iter().zip(theirs).take_while(|(a, b)| a == b).count();
            pairs.insert(format!("{name}-{other}"), json!(common));
        }
    }
    pairs
}

/// `tokens.json`: chained ids, and what an export keeps of them.
pub(crate) fn run_tokens(case: &Case) -> Result<Vec<Seen>, Stop> {
    let given = case.json("tokens.json")?;
    let block = given
        .get("block_size")
        .and_then(Value::as_u64)
        .unwrap_or(16);
    let block_tokens = u32::try_from(block).unwrap_or(16);
    let key = BlockKey::new(case.id.as_bytes());
    let prompts: Vec<(String, Vec<u32>)> = given["prompts"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, ids)| {
            (
                name.clone(),
                serde_json::from_value(ids.clone()).unwrap_or_default(),
            )
        })
        .collect();
    let hashed = |partial: bool| -> Vec<Vec<u64>> {
        prompts
            .iter()
            .map(|(_, ids)| of_tokens(&key, ids, block_tokens, partial))
            .collect()
    };
    let (with_partial, full_only) = (hashed(true), hashed(false));
    let names: Vec<String> = prompts.iter().map(|(name, _)| name.clone()).collect();
    let mut ids = Map::new();
    for (name, blocks) in names.iter().zip(&with_partial) {
        for (at, id) in blocks.iter().enumerate() {
            ids.insert(format!("{name}{at}"), json!(id));
        }
    }
    let mut seen = Seen::new("", "blocks");
    seen.put("ids", ids);
    seen.put("shared_full_blocks", shared(&names, &full_only));
    let counts = |blocks: &[Vec<u64>]| json!(blocks.iter().map(Vec::len).collect::<Vec<_>>());
    let dir = TempDir::new(&case.id);
    let rows = |((_, ids), blocks): (&(String, Vec<u32>), &Vec<u64>)| json!({"input_length": ids.len(), "output_length": 1, "hash_ids": blocks});
    let rows: Vec<Value> = prompts.iter().zip(&with_partial).map(rows).collect();
    from_rows(&dir, &rows, block)?;
    for (key, partial, ours) in [
        ("id_counts_with_partial", "keep", &with_partial),
        ("id_counts_full_only", "drop", &full_only),
    ] {
        let exported = exported(&dir, partial)?;
        seen.put(key, counts(&exported));
        let sharing = |blocks: &[Vec<u64>]| {
            truetape_testkit::trace::canonical(blocks.iter().map(Vec::as_slice))
        };
        if sharing(&exported) != sharing(ours) {
            seen.faults.push(format!(
                "the export ({partial}) shares other blocks: {exported:?}"
            ));
        }
    }
    Ok(vec![seen])
}

/// The block ids of an export.
fn exported(dir: &TempDir, partial: &str) -> Result<Vec<Vec<u64>>, String> {
    let set = compiled::compile(&[dir.join("capture")], &dir.join("lengths"), RECIPE_LENGTHS)
        .map_err(|ended| format!("compile ended with {:?}: {}", ended.code, ended.stderr))?;
    let file = dir.join(&format!("{partial}.jsonl"));
    let args: [OsString; 8] = [
        "export".into(),
        set.dir.clone().into_os_string(),
        "--format".into(),
        "mooncake".into(),
        "--out".into(),
        file.clone().into_os_string(),
        "--partial-blocks".into(),
        partial.into(),
    ];
    let ended = truetape(args);
    if ended.code != Some(0) {
        return Err(format!(
            "export ended with {:?}: {}",
            ended.code, ended.stderr
        ));
    }
    let text = std::fs::read_to_string(&file).map_err(|e| e.to_string())?;
    let ids = |line: &str| {
        let row: Value = serde_json::from_str(line).map_err(|e| e.to_string())?;
        serde_json::from_value(row["hash_ids"].clone()).map_err(|e| e.to_string())
    };
    text.lines().map(ids).collect()
}

/// `values.json`: an instant and block ids, as other readers see them.
pub(crate) fn run_values(case: &Case) -> Result<Vec<Seen>, Stop> {
    let given = case.json("values.json")?;
    let instant = given
        .get("instant")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let ids: Vec<u64> = crate::case::strings(given.get("ids"))
        .iter()
        .filter_map(|id| id.parse().ok())
        .collect();
    let dir = TempDir::new(&case.id);
    let row = json!({"timestamp": 0, "input_length": ids.len() * 512, "output_length": 1, "hash_ids": ids});
    compiled::write(&dir.join("mooncake.jsonl"), &format!("{row}\n"));
    let captured = dir.join("capture");
    let more = ["--start-at", instant];
    let ended = import("mooncake", &[dir.join("mooncake.jsonl")], &captured, &more);
    if ended.code != Some(0) {
        return Err(format!("import ended with {:?}: {}", ended.code, ended.stderr).into());
    }
    let rows = capture::rows(&captured);
    let row = rows.first().ok_or_else(|| "no row".to_owned())?;
    let mut seen = Seen::new("", "file");
    seen.put("epoch_us", row.arrival);
    let held = row
        .block_hashes
        .iter()
        .flatten()
        .map(u64::to_string)
        .collect::<Vec<_>>();
    seen.put("ids", held);
    let file = capture::sealed(&captured)
        .into_iter()
        .next()
        .ok_or_else(|| "no file".to_owned())?;
    let types = truetape_schemas::file::types(&file).map_err(|e| e.to_string())?;
    let arrival = types.get("arrival").cloned().unwrap_or_default();
    seen.put("type_of_arrival", arrival.clone());
    seen.put("is_adjusted_to_utc", arrival.contains("utc"));
    seen.put(
        "unit",
        if arrival.contains("micros") {
            "MICROS"
        } else {
            "other"
        },
    );
    if row.cached_tokens.is_some() {
        seen.faults.push("an unknown count is not NULL".to_owned());
    }
    seen.faults.extend(elsewhere(&file, row.arrival, &ids));
    Ok(vec![seen])
}

/// Asks DuckDB and pyarrow, where they are, in two session zones.
fn elsewhere(file: &Path, epoch_us: i64, ids: &[u64]) -> Vec<String> {
    const SCRIPT: &str = r#"
import sys
path, epoch, ids = sys.argv[1], int(sys.argv[2]), [int(x) for x in sys.argv[3].split(",")]
asked = []
try:
    import duckdb
    for zone in ("Asia/Tehran", "UTC"):
        c = duckdb.connect()
        c.execute(f"SET TimeZone='{zone}'")
        got = c.execute(f"SELECT epoch_us(arrival), block_hashes FROM '{path}'").fetchone()
        assert got[0] == epoch and list(got[1]) == ids, ("duckdb", zone, got)
    asked.append("duckdb")
except ImportError:
    pass
try:
    import pyarrow.parquet as pq
    t = pq.read_table(path)
    got = (t["arrival"].cast("int64")[0].as_py(), t["block_hashes"][0].as_py())
    assert got == (epoch, ids), ("pyarrow", got)
    asked.append("pyarrow")
except ImportError:
    pass
print(" ".join(asked) or "nobody")
"#;
    let ids: Vec<String> = ids.iter().map(u64::to_string).collect();
    let mut command = std::process::Command::new("python3");
    command
        .env("TZ", "Asia/Tehran")
        .args(["-c", SCRIPT])
        .arg(file);
    match command
        .arg(epoch_us.to_string())
        .arg(ids.join(","))
        .output()
    {
        Ok(output) if output.status.success() => {
            let asked = String::from_utf8_lossy(&output.stdout);
            println!("other readers asked about Parquet types: {}", asked.trim());
            Vec::new()
        }
        Ok(output) => vec![String::from_utf8_lossy(&output.stderr).into_owned()],
        Err(_) => {
            println!("other readers asked about Parquet types: nobody (no python3)");
            Vec::new()
        }
    }
}
