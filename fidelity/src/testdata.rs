//! Public traces beside the repository, for tests; a test that needs one does less without it.

fn read(trace: &str) -> Option<String> {
    truetape_testkit::shared::text(&format!("traces/{trace}"))
}

/// A row of a Mooncake trace.
pub(crate) struct Row {
    pub(crate) arrival_us: i64,
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
    pub(crate) blocks: Vec<u64>,
}

/// The rows of a Mooncake trace.
pub(crate) fn mooncake(trace: &str) -> Option<Vec<Row>> {
    let text = read(trace)?;
    let rows = text.lines().map(|line| {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        let number = |key: &str| row.get(key).unwrap().as_i64().unwrap();
        let ids = row.get("hash_ids").unwrap().as_array().unwrap();
        Row {
            arrival_us: number("timestamp") * 1_000,
            input_tokens: number("input_length").unsigned_abs(),
            output_tokens: number("output_length").unsigned_abs(),
            blocks: ids.iter().map(|id| id.as_u64().unwrap()).collect(),
        }
    });
    Some(rows.collect())
}

/// Sorted arrivals of a Mooncake or Azure trace, in microseconds.
pub(crate) fn arrivals(trace: &str) -> Option<Vec<i64>> {
    let mut arrivals: Vec<i64> = if trace.ends_with(".jsonl") {
        mooncake(trace)?.iter().map(|row| row.arrival_us).collect()
    } else {
        read(trace)?.lines().skip(1).map(azure_arrival).collect()
    };
    arrivals.sort_unstable();
    Some(arrivals)
}

/// `2023-11-16 18:17:03.9799600,4808,10`: seven digits, no zone.
fn azure_arrival(line: &str) -> i64 {
    let stamp = line.split(',').next().unwrap();
    let (instant, digits) = stamp.split_once('.').unwrap();
    let seconds = truetape_schemas::time::parse_utc(&format!("{}Z", instant.replace(' ', "T")));
    seconds.unwrap() + digits.parse::<i64>().unwrap() / 10
}

/// Columns of a CSV without quotes before them, by name.
pub(crate) fn columns(trace: &str, names: [&str; 3]) -> Option<Vec<[i64; 3]>> {
    let text = read(trace)?;
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().unwrap().split(',').collect();
    let places = names.map(|name| head.iter().position(|found| *found == name).unwrap());
    let rows = lines.map(|line| {
        let cells: Vec<&str> = line.split(',').collect();
        places.map(|place| cells[place].parse::<f64>().unwrap() as i64)
    });
    Some(rows.collect())
}
