//! Charts, with the numbers behind them and with read-outs.
//!
//! A chart is drawn from the very numbers of its table. Each place on its horizontal axis is a band
//! that says its values when it is pointed at (`<title>`, which needs no script) or reached with
//! the arrow keys (`read_outs.js`).

use super::super::svg::escape;
use super::scale::{Kind, Scale, digits, short};
use std::fmt::Write as _;

/// The drawing, and the room around it for labels.
pub(super) const WIDTH: f64 = 480.0;
/// See [`WIDTH`].
pub(super) const HEIGHT: f64 = 250.0;
/// See [`WIDTH`].
pub(super) const LEFT: f64 = 46.0;
pub(super) const RIGHT: f64 = 12.0;
pub(super) const TOP: f64 = 20.0;
pub(super) const FOOT: f64 = 34.0;

/// Width of the narrowest band that can be pointed at.
pub(super) const BAND_MIN: f64 = 4.0;

/// A logarithmic axis of values reaches from the highest down to this part of it: five decades.
const DECADES: f64 = 1e5;

/// Whose numbers a series has; the same everywhere on the page, in colour and in dashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    Production,
    Set,
    Run,
    /// What the set or the run should come to.
    Wanted,
}

impl Whose {
    pub(super) fn class(self) -> &'static str {
        match self {
            Self::Production => "production",
            Self::Set => "set",
            Self::Run => "run",
            Self::Wanted => "wanted",
        }
    }
}

/// A direction of a chart.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// Values are shares and shown as percentages.
    pub(super) percent: bool,
}

impl Axis {
    pub(super) fn new(name: &'static str, kind: Kind) -> Self {
        Self {
            name,
            kind,
            percent: false,
        }
    }

    pub(super) fn percent(name: &'static str, kind: Kind) -> Self {
        Self {
            percent: true,
            ..Self::new(name, kind)
        }
    }

    /// A value in a table and in a read-out.
    fn says(&self, value: f64) -> String {
        match (self.kind, self.percent) {
            (Kind::Nines, _) => format!("p{}", digits((value * 1e5).round() / 1e3)),
            (_, true) => format!("{} %", digits((value * 1e5).round() / 1e3)),
            (_, false) => digits(value),
        }
    }

    fn tick(&self, value: f64) -> String {
        match (self.kind, self.percent) {
            (Kind::Nines, _) => self.says(value),
            (_, true) => format!("{} %", short((value * 1e5).round() / 1e3)),
            (_, false) => short(value),
        }
    }
}

/// Values over the grid of a chart.
#[derive(Clone, Debug)]
pub(super) struct Series {
    pub(super) name: String,
    pub(super) whose: Whose,
    /// One for each place of the grid; what is not known there is none.
    pub(super) values: Vec<Option<f64>>,
    /// Few places are known: they are marked, and the line between them is a guide for the eye.
    pub(super) dots: bool,
    /// The second of two series of the same, as on another clock: it is drawn thin.
    pub(super) thin: bool,
}

impl Series {
    pub(super) fn new(name: &str, whose: Whose, values: Vec<Option<f64>>) -> Self {
        Self {
            name: name.to_owned(),
            whose,
            values,
            dots: false,
            thin: false,
        }
    }

    pub(super) fn dots(self) -> Self {
        Self { dots: true, ..self }
    }

    pub(super) fn thin(self) -> Self {
        Self { thin: true, ..self }
    }

    fn is_known(&self) -> bool {
        self.values.iter().any(Option::is_some)
    }
}

/// A line across a chart that means something; the legend says what, where nothing is in its way.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    pub(super) at: f64,
    pub(super) says: String,
    pub(super) whose: Whose,
}

/// Lines over a grid.
#[derive(Clone, Debug)]
pub(super) struct Lines {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    /// What to see in it; markup of ours, no text of others.
    pub(super) about: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) grid: Vec<f64>,
    pub(super) series: Vec<Series>,
    /// Upright lines.
    pub(super) at_x: Vec<Mark>,
    /// Level lines.
    pub(super) at_y: Vec<Mark>,
    /// What is not in the chart, and why.
    pub(super) lacks: Vec<String>,
}

impl Lines {
    /// Draws the chart with its legend, read-out and table; says by name when it has no data.
    pub(super) fn figure(&self) -> String {
        self.known_places().drawn()
    }

    /// The same over the places where anything is known: the others would be empty rows.
    fn known_places(&self) -> Self {
        let known = |at: usize| {
            let mut values = self.series.iter().map(|series| series.values.get(at));
            values.any(|value| value.is_some_and(Option::is_some))
        };
        let kept: Vec<usize> = (0..self.grid.len()).filter(|at| known(*at)).collect();
        let mut trimmed = self.clone();
        trimmed.grid = kept
            .iter()
            .filter_map(|at| self.grid.get(*at).copied())
            .collect();
        for series in &mut trimmed.series {
            let value = |at: &usize| series.values.get(*at).copied().flatten();
            series.values = kept.iter().map(value).collect();
        }
        trimmed
    }

    fn drawn(&self) -> String {
        let known: Vec<&Series> = self.series.iter().filter(|s| s.is_known()).collect();
        let marks = self.at_x.iter().map(|mark| mark.at);
        let x = Scale::over(self.x.kind, self.grid.iter().copied().chain(marks));
        let levels = self.at_y.iter().map(|mark| mark.at);
        let values = known
            .iter()
            .flat_map(|s| s.values.iter().flatten().copied());
        let y = Scale::over(self.y.kind, values.chain(levels)).map(|y| match self.y.kind {
            Kind::Log => y.at_most(DECADES),
            Kind::Linear | Kind::Nines => y.with_zero(),
        });
        let (Some(x), Some(y), false) = (x, y, known.is_empty()) else {
            return missing(self.id, self.title, &self.lacks);
        };
        let mut inside = self.axes(x, y);
        for series in &known {
            inside.push_str(&self.line(series, x, y));
        }
        inside.push_str(&self.marks(x, y));
        inside.push_str(&self.bands(&known, x));
        let of_series = known.iter().map(|s| (s.whose, s.thin, s.name.clone()));
        let of_marks = [(&self.at_x, &self.x), (&self.at_y, &self.y)];
        let of_marks = of_marks.into_iter().flat_map(|(marks, axis)| {
            let key = |mark: &Mark| {
                (
                    mark.whose,
                    false,
                    format!("{}: {}", mark.says, axis.says(mark.at)),
                )
            };
            marks.iter().map(key)
        });
        let legend: Vec<(Whose, bool, String)> = of_series.chain(of_marks).collect();
        frame(
            &Framed {
                id: self.id,
                title: self.title,
                about: &self.about,
                lacks: &self.lacks,
            },
            &legend,
            &svg(self.title, HEIGHT, &inside),
            &self.table(&known),
        )
    }

    fn axes(&self, x: Scale, y: Scale) -> String {
        let mut lines = String::new();
        for tick in y.ticks() {
            let at = down(y.place(tick));
            lines.push_str(&level_tick(at, &self.y.tick(tick)));
        }
        for tick in x.ticks() {
            lines.push_str(&upright_tick(across(x.place(tick)), &self.x.tick(tick)));
        }
        lines.push_str(&names(self.x.name, self.y.name));
        lines
    }

    fn line(&self, series: &Series, x: Scale, y: Scale) -> String {
        let places: Vec<(f64, f64)> = self
            .grid
            .iter()
            .zip(&series.values)
            .filter_map(|(at, value)| Some((*at, (*value).filter(|v| v.is_finite())?)))
            .map(|(at, value)| (across(x.place(at)), down(y.place(value))))
            .collect();
        let points: Vec<String> = places
            .iter()
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect();
        let class = series.whose.class();
        let thin = if series.thin { " thin" } else { "" };
        let mut line = format!(
            "<polyline class=\"line {class}{thin}\" points=\"{}\"/>",
            points.join(" ")
        );
        if series.dots || places.len() == 1 {
            for (x, y) in places {
                push(
                    &mut line,
                    format_args!(
                        "<circle class=\"dot {class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"/>"
                    ),
                );
            }
        }
        line
    }

    fn marks(&self, x: Scale, y: Scale) -> String {
        let mut lines = String::new();
        for mark in &self.at_x {
            let at = across(x.place(mark.at));
            push(
                &mut lines,
                format_args!(
                    "<line class=\"mark {}\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{:.0}\"/>",
                    mark.whose.class(),
                    HEIGHT - FOOT,
                ),
            );
        }
        for mark in &self.at_y {
            let at = down(y.place(mark.at));
            push(
                &mut lines,
                format_args!(
                    "<line class=\"mark {}\" x1=\"{LEFT}\" x2=\"{:.0}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>",
                    mark.whose.class(),
                    WIDTH - RIGHT,
                ),
            );
        }
        lines
    }

    /// One band for each place of the grid, from half the way to its neighbours.
    fn bands(&self, known: &[&Series], x: Scale) -> String {
        let at: Vec<f64> = self.grid.iter().map(|at| across(x.place(*at))).collect();
        let mut bands = String::new();
        for (index, (place, value)) in at.iter().zip(&self.grid).enumerate() {
            let before = index.checked_sub(1).and_then(|i| at.get(i));
            let after = at.get(index + 1);
            let from = before.map_or(LEFT, |before| f64::midpoint(*before, *place));
            let to = after.map_or(WIDTH - RIGHT, |after| f64::midpoint(*place, *after));
            let values: Vec<String> = known
                .iter()
                .filter_map(|s| {
                    let value = s.values.get(index).copied().flatten()?;
                    Some(format!("{} {}", s.name, self.y.says(value)))
                })
                .collect();
            let says = format!(
                "{} {}: {}",
                self.x.says(*value),
                self.x.name,
                values.join(", ")
            );
            bands.push_str(&band(from, to, *place, &says));
        }
        bands
    }

    fn table(&self, known: &[&Series]) -> String {
        let head: String = known
            .iter()
            .map(|series| format!("<th>{}</th>", escape(&series.name)))
            .collect();
        let mut rows = format!("<tr><th>{}</th>{head}</tr>", escape(self.x.name));
        for (index, at) in self.grid.iter().enumerate() {
            let cells: String = known
                .iter()
                .map(|series| {
                    let value = series.values.get(index).copied().flatten();
                    let cell = value.map_or_else(String::new, |value| self.y.says(value));
                    format!("<td>{cell}</td>")
                })
                .collect();
            push(
                &mut rows,
                format_args!("<tr><td>{}</td>{cells}</tr>\n", self.x.says(*at)),
            );
        }
        rows
    }
}

/// What stands around a drawing.
pub(super) struct Framed<'a> {
    pub(super) id: &'static str,
    pub(super) title: &'a str,
    pub(super) about: &'a str,
    pub(super) lacks: &'a [String],
}

/// A drawing with its title, its legend, its read-out, and its numbers folded below it.
pub(super) fn frame(
    framed: &Framed<'_>,
    legend: &[(Whose, bool, String)],
    drawing: &str,
    rows: &str,
) -> String {
    let keys: String = legend
        .iter()
        .map(|(whose, thin, name)| {
            let thin = if *thin { " thin" } else { "" };
            format!(
                "<span class=\"key\"><svg class=\"sample\" viewBox=\"0 0 22 8\" aria-hidden=\"true\"><line class=\"line {}{thin}\" x1=\"0\" x2=\"22\" y1=\"4\" y2=\"4\"/></svg>{}</span>",
                whose.class(),
                escape(name)
            )
        })
        .collect();
    let lacks: String = framed
        .lacks
        .iter()
        .map(|lack| format!("<p class=\"soft\">unknown: {}</p>", escape(lack)))
        .collect();
    format!(
        "<figure id=\"{id}\"><figcaption>{title}</figcaption><p class=\"soft\">{about}</p>\
         <p class=\"legend\">{keys}</p>{drawing}<output class=\"said\" aria-live=\"polite\"></output>{lacks}\
         <details><summary>Numbers</summary><div class=\"wide\" tabindex=\"0\"><table class=\"numbers\">\n{rows}</table></div></details></figure>\n",
        id = framed.id,
        title = escape(framed.title),
        about = framed.about,
    )
}

/// A chart without its data, by name.
pub(super) fn missing(id: &str, title: &str, lacks: &[String]) -> String {
    let why = if lacks.is_empty() {
        "the run has no such data".to_owned()
    } else {
        lacks.join("; ")
    };
    format!(
        "<figure id=\"{id}\" class=\"missing\"><figcaption>{}</figcaption><p class=\"soft\">No chart. Unknown: {}.</p></figure>\n",
        escape(title),
        escape(&why)
    )
}

/// A drawing that can be reached with the keyboard.
pub(super) fn svg(title: &str, height: f64, inside: &str) -> String {
    format!(
        "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {height:.0}\" tabindex=\"0\" role=\"img\" aria-label=\"{}; arrow keys read values\">{inside}</svg>",
        escape(title)
    )
}

/// A place that says its values; `at` is where the script puts its cursor.
pub(super) fn band(from: f64, to: f64, at: f64, says: &str) -> String {
    format!(
        "<rect class=\"hit\" data-x=\"{at:.1}\" x=\"{from:.1}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{:.0}\"><title>{}</title></rect>",
        (to - from).max(0.5),
        HEIGHT - FOOT - TOP,
        escape(says)
    )
}

/// A label under the drawing.
pub(super) fn upright_tick(at: f64, text: &str) -> String {
    upright_tick_at(at, HEIGHT - FOOT, text)
}

/// The same for a drawing that ends elsewhere.
pub(super) fn upright_tick_at(at: f64, foot: f64, text: &str) -> String {
    format!(
        "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{foot:.0}\" y2=\"{:.0}\"/><text class=\"tick\" x=\"{at:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{}</text>",
        foot + 4.0,
        foot + 16.0,
        escape(text)
    )
}

/// A line across, and what it stands for.
pub(super) fn level_tick(at: f64, text: &str) -> String {
    format!(
        "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.0}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/><text class=\"tick\" x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
        WIDTH - RIGHT,
        LEFT - 5.0,
        at + 4.0,
        escape(text)
    )
}

/// The names of both axes.
pub(super) fn names(x: &str, y: &str) -> String {
    names_at(y, x, HEIGHT)
}

/// The same for a drawing of another height.
pub(super) fn names_at(y: &str, x: &str, height: f64) -> String {
    format!(
        "<text class=\"tick axis\" x=\"0\" y=\"11\">{}</text><text class=\"tick axis\" x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\">{}</text>",
        escape(y),
        WIDTH - RIGHT,
        height - 3.0,
        escape(x)
    )
}

/// From a share of the width to a place in the drawing.
pub(super) fn across(share: f64) -> f64 {
    LEFT + share * (WIDTH - LEFT - RIGHT)
}

/// From a share of the height to a place in the drawing.
pub(super) fn down(share: f64) -> f64 {
    HEIGHT - FOOT - share * (HEIGHT - FOOT - TOP)
}

/// Appends to a text.
pub(super) fn push(text: &mut String, what: std::fmt::Arguments<'_>) {
    // Writing to a `String` cannot fail.
    let written = text.write_fmt(what);
    debug_assert!(written.is_ok());
}
