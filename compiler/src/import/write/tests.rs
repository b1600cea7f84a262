use super::*;

/// A trace of two files, each a row a line; the second one can be taken away.
fn trace(dir: &Path) -> (ImportOptions, Scan) {
    let files = ["a.jsonl", "b.jsonl"].map(|name| dir.join(name));
    for (file, at) in files.iter().zip([0, 5]) {
        let lines = (at..at + 5).map(|ms| format!("{{\"timestamp\":{ms},\"input_length\":9}}\n"));
        std::fs::write(file, lines.collect::<String>()).unwrap();
    }
    let options = ImportOptions {
        format: TraceFormat::Mooncake,
        files: files.to_vec(),
        out: dir.join("out"),
        block_tokens: None,
        start_us: 0,
        strict: true,
    };
    let scan = Scan::of(options.format, &options.files, 512).unwrap();
    (options, scan)
}

fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name();
    let mut names: Vec<String> = entries
        .map(|entry| name(entry).to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn an_import_that_is_cut_short_leaves_no_capture() {
    let dir = tempfile::tempdir().unwrap();
    let (options, scan) = trace(dir.path());
    std::fs::remove_file(&options.files[1]).unwrap();
    // Two segments are sealed by then.
    capture_in_segments(&options, 512, scan, 2).unwrap_err();
    assert_eq!(names(dir.path()), ["a.jsonl"]);
}

#[test]
fn what_a_crash_left_beside_is_not_in_the_way() {
    let dir = tempfile::tempdir().unwrap();
    let (options, scan) = trace(dir.path());
    let crashed = Aside::create(&options.out).unwrap();
    std::fs::write(crashed.dir().join("0.parquet"), "half").unwrap();
    std::mem::forget(crashed);
    assert_eq!(names(dir.path()).len(), 3);
    let imported = capture_in_segments(&options, 512, scan, 4).unwrap();
    assert_eq!(names(dir.path()), ["a.jsonl", "b.jsonl", "out"]);
    let of = |n: u32| format!("import-mooncake-{n:05}{SEGMENT_SUFFIX}");
    assert_eq!(names(&options.out), [of(0), of(1), of(2)]);
    assert_eq!(imported.ledger.recorded, 10);
}

#[test]
fn an_import_takes_the_place_of_itself_and_of_an_empty_directory() {
    let dir = tempfile::tempdir().unwrap();
    let (options, scan) = trace(dir.path());
    std::fs::create_dir(&options.out).unwrap();
    let first = capture_in_segments(&options, 512, scan.clone(), 3).unwrap();
    let second = capture_in_segments(&options, 512, scan, 9).unwrap();
    assert_eq!((first.segments.len(), second.segments.len()), (4, 2));
    assert_eq!(names(&options.out).len(), 2);
    assert_eq!(names(dir.path()), ["a.jsonl", "b.jsonl", "out"]);
}
