//! One table for every verb: `docs/exit-codes.md`.

use crate::support::{recipe, truetape, truetape_with};
use std::ffi::{OsStr, OsString};
use truetape_testkit::tempdir::TempDir;

/// One line of a trace.
const LINE: &str = r#"{"timestamp":0,"input_length":40,"output_length":2,"hash_ids":[1]}"#;

#[test]
fn exit_codes_tell_the_cases_apart() {
    let dir = TempDir::new("exit-codes");
    let path = |name: &str| dir.join(name).into_os_string();
    std::fs::write(dir.join("trace.jsonl"), format!("{LINE}\n")).unwrap();
    std::fs::write(dir.join("torn.jsonl"), "not json\n").unwrap();
    std::fs::write(dir.join("recipe.toml"), recipe("one", "synthetic")).unwrap();
    std::fs::write(dir.join("wrong.toml"), "sead = 1\n").unwrap();
    std::fs::write(dir.join("file"), "").unwrap();
    let word = |text: &str| OsString::from(text);
    let import = |file: &str, out: OsString, more: &[&str]| {
        let mut args = vec![
            word("import"),
            word("mooncake"),
            path(file),
            word("--out"),
            out,
        ];
        args.extend(more.iter().map(OsString::from));
        args
    };
    let compile = |recipe: &str| {
        vec![
            word("compile"),
            path("capture"),
            word("--recipe"),
            path(recipe),
            word("--store"),
            path("sets"),
        ]
    };
    let set = {
        let mut set = path("sets");
        set.push("/one@latest");
        set
    };
    let replay = |set: OsString, more: &[&str]| {
        let mut args = vec![word("replay"), set, word("--out"), path("run")];
        args.extend(more.iter().map(OsString::from));
        args
    };
    let verb = |name: &str, at: &str| vec![word(name), path(at)];
    let record = |more: &[&str]| {
        let mut args = vec![word("record"), word("--listen"), word("127.0.0.1:0")];
        args.extend([word("--out"), path("live")]);
        args.extend(more.iter().map(OsString::from));
        args
    };
    let inside_a_file = dir.join("file").join("capture").into_os_string();
    let nobody = ["--target", "http://127.0.0.1:1"];
    let cases: Vec<(Vec<OsString>, i32)> = vec![
        (vec![word("--version")], 0),
        (vec![], 2),
        (vec![word("rewind")], 2),
        (vec![word("replay"), word("--sped"), word("2")], 2),
        (import("trace.jsonl", path("capture"), &[]), 0),
        (import("torn.jsonl", path("torn"), &[]), 65),
        (import("torn.jsonl", path("torn"), &["--strict"]), 65),
        (import("missing.jsonl", path("missing"), &[]), 65),
        (import("trace.jsonl", inside_a_file, &[]), 74),
        (verb("verify", "capture"), 0),
        (verb("inspect", "missing"), 65),
        (compile("wrong.toml"), 78),
        (compile("missing.toml"), 78),
        (compile("recipe.toml"), 0),
        (replay(set.clone(), &nobody), 69),
        (replay(path("missing"), &nobody), 65),
        (replay(set.clone(), &["--target", "ftp://127.0.0.1:1"]), 78),
        (replay(set, &["--target", "http://192.0.2.1:9"]), 78),
        (verb("report", "missing"), 65),
        (record(&["--upstream", "nowhere", "--check-config"]), 78),
        (
            record(&[
                "--upstream",
                "http://127.0.0.1:9",
                "--rotate-rows",
                "0",
                "--check-config",
            ]),
            78,
        ),
        (
            record(&["--upstream", "http://127.0.0.1:9", "--check-config"]),
            0,
        ),
    ];
    for (args, code) in cases {
        let ended = truetape(&args);
        assert_eq!(ended.code, Some(code), "{args:?}: {ended:?}");
        if code > 2 {
            let first = ended
                .stderr
                .lines()
                .find(|line| line.starts_with("error: "));
            let said = first.unwrap_or_else(|| panic!("{args:?}: no error line: {}", ended.stderr));
            let message = said.trim_start_matches("error: ");
            assert!(
                !message.ends_with('.'),
                "a message ends without a full stop: {message}"
            );
        }
        assert!(
            !ended.stderr.contains("panicked"),
            "{args:?}: {}",
            ended.stderr
        );
    }
}

#[test]
fn a_variable_is_a_flag_and_a_flag_wins() {
    let dir = TempDir::new("variables");
    let live = dir.join("live");
    let live: &OsStr = live.as_os_str();
    let word = OsStr::new;
    let check = [word("record"), word("--out"), live, word("--check-config")];
    let listen = ("TRUETAPE_LISTEN", "127.0.0.1:0");
    let good = [listen, ("TRUETAPE_UPSTREAM", "http://127.0.0.1:9")];
    truetape_with(&check, &good).expect_code(0);
    let bad = [listen, ("TRUETAPE_UPSTREAM", "nowhere")];
    let ended = truetape_with(&check, &bad).expect_code(78);
    assert!(ended.stderr.contains("upstream"), "{}", ended.stderr);
    let flag = [
        &check[..],
        &[word("--upstream"), word("http://127.0.0.1:9")],
    ]
    .concat();
    truetape_with(&flag, &bad).expect_code(0);
}

#[test]
fn data_goes_to_stdout_and_talk_to_stderr() {
    let dir = TempDir::new("streams");
    std::fs::write(dir.join("trace.jsonl"), format!("{LINE}\n")).unwrap();
    let (trace, captured) = (dir.join("trace.jsonl"), dir.join("capture"));
    let word = OsStr::new;
    let import = [
        word("import"),
        word("mooncake"),
        trace.as_os_str(),
        word("--out"),
        captured.as_os_str(),
    ];
    let ended = truetape(&import).expect_code(0);
    assert_eq!(ended.stdout, "", "an import has no data to print");
    for verb in ["inspect", "profile", "verify"] {
        let args = [
            word(verb),
            captured.as_os_str(),
            word("--format"),
            word("json"),
        ];
        let ended = truetape(&args).expect_code(0);
        let data: Result<serde_json::Value, _> = serde_json::from_str(&ended.stdout);
        assert!(
            data.is_ok(),
            "{verb} prints JSON and only JSON: {}",
            ended.stdout
        );
    }
}
