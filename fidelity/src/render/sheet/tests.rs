use super::super::tests::{check, short_answers};
use super::*;
use crate::gate::Rule;
use crate::latency::summarize;
use truetape_schemas::capture::Outcome as Came;
use truetape_schemas::run::Engine;
use truetape_schemas::set::manifest::Selection;

/// The bound of the contract.
const PAGE_MAX_BYTES: usize = 2 << 20;

/// Charts of a page.
const CHARTS: usize = 12;

/// A run of sessions of four turns, a turn every 100 ms.
fn dispatches(count: i64) -> Vec<Dispatch> {
    let of = |turn_id: i64| Dispatch {
        turn_id,
        session: format!("</script><b>{}", turn_id / 4),
        due_us: turn_id * 100_000,
        ready_us: Some(turn_id * 100_000),
        sent_us: Some(turn_id * 100_000 + turn_id % 900),
        lateness_us: Some(turn_id % 900),
        session_delay_us: Some(turn_id % 50_000),
        request_end_us: Some(40),
        first_token_us: Some(20_000 + turn_id % 7_000),
        last_token_us: Some(80_000 + turn_id % 9_000),
        end_us: Some(80_100 + turn_id % 9_000),
        input_tokens_asked: Some(64 + turn_id % 400),
        input_tokens: Some(64 + turn_id % 400),
        output_tokens_asked: Some(30 + turn_id % 70),
        output_tokens: Some(30 + turn_id % 69),
        cached_tokens: Some(16 * (turn_id % 4)),
        enforcement: "enforce".to_owned(),
        outcome: Some(Came::Complete),
        ..Dispatch::default()
    };
    (0..count).map(of).collect()
}

fn turns(count: i64) -> Vec<Turn> {
    let of = |turn_id: i64| Turn {
        turn_id,
        session: format!("s{}", turn_id / 4),
        start_us: turn_id * 100_000,
        input_tokens: Some(64 + turn_id % 400),
        output_tokens: Some(30 + turn_id % 70),
        recorded_outcome: Came::Complete,
        recorded_ttft_us: Some(15_000 + turn_id % 5_000),
        recorded_e2el_us: Some(70_000 + turn_id % 5_000),
        block_hashes: Some(
            (0..4)
                .map(|block| (turn_id / 4 * 4 + block).unsigned_abs())
                .collect(),
        ),
        ..Turn::default()
    };
    (0..count).map(of).collect()
}

fn run(dispatches: &[Dispatch]) -> Run {
    Run {
        run_id: "r1".to_owned(),
        target: "http://127.0.0.1:1".to_owned(),
        engine: Engine {
            name: Some("vllm".to_owned()),
            models: vec!["<m>".to_owned()],
            kv_tokens: Some(512),
            ..Engine::default()
        },
        validity: "valid".to_owned(),
        summary: serde_json::to_value(summarize(dispatches)).unwrap(),
        ..Run::default()
    }
}

fn manifest() -> Manifest {
    Manifest {
        block_tokens: Some(16),
        source_profile: serde_json::json!({
            "input_tokens": {"p50": 200.0, "p90": 430.0, "p99": 460.0, "max": 463.0},
            "output_tokens": {"p50": 60.0, "p90": 90.0, "p99": 98.0, "max": 99.0},
            "prefix": {"infinite_hit_ratio": 0.7, "curve": [{"capacity_blocks": 64, "hit_ratio": 0.6}]},
            "arrivals": {"dispersion": [{"window_s": 1, "idc": 1.5}, {"window_s": 10, "idc": 4.0}]},
        }),
        selection: Some(Selection {
            unit: "session".to_owned(),
            residuals: vec![truetape_schemas::set::manifest::Residual {
                group: "input".to_owned(),
                name: "p50".to_owned(),
                ..Default::default()
            }],
            ..Selection::default()
        }),
        ..Manifest::default()
    }
}

/// A page with everything that a page can have.
fn whole(count: i64) -> String {
    let (report, dispatches) = (short_answers(), dispatches(count));
    let (run, turns, manifest) = (run(&dispatches), turns(count), manifest());
    let gate = Outcome {
        rules: vec![Rule {
            name: "must_pass <x>".to_owned(),
            held: false,
            said: "1 & 2".to_owned(),
        }],
    };
    html(&Evidence {
        report: &report,
        run: Some(&run),
        dispatches: &dispatches,
        set: Some(SetSide {
            manifest: &manifest,
            turns: &turns,
        }),
        gate: Some(&gate),
    })
}

fn alone() -> String {
    let report = short_answers();
    html(&Evidence {
        report: &report,
        run: None,
        dispatches: &[],
        set: None,
        gate: None,
    })
}

/// What stands between two texts, the first of them included.
fn between<'a>(page: &'a str, from: &str, to: &str) -> &'a str {
    let (_, page) = page.split_at(page.find(from).unwrap());
    page.split_at(page.find(to).unwrap()).0
}

#[test]
fn the_first_screen_of_a_page() {
    check(
        "first_screen.html",
        &between(&alone(), "<header>", "<main>").replace("</div>", "</div>\n"),
    );
}

#[test]
fn a_chart_of_a_page() {
    let chart = chart::Lines {
        id: "c",
        title: "T & T",
        about: "about".to_owned(),
        x: chart::Axis::new("tokens", scale::Kind::Log),
        y: chart::Axis::percent("share", scale::Kind::Linear),
        grid: vec![1.0, 10.0, 100.0],
        series: vec![
            chart::Series::new(
                "set",
                chart::Whose::Set,
                vec![Some(0.1), Some(0.5), Some(1.0)],
            ),
            chart::Series::new("run", chart::Whose::Run, vec![None, Some(0.4), None]).dots(),
            chart::Series::new("gone", chart::Whose::Wanted, vec![None; 3]),
        ],
        at_x: vec![chart::Mark {
            at: 50.0,
            says: "cache".to_owned(),
            whose: chart::Whose::Wanted,
        }],
        at_y: Vec::new(),
        lacks: vec!["the <gone>".to_owned()],
    };
    check("chart.html", &chart.figure().replace("><", ">\n<"));
}

#[test]
fn a_page_has_every_chart_and_fetches_nothing() {
    let page = whole(400);
    assert_eq!(page.matches("<svg class=\"chart\"").count(), CHARTS);
    assert_eq!(page.matches("class=\"missing\"").count(), 0);
    for forbidden in [
        "<link",
        "<img",
        "@import",
        "url(",
        " src=",
        "fetch(",
        "XMLHttpRequest",
    ] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    // The only address is the target's, as text; that of SVG is a name.
    let addresses = page
        .replace("http://www.w3.org/2000/svg", "")
        .matches("http")
        .count();
    assert_eq!(
        addresses,
        page.matches("http-equiv").count() + page.matches("http://127.0.0.1:1").count()
    );
    assert!(page.contains("default-src 'none'"));
    assert_eq!(page, whole(400));
}

#[test]
fn no_name_from_the_traffic_becomes_markup() {
    let page = whole(400);
    assert_eq!(page.matches("<script>").count(), 1);
    assert_eq!(page.matches("</script>").count(), 1);
    for name in ["<b>", "<m>", "<x>", "<probes>"] {
        assert!(!page.contains(name), "{name}");
    }
}

#[test]
fn every_element_is_closed_and_every_id_is_there_once() {
    for page in [whole(400), alone()] {
        for element in [
            "figure", "svg", "table", "div", "tr", "td", "details", "section", "ul", "ol", "text",
            "title", "span",
        ] {
            let open = page.matches(&format!("<{element}>")).count()
                + page.matches(&format!("<{element} ")).count();
            assert_eq!(
                open,
                page.matches(&format!("</{element}>")).count(),
                "{element}"
            );
        }
        let ids: Vec<&str> = page
            .split(" id=\"")
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
            .collect();
        let once: std::collections::HashSet<&&str> = ids.iter().collect();
        assert_eq!(ids.len(), once.len(), "{ids:?}");
        for target in page
            .split("href=\"#")
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
        {
            assert!(ids.contains(&target), "{target}");
        }
    }
}

#[test]
fn a_page_without_data_names_what_it_lacks() {
    let page = alone();
    // Of production three quantiles of each length are known, and nothing else.
    assert_eq!(page.matches("class=\"missing\"").count(), CHARTS - 3);
    assert!(
        page.contains("Unknown: the set&#39;s blocks; name the set with --set or --store."),
        "{page}"
    );
    assert!(page.contains("Nothing: this report is of a set, not of a run."));
}

#[test]
fn a_page_of_a_long_run_is_as_small_as_any() {
    let page = whole(60_000);
    assert!(page.len() < PAGE_MAX_BYTES, "{} bytes", page.len());
    assert_eq!(page.matches("<svg class=\"chart\"").count(), CHARTS);
}

#[test]
fn a_quantile_with_nothing_beyond_it_is_not_drawn() {
    let page = whole(400);
    let ttft = between(&page, "<figure id=\"ttft\"", "</figure>");
    assert!(ttft.contains("p99 quantile: production, as recorded"));
    // Of 400 answers two are beyond the one, and none is beyond the other.
    assert!(ttft.contains("p99.5 quantile") && !ttft.contains("p99.9 quantile"));
}
