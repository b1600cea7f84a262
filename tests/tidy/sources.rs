//! What no source file may hold, and how long one may be.

use super::{complain, texts};

/// Longer files are split: a file is read in one sitting.
const LINES_MAX: usize = 500;

/// What no source may hold, and why. Written in two pieces, or this file would hold it.
const BANNED_IN_CODE: &[(&str, &str)] = &[
    (
        concat!("#[ig", "nore"),
        "a test that does not run proves nothing",
    ),
    (
        concat!("#[should_", "panic"),
        "it passes for the wrong panic too",
    ),
    (concat!("to", "do!("), "unfinished"),
    (concat!("unimple", "mented!("), "unfinished"),
    (concat!("db", "g!("), "left over"),
    (
        concat!("#[al", "low("),
        "use #[expect(lint, reason = \"...\")]",
    ),
    (
        concat!("FIX", "ME"),
        "fix it, or say what is missing in a document",
    ),
    (
        concat!("TO", "DO"),
        "do it, or say what is missing in a document",
    ),
    (concat!("un", "safe {"), "there is none"),
    (
        concat!("SystemTime", "::now"),
        "wall time is read in schemas::time only",
    ),
];

/// What no text of the repository may hold: it would mean nothing to a stranger.
const BANNED_ANYWHERE: &[(&str, &str)] = &[
    (concat!("/wo", "rk/"), "a path of one machine"),
    (concat!("/ho", "me/"), "a path of one machine"),
    (concat!("/ro", "ot/"), "a path of one machine"),
    (concat!("/tmp/", "brief"), "a path of one machine"),
    (
        concat!("main ses", "sion"),
        "work is not described by who did it",
    ),
    (
        concat!("helper ses", "sion"),
        "work is not described by who did it",
    ),
    (
        concat!("as an ", "AI"),
        "work is not described by who did it",
    ),
    (
        concat!("language model ", "assistant"),
        "work is not described by who did it",
    ),
    (concat!("blazing", "ly"), "say the number"),
    (concat!("cutting", "-edge"), "say what it does"),
    (concat!("state-of-the", "-art"), "say the number"),
    (concat!("game", "-changing"), "say what it does"),
];

/// Places that hold such a thing on purpose.
const EXCEPT: &[(&str, &str)] = &[("schemas/src/time.rs", concat!("SystemTime", "::now"))];

#[test]
fn no_file_is_too_long() {
    let long = |(name, text): (String, String)| {
        let lines = text.lines().count();
        (lines > LINES_MAX).then(|| format!("{name}: {lines} lines; at most {LINES_MAX}"))
    };
    complain(
        &texts(".rs")
            .into_iter()
            .filter_map(long)
            .collect::<Vec<_>>(),
    );
}

#[test]
fn no_source_holds_what_is_banned() {
    complain(&search(&texts(".rs"), BANNED_IN_CODE));
}

#[test]
fn no_text_holds_what_means_nothing_to_a_stranger() {
    for ending in [
        ".rs", ".md", ".toml", ".yml", ".yaml", ".json", ".sh", "Makefile", "run",
    ] {
        complain(&search(&texts(ending), BANNED_ANYWHERE));
    }
}

fn search(texts: &[(String, String)], banned: &[(&str, &str)]) -> Vec<String> {
    let mut complaints = Vec::new();
    for (name, text) in texts {
        for (number, line) in (1..).zip(text.lines()) {
            for (needle, why) in banned.iter().filter(|(needle, _)| line.contains(needle)) {
                let excepted = EXCEPT
                    .iter()
                    .any(|(file, held)| name.ends_with(file) && held == needle);
                if !excepted {
                    complaints.push(format!("{name}:{number}: `{needle}`: {why}"));
                }
            }
        }
    }
    complaints
}

#[test]
fn a_search_finds_what_is_there() {
    let text = format!("one\n{}reason)]\n", concat!("#[ig", "nore = "));
    let found = search(&[("a.rs".to_owned(), text)], BANNED_IN_CODE);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found
            .iter()
            .all(|complaint| complaint.starts_with("a.rs:2:"))
    );
}

#[test]
fn only_tests_look_beside_the_repository() {
    let beside = concat!("../sha", "red");
    let outside = |(name, text): &(String, String)| {
        let tests = ["tests/", "/tests/", "/tests.rs", "/testdata.rs"];
        let is_test = name.starts_with("tests/") || tests.iter().any(|part| name.contains(part));
        (!is_test && text.contains(beside)).then(|| format!("{name}: looks at {beside}"))
    };
    complain(&texts(".rs").iter().filter_map(outside).collect::<Vec<_>>());
}

#[test]
fn every_shared_dependency_says_why_it_is_here() {
    let (_, manifest) = texts("Cargo.toml")
        .into_iter()
        .find(|(name, _)| name == "Cargo.toml")
        .unwrap();
    let section = manifest.split("[workspace.dependencies]").nth(1).unwrap();
    let section = section.split("\n[").next().unwrap();
    let mut complaints = Vec::new();
    let mut above = "";
    let mut counted = 0;
    for line in section.lines() {
        let ours = line.starts_with("truetape");
        let dependency = !ours && !line.starts_with('#') && line.contains(" = ");
        counted += usize::from(dependency);
        if dependency && !above.starts_with('#') {
            complaints.push(format!("Cargo.toml: no comment above `{line}`"));
        }
        above = line;
    }
    assert!(counted > 10, "the section was not found: {section}");
    complain(&complaints);
}
