//! Charts as SVG: no script, no file beside the page, colours from the page.

use super::words::number;
use std::fmt::Write as _;

/// Size of a chart's drawing.
const WIDTH: f64 = 460.0;
/// See [`WIDTH`].
const HEIGHT: f64 = 150.0;

/// Room under the drawing for its labels.
const FOOT: f64 = 18.0;

/// Room left of it.
const SIDE: f64 = 34.0;

/// Labels under a chart at most; more would run into each other.
const LABELS_MAX: usize = 8;

/// One bar.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bar {
    /// What stands under it.
    pub(super) label: String,
    /// What is said when it is pointed at.
    pub(super) hint: String,
    pub(super) value: f64,
}

/// Text as it may stand in a page.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// A chart of bars.
pub(super) fn bars(title: &str, bars: &[Bar]) -> String {
    let most = bars.iter().map(|bar| bar.value).fold(0.0, f64::max);
    if bars.is_empty() {
        return unknown(title);
    }
    // Nothing at all is known too: bars without height.
    let most = if most > 0.0 { most } else { 1.0 };
    let step = WIDTH / bars.len() as f64;
    let mut inside = axis(most);
    let every = bars.len().div_ceil(LABELS_MAX);
    for (at, bar) in bars.iter().enumerate() {
        let height = HEIGHT * bar.value / most;
        let x = SIDE + step * at as f64;
        // Writing to a `String` cannot fail.
        let _infallible = write!(
            inside,
            "<rect class=\"bar\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{height:.1}\"><title>{}</title></rect>",
            HEIGHT - height,
            (step - 1.0).max(0.5),
            escape(&bar.hint),
        );
        if at % every == 0 && !bar.label.is_empty() {
            inside.push_str(&label(x, &bar.label));
        }
    }
    figure(title, &inside)
}

/// A curve over capacities or other magnitudes: the horizontal axis is logarithmic, the vertical
/// one goes from 0 to 1.
pub(super) fn curve(title: &str, points: &[(f64, f64)]) -> String {
    let known: Vec<(f64, f64)> = points.iter().copied().filter(|(x, _)| *x > 0.0).collect();
    let (Some((first, _)), Some((last, _))) = (known.first(), known.last()) else {
        return unknown(title);
    };
    let (low, high) = (first.ln(), last.ln());
    let place = |x: f64| {
        let share = if high > low {
            (x.ln() - low) / (high - low)
        } else {
            0.5
        };
        SIDE + share * (WIDTH - 8.0) + 4.0
    };
    let mut inside = axis(1.0);
    let path: Vec<String> = known
        .iter()
        .map(|(x, y)| format!("{:.1},{:.1}", place(*x), HEIGHT * (1.0 - y.clamp(0.0, 1.0))))
        .collect();
    let _infallible = write!(
        inside,
        "<polyline class=\"line\" points=\"{}\"/>",
        path.join(" ")
    );
    let every = known.len().div_ceil(LABELS_MAX);
    for (at, (x, y)) in known.iter().enumerate() {
        let _infallible = write!(
            inside,
            "<circle class=\"dot\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\"><title>{}: {:.1} %</title></circle>",
            place(*x),
            HEIGHT * (1.0 - y.clamp(0.0, 1.0)),
            number(Some(*x)),
            100.0 * y
        );
        if at % every == 0 {
            inside.push_str(&label(place(*x) - 4.0, &short(*x)));
        }
    }
    figure(title, &inside)
}

/// A number with a letter for its thousands.
pub(super) fn short(value: f64) -> String {
    match value {
        value if value >= 1e9 => format!("{:.0}G", value / 1e9),
        value if value >= 1e6 => format!("{:.0}M", value / 1e6),
        value if value >= 1e4 => format!("{:.0}k", value / 1e3),
        value if value >= 10.0 || value.fract() == 0.0 => format!("{value:.0}"),
        value => format!("{value:.2}"),
    }
}

/// Two lines across, and what they stand for.
fn axis(most: f64) -> String {
    let mut lines = String::new();
    for share in [0.0, 0.5, 1.0] {
        let y = HEIGHT * (1.0 - share);
        let _infallible = write!(
            lines,
            "<line class=\"grid\" x1=\"{SIDE}\" x2=\"{:.0}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/><text class=\"tick\" x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            SIDE + WIDTH,
            SIDE - 4.0,
            (y + 4.0).max(8.0),
            short(most * share)
        );
    }
    lines
}

fn label(x: f64, text: &str) -> String {
    let y = HEIGHT + FOOT - 4.0;
    format!(
        "<text class=\"tick\" x=\"{x:.1}\" y=\"{y:.0}\">{}</text>",
        escape(text)
    )
}

fn figure(title: &str, inside: &str) -> String {
    let title = escape(title);
    format!(
        "<figure><figcaption>{title}</figcaption><svg viewBox=\"0 -4 {:.0} {:.0}\" role=\"img\" aria-label=\"{title}\">{inside}</svg></figure>\n",
        SIDE + WIDTH,
        HEIGHT + FOOT + 4.0
    )
}

fn unknown(title: &str) -> String {
    let title = escape(title);
    format!("<figure><figcaption>{title}</figcaption><p class=\"unknown\">unknown</p></figure>\n")
}

#[cfg(test)]
mod tests {
    use super::{Bar, bars, curve, escape, short};

    #[test]
    fn nothing_of_a_text_becomes_markup() {
        assert_eq!(
            escape("<a href='x'>&\""),
            "&lt;a href=&#39;x&#39;&gt;&amp;&quot;"
        );
        let bar = Bar {
            label: "<b>".to_owned(),
            hint: "</title><script>".to_owned(),
            value: 1.0,
        };
        let chart = bars("</svg>", &[bar]);
        assert!(
            !chart.contains("<script>") && !chart.contains("<b>"),
            "{chart}"
        );
    }

    #[test]
    fn the_highest_bar_fills_the_chart_and_nothing_known_is_said() {
        let bar = |value| Bar {
            label: String::new(),
            hint: String::new(),
            value,
        };
        let chart = bars("t", &[bar(1.0), bar(4.0)]);
        assert!(
            chart.contains("height=\"150.0\"") && chart.contains("height=\"37.5\""),
            "{chart}"
        );
        assert!(bars("t", &[]).contains("unknown"));
        assert!(curve("t", &[(0.0, 1.0)]).contains("unknown"));
    }

    #[test]
    fn numbers_are_short() {
        let shown = [0.25, 1.0, 512.0, 131_072.0, 2.5e6, 3e9].map(short);
        assert_eq!(shown, ["0.25", "1", "512", "131k", "2M", "3G"]);
    }
}
