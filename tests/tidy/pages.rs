//! Pages that must agree with the code.

use super::{complain, root, texts};
use truetape_schemas::blame::Blame;

/// The promises, by the ids that code, tests and reviews use.
const INVARIANTS: &[&str] = &[
    "P1", "P2", "P3", "P4", "P5", "C1", "C2", "C3", "R1", "R2", "R3", "R4",
];

fn page(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap_or_else(|cause| panic!("{name}: {cause}"))
}

#[test]
fn the_architecture_names_every_crate_and_every_invariant() {
    let page = page("ARCHITECTURE.md");
    let mut complaints = Vec::new();
    for (name, manifest) in texts("Cargo.toml") {
        let package = manifest.split("[package]").nth(1).unwrap_or_default();
        let name_line = package
            .lines()
            .find_map(|line| line.strip_prefix("name = "));
        let Some(package) = name_line.map(|quoted| quoted.trim_matches('"')) else {
            complaints.push(format!("{name}: no package name"));
            continue;
        };
        if !page.contains(&format!("`{package}`")) {
            complaints.push(format!("ARCHITECTURE.md: does not mention `{package}`"));
        }
    }
    for id in INVARIANTS {
        if !page.contains(&format!("| {id} |")) {
            complaints.push(format!("ARCHITECTURE.md: has no row for {id}"));
        }
    }
    complain(&complaints);
}

#[test]
fn the_architecture_names_files_that_exist() {
    let page = page("ARCHITECTURE.md");
    let quoted = page.split('`').skip(1).step_by(2);
    let files = quoted.filter(|name| name.contains('/') && name.ends_with(".rs"));
    let missing = |name: &&str| !root().join(name).is_file();
    let say = |name: &str| format!("ARCHITECTURE.md: `{name}` does not exist");
    complain(&files.filter(missing).map(say).collect::<Vec<_>>());
}

#[test]
fn the_exit_codes_page_is_the_code() {
    // A new party does not compile until it is in the list below.
    let listed = |blame: Blame| match blame {
        Blame::Usage
        | Blame::Config
        | Blame::Data
        | Blame::Target
        | Blame::Host
        | Blame::Drain
        | Blame::Bug => blame,
    };
    let all = [
        Blame::Usage,
        Blame::Config,
        Blame::Data,
        Blame::Target,
        Blame::Host,
        Blame::Drain,
        Blame::Bug,
    ];
    let page = page("docs/exit-codes.md");
    let missing = |blame: Blame| {
        let row = format!("| {} | {} |", blame.exit_code(), blame.name());
        (!page.contains(&row)).then(|| format!("docs/exit-codes.md: no row `{row}`"))
    };
    complain(
        &all.into_iter()
            .map(listed)
            .filter_map(missing)
            .collect::<Vec<_>>(),
    );
}

#[test]
fn every_crate_says_in_which_order_to_read_it() {
    let unordered = |(name, text): &(String, String)| {
        let head: Vec<&str> = text
            .lines()
            .take_while(|line| line.starts_with("//!"))
            .collect();
        let modules = text
            .lines()
            .filter(|line| line.starts_with("pub mod "))
            .count();
        (modules > 1 && !head.join("\n").contains("Read in this order"))
            .then(|| format!("{name}: does not say in which order to read it"))
    };
    let libraries = texts("lib.rs");
    assert!(libraries.len() >= 7, "{} libraries", libraries.len());
    complain(&libraries.iter().filter_map(unordered).collect::<Vec<_>>());
}

#[test]
fn links_between_pages_lead_somewhere() {
    let mut complaints = Vec::new();
    for (name, text) in texts(".md") {
        let folder = root().join(&name).parent().unwrap().to_owned();
        for target in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
        {
            let file = target.split('#').next().unwrap_or_default();
            let elsewhere = file.is_empty() || file.contains("://") || file.contains(' ');
            if !elsewhere && std::fs::metadata(folder.join(file)).is_err() {
                complaints.push(format!("{name}: links to {target}, which is not there"));
            }
        }
    }
    complain(&complaints);
}
