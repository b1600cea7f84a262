//! What a subject costs, by the system's own account.

use rustix::thread::{CpuSet, sched_setaffinity};
use std::collections::BTreeMap;
use std::path::Path;

/// The core of the subject under test, and that of load and upstream.
pub(crate) const SUBJECT_CORE: usize = 0;
/// See [`SUBJECT_CORE`].
pub(crate) const LOAD_CORE: usize = 1;

/// Pins this thread, and what it starts from now on.
pub(crate) fn pin(core: usize) {
    let mut cores = CpuSet::new();
    cores.set(core);
    // A machine with one core shares it.
    sched_setaffinity(None, &cores).ok();
}

/// Open files that a thousand streams through a proxy need, on both of its sides and on ours.
pub(crate) fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised).expect("the soft limit may be raised to the hard one");
}

/// Processor time of threads by their names, in nanoseconds; of all threads of a process and of its
/// children.
pub(crate) type Times = BTreeMap<String, u64>;

/// A process and its children, their children included.
fn family(id: u32) -> Vec<u32> {
    let mut all = vec![id];
    let mut next = 0;
    while let Some(id) = all.get(next).copied() {
        next += 1;
        for task in entries(&format!("/proc/{id}/task")) {
            let children = format!("/proc/{id}/task/{task}/children");
            let text = std::fs::read_to_string(children).unwrap_or_default();
            all.extend(
                text.split_whitespace()
                    .filter_map(|id| id.parse::<u32>().ok()),
            );
        }
    }
    all
}

fn entries(directory: &str) -> Vec<String> {
    let found = std::fs::read_dir(directory).into_iter().flatten().flatten();
    found
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

/// Processor time so far. A thread that has ended in between is missed: no subject has such threads
/// while it serves.
pub(crate) fn times(id: u32) -> Times {
    let mut times = Times::new();
    for id in family(id) {
        for task in entries(&format!("/proc/{id}/task")) {
            let task = format!("/proc/{id}/task/{task}");
            let read = |name: &str| {
                std::fs::read_to_string(Path::new(&task).join(name)).unwrap_or_default()
            };
            let spent = read("schedstat")
                .split_whitespace()
                .next()
                .and_then(|ns| ns.parse().ok());
            *times.entry(read("comm").trim().to_owned()).or_default() += spent.unwrap_or(0_u64);
        }
    }
    times
}

/// What was spent between two readings.
pub(crate) fn spent(before: &Times, after: &Times) -> Times {
    let gain = |(name, ns): (&String, &u64)| {
        (
            name.clone(),
            ns.saturating_sub(before.get(name).copied().unwrap_or(0)),
        )
    };
    after.iter().map(gain).collect()
}

/// Resident memory of a process and its children, in bytes. Pages that they share count for each.
pub(crate) fn resident_bytes(id: u32) -> u64 {
    let kib = |id: u32| {
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        line.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok())
            .unwrap_or(0)
    };
    family(id).into_iter().map(kib).sum::<u64>() * 1024
}
