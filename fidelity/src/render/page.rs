//! A portrait as one page of HTML: it opens from a file, without a network, in light and dark.

use super::portrait::{commonest, lists};
use super::svg::{Bar, bars, curve, escape, short};
use super::words::{count, number, percent};
use crate::profile::portrait::{Bin, Portrait};
use crate::profile::{Lengths, Profile, Spread};

/// Words of a list of the mix that are named.
const NAMED_MAX: usize = 12;

/// The look of the page.
const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1c2024; --soft: #60646c; --paper: #fcfcfd; --card: #ffffff; --edge: #e0e3e8; --bar: #2b6cb0; }
@media (prefers-color-scheme: dark) { :root { --ink: #edeef0; --soft: #b0b4ba; --paper: #111113; --card: #18191b; --edge: #2f3237; --bar: #70b8ff; } }
body { margin: 0 auto; max-width: 1080px; padding: 24px 16px 48px; background: var(--paper); color: var(--ink); font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 22px; margin: 0 0 4px; } h2 { font-size: 16px; margin: 28px 0 8px; }
p { margin: 4px 0; } .soft { color: var(--soft); }
.grid2 { display: grid; grid-template-columns: repeat(auto-fit, minmax(320px, 1fr)); gap: 12px; }
figure { margin: 0; padding: 12px; background: var(--card); border: 1px solid var(--edge); border-radius: 8px; }
figcaption { font-weight: 600; margin-bottom: 6px; } svg { width: 100%; height: auto; display: block; }
.bar, .dot { fill: var(--bar); } .line { fill: none; stroke: var(--bar); stroke-width: 2; }
.grid { stroke: var(--edge); } .tick { fill: var(--soft); font-size: 10px; }
.unknown { color: var(--soft); }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; background: var(--card); }
th, td { text-align: right; padding: 5px 10px; border-bottom: 1px solid var(--edge); font-variant-numeric: tabular-nums; }
th:first-child, td:first-child { text-align: left; }
";

/// Renders a page.
pub(super) fn html(title: &str, portrait: &Portrait) -> String {
    let title = escape(title);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{title}</title><style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n"
    );
    page.push_str(&headline(&portrait.profile));
    page.push_str("<h2>Lengths, sessions, pauses</h2>\n");
    page.push_str(&numbers(&portrait.profile));
    page.push_str("<h2>Shapes</h2>\n<div class=\"grid2\">\n");
    page.push_str(&shapes(portrait));
    page.push_str("</div>\n<h2>Mix</h2>\n<div class=\"grid2\">\n");
    for (name, list) in lists(&portrait.mix) {
        page.push_str(&mix_table(name, list));
    }
    page.push_str("</div>\n");
    if !portrait.findings.is_empty() {
        page.push_str("<h2>Before you trust it</h2>\n<ul>\n");
        for finding in &portrait.findings {
            page.push_str(&format!("<li>{}</li>\n", escape(finding)));
        }
        page.push_str("</ul>\n");
    }
    page.push_str("</body></html>\n");
    page
}

fn headline(profile: &Profile) -> String {
    let (arrivals, prefix) = (&profile.arrivals, &profile.prefix);
    format!(
        "<p>{} turns in {} sessions over {} s, {} turns/s; {} prompt and {} answer tokens.</p>\n\
         <p class=\"soft\">Prefix reuse with a cache without bound: {} of the blocks \
         (inside sessions {}, hot {}, across {}). Cached as production reported: {}.</p>\n",
        count(profile.turns),
        count(profile.sessions),
        number(arrivals.span_s),
        number(arrivals.rate_per_s),
        count(profile.input_tokens.sum),
        count(profile.output_tokens.sum),
        percent(prefix.infinite_hit_ratio),
        percent(prefix.intra_session_ratio),
        percent(prefix.hot_ratio),
        percent(prefix.cross_session_ratio),
        percent(profile.cached_tokens.share),
    )
}

fn numbers(profile: &Profile) -> String {
    let mut rows = String::new();
    let mut row = |name: &str, cells: [Option<f64>; 5], known: u64| {
        let cells: String = cells
            .iter()
            .map(|cell| format!("<td>{}</td>", number(*cell)))
            .collect();
        rows.push_str(&format!(
            "<tr><td>{name}</td>{cells}<td>{}</td></tr>\n",
            count(known)
        ));
    };
    let of_lengths = |l: &Lengths| ([l.p50, l.p90, l.p99, l.max, l.mean], l.known);
    let of_spread = |s: &Spread| ([s.p50, s.p90, s.p99, s.max, s.mean], s.known);
    for (name, (cells, known)) in [
        ("prompt tokens", of_lengths(&profile.input_tokens)),
        ("answer tokens", of_lengths(&profile.output_tokens)),
        ("turns per session", of_spread(&profile.turns_per_session)),
        ("pause before a turn, s", of_spread(&profile.think_time_s)),
        ("turns in flight", of_spread(&profile.concurrency)),
    ] {
        row(name, cells, known);
    }
    format!(
        "<div class=\"wide\"><table><tr><th></th><th>p50</th><th>p90</th><th>p99</th><th>max</th>\
         <th>mean</th><th>known</th></tr>\n{rows}</table></div>\n"
    )
}

fn shapes(portrait: &Portrait) -> String {
    let (shape, profile) = (&portrait.shape, &portrait.profile);
    let mut charts = String::new();
    for (title, bins) in [
        ("Turns by prompt tokens", &shape.input_tokens),
        ("Turns by answer tokens", &shape.output_tokens),
        ("Sessions by turns", &shape.turns_per_session),
        ("Pauses inside sessions, s", &shape.think_time_s),
    ] {
        charts.push_str(&bars(title, &bins.iter().map(bin).collect::<Vec<_>>()));
    }
    charts.push_str(&arrivals(portrait));
    let dispersion: Vec<Bar> = profile
        .arrivals
        .dispersion
        .iter()
        .filter_map(|window| {
            Some(Bar {
                label: format!("{} s", window.window_s),
                hint: format!("over {} s: {}", window.window_s, number(window.idc)),
                value: window.idc?,
            })
        })
        .collect();
    charts.push_str(&bars("Dispersion of arrivals (Poisson has 1)", &dispersion));
    let points: Vec<(f64, f64)> = profile
        .prefix
        .curve
        .iter()
        .filter_map(|point| Some((point.capacity_blocks as f64, point.hit_ratio?)))
        .collect();
    charts.push_str(&curve("Prefix hits by cache size, in blocks", &points));
    charts
}

fn bin(bin: &Bin) -> Bar {
    Bar {
        label: short(bin.from),
        hint: format!(
            "{} to {}: {}",
            number(Some(bin.from)),
            number(Some(bin.to)),
            count(bin.count)
        ),
        value: bin.count as f64,
    }
}

fn arrivals(portrait: &Portrait) -> String {
    let shape = &portrait.shape;
    let stretch = shape.arrivals_stretch_s.unwrap_or(0.0);
    let of_stretch = |(at, turns): (usize, &u64)| Bar {
        label: format!("{} s", short((stretch * at as f64).round())),
        hint: format!(
            "from {} s: {} turns",
            number(Some(stretch * at as f64)),
            count(*turns)
        ),
        value: *turns as f64,
    };
    let found: Vec<Bar> = shape.arrivals.iter().enumerate().map(of_stretch).collect();
    let title = format!(
        "Arrivals over time, in stretches of {} s",
        number(Some(stretch))
    );
    bars(&title, &found)
}

fn mix_table(name: &str, list: &std::collections::BTreeMap<String, u64>) -> String {
    let total: u64 = list.values().sum();
    if total == 0 {
        return String::new();
    }
    let (words, others) = commonest(list, NAMED_MAX);
    let rest = (others > 0).then_some(("others", others));
    let rows: String = words
        .into_iter()
        .chain(rest)
        .map(|(word, n)| {
            format!(
                "<tr><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                escape(word),
                count(n),
                percent(Some(n as f64 / total as f64))
            )
        })
        .collect();
    format!(
        "<figure><figcaption>{name}</figcaption><div class=\"wide\"><table>{rows}</table></div></figure>\n"
    )
}
