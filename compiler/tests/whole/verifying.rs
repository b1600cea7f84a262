//! `verify` says yes to what is whole, and names what is not.

use crate::fixture::{Talk, compiled, hold, turns, write};
use serde_json::Value;
use std::path::Path;
use truetape_compiler::verify;
use truetape_schemas::file::Writer;
use truetape_schemas::set::{Turn, store};

fn faults(path: &Path) -> Vec<String> {
    verify::of(path.to_str().unwrap(), None).unwrap().faults
}

fn talk() -> Talk {
    Talk {
        name: "t".into(),
        start_us: 0,
        turns: 3,
        keyed: true,
    }
}

#[test]
fn a_capture_is_checked_row_by_row() {
    let dir = tempfile::tempdir().unwrap();
    let whole = dir.path().join("whole");
    write(&whole.join("0.parquet"), &hold(&talk()));
    assert_eq!(faults(&whole), Vec::<String>::new());
    let twice = dir.path().join("twice");
    write(&twice.join("0.parquet"), &hold(&talk()));
    write(&twice.join("1.parquet"), &hold(&talk()));
    assert_eq!(faults(&twice).len(), 3);
    let mut back = hold(&talk());
    back[1].end_us = Some(-4);
    write(&dir.path().join("back/0.parquet"), &back);
    assert!(faults(&dir.path().join("back"))[0].contains("end_us -4"));
    let broken = dir.path().join("broken");
    write(&broken.join("0.parquet"), &hold(&talk()));
    let bytes = std::fs::read(broken.join("0.parquet")).unwrap();
    std::fs::write(broken.join("0.parquet"), &bytes[..bytes.len() / 2]).unwrap();
    assert!(verify::of(broken.to_str().unwrap(), None).is_err());
}

#[test]
fn a_set_is_what_its_name_says() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("c/0.parquet"), &hold(&talk()));
    let set = compiled(&[dir.path().join("c")], "", &dir.path().join("s"));
    assert_eq!(faults(&set.dir), Vec::<String>::new());
    let mut changed = turns(&set);
    changed[2].depends_on = vec![7];
    changed[2].output_tokens = Some(8);
    let mut writer = Writer::<Turn>::create(&set.dir.join(store::TURNS)).unwrap();
    writer.write(&changed).unwrap();
    writer.finish(&[]).unwrap();
    let faults = faults(&set.dir);
    assert!(
        faults.iter().any(|fault| fault.contains("digest")),
        "{faults:?}"
    );
    assert!(
        faults
            .iter()
            .any(|fault| fault.contains("turn 2: depends on 7")),
        "{faults:?}"
    );
}

#[test]
fn a_manifest_that_another_tool_wrote_again_is_the_same_manifest() {
    fn backwards(value: Value) -> Value {
        match value {
            Value::Object(fields) => {
                let mut fields: Vec<_> = fields.into_iter().collect();
                fields.sort_by(|(a, _), (b, _)| b.cmp(a));
                let fields = fields
                    .into_iter()
                    .map(|(key, value)| (key, backwards(value)));
                Value::Object(fields.collect())
            }
            other => other,
        }
    }
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("c/0.parquet"), &hold(&talk()));
    let set = compiled(&[dir.path().join("c")], "", &dir.path().join("s"));
    let path = set.dir.join(store::MANIFEST);
    let manifest: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let mut again = backwards(manifest.clone());
    assert_ne!(again["recipe"].to_string(), manifest["recipe"].to_string());
    std::fs::write(&path, again.to_string()).unwrap();
    assert_eq!(faults(&set.dir), Vec::<String>::new());
    again["sources"][0]["digest"] = "of another capture".into();
    std::fs::write(&path, again.to_string()).unwrap();
    assert!(faults(&set.dir)[0].contains("digest"));
}
