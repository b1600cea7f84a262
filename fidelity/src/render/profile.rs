//! A profile on a terminal.

use super::plot;
use super::words::{NOTHING, count, number, percent};
use crate::profile::{Lengths, Profile, Spread};

/// Renders a profile.
pub(super) fn terminal(profile: &Profile) -> String {
    let mut lines = vec![headline(profile), String::new()];
    lines.extend(distributions(profile));
    lines.push(String::new());
    lines.extend(prefix(profile));
    lines.push(String::new());
    lines.extend(arrivals(profile));
    let mut text: String = lines
        .iter()
        .map(|line| line.trim_end())
        .collect::<Vec<_>>()
        .join("\n");
    text.push('\n');
    text
}

fn headline(profile: &Profile) -> String {
    let arrivals = &profile.arrivals;
    format!(
        "{} turns in {} sessions over {} s, {} turns/s",
        count(profile.turns),
        count(profile.sessions),
        number(arrivals.span_s),
        number(arrivals.rate_per_s),
    )
}

fn distributions(profile: &Profile) -> Vec<String> {
    let head = ["p50", "p90", "p99", "max", "mean"].map(str::to_owned);
    let mut lines = vec![row("", &head, "")];
    lines.push(lengths("prompt tokens", &profile.input_tokens));
    lines.push(lengths("answer tokens", &profile.output_tokens));
    lines.push(spread("turns per session", &profile.turns_per_session));
    lines.push(spread("pause before a turn, s", &profile.think_time_s));
    lines.push(spread("turns in flight", &profile.concurrency));
    lines.push(format!(
        "  {:<24}{}",
        "by token, prompts",
        weighted(&profile.input_tokens)
    ));
    lines.push(format!(
        "  {:<24}{}",
        "by token, answers",
        weighted(&profile.output_tokens)
    ));
    if let Some(share) = profile.cached_tokens.share {
        let text = format!("{} of the prompt tokens, as reported", percent(Some(share)));
        lines.push(format!("  {:<24}{text}", "cached in production"));
    }
    lines
}

fn row(name: &str, cells: &[String; 5], rest: &str) -> String {
    let cells: String = cells.iter().map(|cell| format!("{cell:>11}")).collect();
    format!("  {name:<24}{cells}  {rest}")
}

fn lengths(name: &str, lengths: &Lengths) -> String {
    let cells = [
        lengths.p50,
        lengths.p90,
        lengths.p99,
        lengths.max,
        lengths.mean,
    ]
    .map(number);
    let unknown = match lengths.unknown {
        0 => String::new(),
        unknown => format!(", {} unknown", count(unknown)),
    };
    row(
        name,
        &cells,
        &format!("sum {}{unknown}", count(lengths.sum)),
    )
}

fn spread(name: &str, spread: &Spread) -> String {
    let cells = [spread.p50, spread.p90, spread.p99, spread.max, spread.mean].map(number);
    row(name, &cells, if spread.known == 0 { "unknown" } else { "" })
}

fn weighted(lengths: &Lengths) -> String {
    format!(
        "half of the tokens sit in lengths up to {}, 90 % up to {}; the longest tenth holds {}",
        number(lengths.p50_token_weighted),
        number(lengths.p90_token_weighted),
        percent(lengths.top10_share),
    )
}

fn prefix(profile: &Profile) -> Vec<String> {
    let prefix = &profile.prefix;
    if prefix.refs == 0 {
        return vec!["prefix reuse: unknown, no block hashes".to_owned()];
    }
    let block = prefix
        .block_tokens
        .map_or_else(|| NOTHING.to_owned(), |tokens| tokens.to_string());
    let mut lines = vec![format!(
        "prefix reuse in blocks of {block} tokens: {} of {} blocks, {} distinct",
        percent(prefix.infinite_hit_ratio),
        count(prefix.refs),
        count(prefix.unique),
    )];
    for (name, share) in [
        ("inside sessions", prefix.intra_session_ratio),
        ("hot blocks", prefix.hot_ratio),
        ("across sessions", prefix.cross_session_ratio),
    ] {
        lines.push(bar_line(name, share));
    }
    for point in &prefix.curve {
        let name = format!("cache of {} blocks", count(point.capacity_blocks));
        lines.push(bar_line(&name, point.hit_ratio));
    }
    lines
}

fn bar_line(name: &str, share: Option<f64>) -> String {
    format!(
        "  {name:<24}{:>11}  {}",
        percent(share),
        plot::bar(share.unwrap_or(0.0))
    )
}

fn arrivals(profile: &Profile) -> Vec<String> {
    let arrivals = &profile.arrivals;
    let clock = match (
        arrivals.clock_resolution_us,
        arrivals.clock_resolution_inferred,
    ) {
        (Some(us), inferred) => {
            let how = if inferred { "as it seems" } else { "as stated" };
            format!(
                "; the clock steps by {} ms, {how}",
                number(Some(us as f64 / 1_000.0))
            )
        }
        (None, _) => String::new(),
    };
    let mut lines = vec![format!(
        "arrivals: dispersion (Poisson has 1) and peak to mean{clock}"
    )];
    let max = arrivals
        .dispersion
        .iter()
        .filter_map(|window| window.idc)
        .fold(1.0, f64::max);
    for window in &arrivals.dispersion {
        let name = format!("over {} s", window.window_s);
        lines.push(match (window.idc, &window.unknown) {
            (Some(idc), _) => format!(
                "  {name:<24}{:>11}{:>11}  {}",
                number(Some(idc)),
                number(window.peak_to_mean),
                plot::log_bar(idc, max),
            ),
            (None, why) => {
                format!(
                    "  {name:<24}{:>11}  {}",
                    "unknown",
                    why.as_deref().unwrap_or_default()
                )
            }
        });
    }
    lines
}
