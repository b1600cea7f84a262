//! The arrows of `ARCHITECTURE.md`.

use super::{complain, root};
use std::collections::BTreeMap;
use std::process::Command;

/// An edge that is not here does not exist.
const ARROWS: &[(&str, &[&str])] = &[
    ("truetape-schemas", &[]),
    ("truetape-fidelity", &["truetape-schemas"]),
    ("truetape-proxy", &["truetape-schemas"]),
    (
        "truetape-compiler",
        &["truetape-schemas", "truetape-fidelity"],
    ),
    (
        "truetape-replay",
        &["truetape-schemas", "truetape-fidelity"],
    ),
    ("truetape-stub", &["truetape-schemas", "truetape-fidelity"]),
    ("truetape-testkit", &["truetape-schemas"]),
    (
        "truetape",
        &[
            "truetape-schemas",
            "truetape-fidelity",
            "truetape-proxy",
            "truetape-compiler",
            "truetape-replay",
            "truetape-stub",
        ],
    ),
];

/// Crates that must not be reachable from a crate, at any depth.
const UNREACHABLE: &[(&str, &[&str])] = &[
    (
        "truetape-schemas",
        &["tokio", "hyper", "rustls", "clap", "tracing-subscriber"],
    ),
    (
        "truetape-fidelity",
        &["tokio", "hyper", "rustls", "clap", "rand_chacha"],
    ),
    (
        "truetape-proxy",
        &[
            "truetape-compiler",
            "truetape-replay",
            "truetape-fidelity",
            "truetape-stub",
            "tokenizers",
            "datafusion",
            "object_store",
            "reqwest",
            "openssl",
        ],
    ),
    ("truetape", &["openssl", "native-tls", "async-std"]),
];

/// Crates that only one of ours may name.
const ONLY_THROUGH: &[(&str, &[&str])] = &[
    ("parquet", &["truetape-schemas"]),
    ("serde_arrow", &["truetape-schemas"]),
];

fn cargo(args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO"));
    command
        .current_dir(root())
        .args(args)
        .args(["--offline", "--quiet"]);
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// For each of our packages: the packages it names for itself, not for its tests.
fn named() -> BTreeMap<String, Vec<String>> {
    let metadata = cargo(&["metadata", "--no-deps", "--format-version", "1"]);
    let metadata: serde_json::Value = serde_json::from_str(&metadata).unwrap();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let packages = metadata["packages"].as_array().unwrap().iter();
    let dependencies = |package: &serde_json::Value| {
        let all = package["dependencies"].as_array().unwrap().iter();
        all.filter(|d| d["kind"] != "dev")
            .map(|d| text(&d["name"]))
            .collect()
    };
    packages
        .map(|package| (text(&package["name"]), dependencies(package)))
        .collect()
}

#[test]
fn an_arrow_that_is_not_drawn_does_not_exist() {
    let mut complaints = Vec::new();
    let named = named();
    for (package, dependencies) in &named {
        let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| name == package) else {
            complaints.push(format!("{package}: not in ARROWS"));
            continue;
        };
        let ours = dependencies
            .iter()
            .filter(|name| name.starts_with("truetape"));
        for wrong in ours.filter(|name| !allowed.contains(&name.as_str())) {
            complaints.push(format!(
                "{package}: depends on {wrong}; allowed: {allowed:?}"
            ));
        }
    }
    for (package, _) in ARROWS {
        if !named.contains_key(*package) {
            complaints.push(format!("{package}: in ARROWS, not in the workspace"));
        }
    }
    complain(&complaints);
}

#[test]
fn some_crates_are_named_in_one_place() {
    let mut complaints = Vec::new();
    for (package, dependencies) in named() {
        for (narrow, through) in ONLY_THROUGH {
            let names_it = dependencies.iter().any(|name| name == narrow);
            if names_it && !through.contains(&package.as_str()) {
                complaints.push(format!("{package}: names {narrow}; only {through:?} may"));
            }
        }
    }
    complain(&complaints);
}

#[test]
fn what_must_not_be_reached_is_not_reached() {
    let mut complaints = Vec::new();
    for (package, forbidden) in UNREACHABLE {
        let tree = cargo(&[
            "tree", "--edges", "normal", "--prefix", "none", "-p", package,
        ]);
        let reached: Vec<&str> = tree
            .lines()
            .filter_map(|line| line.split_whitespace().next())
            .collect();
        assert!(
            reached.contains(package),
            "the tree of {package} is not its tree:\n{tree}"
        );
        for crate_ in forbidden.iter().filter(|name| reached.contains(name)) {
            complaints.push(format!("{package}: reaches {crate_}"));
        }
    }
    complain(&complaints);
}
