//! The page of the replayer has a row for every flag.

use clap::Args as _;
use std::collections::BTreeSet;
use truetape_replay::cli::ReplayArgs;

const PAGE: &str = include_str!("../../../docs/replay.md");

/// The heading of the table.
const HEADING: &str = "## Every flag, and what it does to fidelity";

/// The flags of the table, in its order.
fn rows() -> Vec<&'static str> {
    let (_, rest) = PAGE.split_once(HEADING).unwrap();
    let section = rest.split("\n## ").next().unwrap();
    let cells = section.lines().filter_map(|line| line.strip_prefix("| `"));
    cells.map(|line| line.split('`').next().unwrap()).collect()
}

fn flags() -> BTreeSet<String> {
    let command = ReplayArgs::augment_args(clap::Command::new("replay"));
    let longs = command.get_arguments().filter_map(clap::Arg::get_long);
    longs.map(|long| format!("--{long}")).collect()
}

#[test]
fn every_flag_has_a_row_and_every_row_a_flag() {
    let flags = flags();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    // In the order of the alphabet, each once.
    assert_eq!(rows(), flags);
}

#[test]
fn the_page_names_no_flag_that_is_not_there() {
    let flags = flags();
    // Of other verbs.
    let others = ["--set", "--require"];
    let named = PAGE.split("`--").skip(1).filter_map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '-')?;
        rest.get(..end)
    });
    let unknown: Vec<String> = named
        .map(|name| format!("--{name}"))
        .filter(|name| !flags.contains(name) && !others.contains(&name.as_str()))
        .collect();
    assert_eq!(unknown, Vec::<String>::new());
}
