//! Readers refuse what is newer by name, and say what to do.

use crate::support::truetape;
use std::ffi::OsStr;
use std::path::Path;
use truetape_schemas::capture::Exchange;
use truetape_schemas::file::{FORMAT_KEY, Writer};
use truetape_testkit::tempdir::TempDir;

/// A capture of one row whose footer names another format.
fn capture_of(dir: &Path, format: &str) {
    std::fs::create_dir_all(dir).unwrap();
    let mut writer = Writer::create(&dir.join("a.parquet")).unwrap();
    writer.write(&[Exchange::default()]).unwrap();
    writer
        .finish(&[(FORMAT_KEY.to_owned(), format.to_owned())])
        .unwrap();
}

#[test]
fn a_newer_format_is_refused_by_name() {
    let dir = TempDir::new("formats");
    let captured = dir.join("capture");
    capture_of(&captured, "capture/99");
    let recipe = dir.join("recipe.toml");
    std::fs::write(&recipe, "").unwrap();
    let set = dir.join("set");
    std::fs::create_dir_all(&set).unwrap();
    std::fs::write(
        set.join("manifest.json"),
        r#"{"format":"set/99","later":1}"#,
    )
    .unwrap();
    let run = dir.join("run");
    std::fs::create_dir_all(&run).unwrap();
    std::fs::write(run.join("run.json"), r#"{"format":"run/99","later":1}"#).unwrap();
    let store = dir.join("store");
    let out = dir.join("out");
    let [captured, set, run] = [&captured, &set, &run].map(|path| path.as_os_str());
    let word = OsStr::new;
    let compile = [
        word("compile"),
        captured,
        word("--recipe"),
        recipe.as_os_str(),
        word("--store"),
        store.as_os_str(),
    ];
    let replay = [
        word("replay"),
        set,
        word("--target"),
        word("http://127.0.0.1:9"),
        word("--out"),
        out.as_os_str(),
    ];
    let cases: [(&[&OsStr], &str); 7] = [
        (&[word("inspect"), captured], "capture/99"),
        (&[word("verify"), captured], "capture/99"),
        (&[word("profile"), captured], "capture/99"),
        (&compile, "capture/99"),
        (&[word("inspect"), set], "set/99"),
        (&replay, "set/99"),
        (&[word("report"), run], "run/99"),
    ];
    for (args, format) in cases {
        let ended = truetape(args);
        assert_eq!(ended.code, Some(65), "{args:?}: {ended:?}");
        assert!(ended.stderr.contains(format), "{args:?}: {}", ended.stderr);
        assert!(
            ended.stderr.contains("upgrade"),
            "{args:?}: {}",
            ended.stderr
        );
        assert!(
            !ended.stderr.contains("later"),
            "{args:?}: refused by a field, not by name"
        );
    }
}

#[test]
fn a_file_of_another_kind_is_told_apart() {
    let dir = TempDir::new("kinds");
    let captured = dir.join("capture");
    capture_of(&captured, "set/1");
    let args = [OsStr::new("verify"), captured.as_os_str()];
    let ended = truetape(&args).expect_code(65);
    assert!(ended.stderr.contains("set/1"), "{}", ended.stderr);
}
