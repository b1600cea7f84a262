//! Goldens are evidence: `BLESS=1` writes `*.modified` beside them, and a person moves it.

use super::*;
use crate::grade::{SetContext, set_against_source};
use crate::population::{Population, PopulationTurn};
use crate::profile::{Options, profile};
use std::path::PathBuf;

pub(super) fn check(name: &str, got: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("testdata/render")
        .join(name);
    let want = std::fs::read_to_string(&path).unwrap_or_default();
    if want != got && std::env::var_os("BLESS").is_some() {
        let mut aside = path.clone().into_os_string();
        aside.push(".modified");
        std::fs::write(aside, got).unwrap();
    }
    assert_eq!(
        got,
        want,
        "{} is out of date; BLESS=1 writes the new text beside it",
        path.display()
    );
}

/// A steady little population, so that its numbers can be checked by hand: 120 sessions of two
/// turns, one session every 10 s, answers of 100 tokens.
fn small(output_tokens: u64) -> Population {
    let turns = (0..240i64).map(|index| {
        let session = u32::try_from(index / 2).unwrap();
        let (start, depth) = (i64::from(session) * 10_000_000, index % 2);
        let own = 100 + u64::from(session) * 10;
        PopulationTurn {
            session,
            arrival_us: start + depth * 6_000_000,
            end_us: Some(start + depth * 6_000_000 + 2_000_000),
            input_tokens: Some(if depth == 0 { 64 } else { 96 }),
            output_tokens: Some(output_tokens),
            cached_tokens: Some(if depth == 0 { 32 } else { 64 }),
            blocks: (1..3)
                .chain(own..own + 2 + u64::try_from(depth).unwrap() * 2)
                .collect(),
            ..PopulationTurn::default()
        }
    });
    let turns = turns.collect();
    Population {
        turns,
        sessions: 120,
        block_tokens: Some(16),
        ..Population::default()
    }
}

pub(super) fn short_answers() -> Report {
    let context = SetContext {
        set_name: "chat".to_owned(),
        set_digest: "0123456789abcdef".to_owned(),
        view: "fleet".to_owned(),
        rate: "recorded".to_owned(),
        unlinked_share: Some(0.0),
        findings: vec!["3 requests | were <probes>".to_owned()],
        ..SetContext::default()
    };
    let mut report = set_against_source(&small(100), &small(50), &context);
    report.tool_version = "1.2.3".to_owned();
    report
}

#[test]
fn a_report_on_a_terminal() {
    check("report.txt", &terminal(&short_answers(), false));
}

#[test]
fn a_report_as_markdown() {
    check("report.md", &markdown(&short_answers()));
}

#[test]
fn a_profile_on_a_terminal() {
    let options = Options {
        capacities_blocks: vec![10, 1_000],
        ..Options::default()
    };
    check(
        "profile.txt",
        &profile_terminal(&profile(&small(100), &options)),
    );
}

#[test]
fn colours_change_no_character() {
    let report = short_answers();
    let plain = terminal(&report, false);
    let painted = terminal(&report, true);
    assert!(painted.contains("\u{1b}[31;1mFAIL"));
    let mut bare = String::new();
    for (index, part) in painted.split('\u{1b}').enumerate() {
        let text = if index == 0 {
            part
        } else {
            part.split_once('m').unwrap().1
        };
        bare.push_str(text);
    }
    let trimmed: Vec<&str> = bare.lines().map(str::trim_end).collect();
    assert_eq!(trimmed, plain.lines().collect::<Vec<_>>());
}

#[test]
fn the_first_screen_is_one_screen() {
    let text = terminal(&short_answers(), false);
    let first = text
        .lines()
        .position(|line| line.starts_with("set against production"))
        .unwrap();
    assert!(first <= 24, "{first} lines");
}

#[test]
fn an_empty_report_and_an_empty_profile_render() {
    let nothing = Population::default();
    let report = set_against_source(&nothing, &nothing, &SetContext::default());
    assert!(terminal(&report, true).contains("UNKNOWN"));
    assert!(markdown(&report).contains("**UNKNOWN**"));
    assert!(profile_terminal(&profile(&nothing, &Options::default())).contains("0 turns"));
}

fn portrait() -> Portrait {
    let population = small(100);
    let options = Options {
        capacities_blocks: vec![16, 64, 256],
        ..Options::default()
    };
    let mut portrait = Portrait {
        profile: profile(&population, &options),
        shape: crate::profile::portrait::Shape::of(&population),
        findings: vec!["a <finding> & more".to_owned()],
        ..Portrait::default()
    };
    portrait.mix.models = [("<img src=x>".to_owned(), 240)].into();
    portrait
}

#[test]
fn a_portrait_shows_shapes_and_mix_under_the_profile() {
    let portrait = portrait();
    let text = portrait_terminal(&portrait);
    assert!(text.starts_with(&profile_terminal(&portrait.profile)));
    assert!(
        text.contains("prompt tokens           64 █ 128, doubling"),
        "{text}"
    );
    assert!(
        text.contains("models                  <img src=x> 100.0 %"),
        "{text}"
    );
}

#[test]
fn a_page_needs_nothing_beside_it_and_takes_no_markup_from_traffic() {
    let page = portrait_html("chat@v3", &portrait());
    for forbidden in [
        "http://",
        "https://",
        "<script",
        "<link",
        "<img",
        "@import",
        "url(",
        "<finding>",
    ] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    assert!(page.contains("prefers-color-scheme: dark"));
    // Every chart has something to show, and every element is closed.
    assert!(!page.contains("class=\"unknown\""));
    for element in ["figure", "svg", "table", "div", "tr"] {
        let open = page.matches(&format!("<{element}>")).count()
            + page.matches(&format!("<{element} ")).count();
        assert_eq!(
            open,
            page.matches(&format!("</{element}>")).count(),
            "{element}"
        );
    }
    assert_eq!(page, portrait_html("chat@v3", &portrait()));
}

#[test]
fn a_portrait_as_json_has_the_keys_of_its_profile() {
    let value = serde_json::to_value(portrait()).unwrap();
    assert_eq!(
        value.pointer("/input_tokens/p50"),
        Some(&serde_json::json!(80.0))
    );
    assert_eq!(
        value.pointer("/shape/input_tokens/0/from"),
        Some(&serde_json::json!(64.0))
    );
    let back: Portrait = serde_json::from_value(value).unwrap();
    assert_eq!(back, portrait());
}
