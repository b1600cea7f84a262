//! Charts of pairs: what was asked for against what came.

use super::chart::{
    self, Framed, HEIGHT, LEFT, Whose, across, band, down, frame, missing, push, svg, upright_tick,
};
use super::scale::{Kind, Scale, digits, short};
use std::collections::BTreeMap;

/// Points that are drawn; of more, every so-manieth is.
const POINTS_MAX: usize = 600;

/// One request.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub(super) wanted: f64,
    pub(super) got: f64,
    /// What is said of it besides.
    pub(super) says: String,
}

/// Pairs of one kind.
#[derive(Clone, Debug)]
pub(super) struct Scatter {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    pub(super) about: String,
    /// What the two values are: the horizontal one first.
    pub(super) names: [&'static str; 2],
    pub(super) pairs: Vec<Pair>,
    pub(super) lacks: Vec<String>,
}

impl Scatter {
    /// Draws the chart, with a table of the pairs by size.
    pub(super) fn figure(&self) -> String {
        // 0 has no logarithm: it lies at the lower edge, with 1.
        let both = self
            .pairs
            .iter()
            .flat_map(|pair| [pair.wanted.max(1.0), pair.got.max(1.0)]);
        let Some(scale) = Scale::over(Kind::Log, both) else {
            return missing(self.id, self.title, &self.lacks);
        };
        let mut inside = self.axes(scale);
        let every = self.pairs.len().div_ceil(POINTS_MAX).max(1);
        let mut drawn: Vec<&Pair> = self.pairs.iter().step_by(every).collect();
        drawn.sort_by(|a, b| a.wanted.total_cmp(&b.wanted));
        for pair in &drawn {
            let (x, y) = (
                across(scale.place(pair.wanted)),
                down(scale.place(pair.got)),
            );
            push(
                &mut inside,
                format_args!(
                    "<circle class=\"dot run faint\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\"/>"
                ),
            );
        }
        inside.push_str(&self.bands(&drawn, scale));
        let about = if every > 1 {
            format!(
                "{} One request in {every} is drawn; the table counts all.",
                self.about
            )
        } else {
            self.about.clone()
        };
        frame(
            &Framed {
                id: self.id,
                title: self.title,
                about: &about,
                lacks: &self.lacks,
            },
            &[
                (Whose::Run, false, "a request".to_owned()),
                (Whose::Wanted, false, "as wanted".to_owned()),
            ],
            &svg(self.title, HEIGHT, &inside),
            &self.table(),
        )
    }

    fn axes(&self, scale: Scale) -> String {
        let mut lines = String::new();
        for tick in scale.ticks() {
            let at = down(scale.place(tick));
            lines.push_str(&chart::level_tick(at, &short(tick)));
            lines.push_str(&upright_tick(across(scale.place(tick)), &short(tick)));
        }
        lines.push_str(&chart::names(self.names[0], self.names[1]));
        push(
            &mut lines,
            format_args!(
                "<line class=\"mark wanted\" x1=\"{LEFT}\" x2=\"{:.0}\" y1=\"{:.1}\" y2=\"{:.1}\"/>",
                across(1.0),
                down(0.0),
                down(1.0)
            ),
        );
        lines
    }

    /// Requests that lie at one place share a band.
    fn bands(&self, drawn: &[&Pair], scale: Scale) -> String {
        let place = |pair: &&Pair| (across(scale.place(pair.wanted)) / chart::BAND_MIN) as i64;
        let mut bands = String::new();
        for near in drawn.chunk_by(|a, b| place(a) == place(b)) {
            let (Some(first), Some(at)) = (near.first(), near.first().map(place)) else {
                continue;
            };
            let mut says = format!(
                "{} {}: {} {}, {}",
                digits(first.wanted),
                self.names[0],
                digits(first.got),
                self.names[1],
                first.says
            );
            if near.len() > 1 {
                push(&mut says, format_args!("; {} more here", near.len() - 1));
            }
            let from = at as f64 * chart::BAND_MIN;
            let middle = across(scale.place(first.wanted));
            bands.push_str(&band(from, from + chart::BAND_MIN, middle, &says));
        }
        bands
    }

    fn table(&self) -> String {
        let mut bins: BTreeMap<u32, Vec<&Pair>> = BTreeMap::new();
        for pair in &self.pairs {
            let power = (pair.wanted.max(0.0) as u64).checked_ilog2();
            bins.entry(power.map_or(0, |power| power + 1))
                .or_default()
                .push(pair);
        }
        let mut rows = format!(
            "<tr><th>{}</th><th>requests</th><th>equal</th><th>less</th><th>more</th><th>sum wanted</th><th>sum got</th></tr>\n",
            self.names[0]
        );
        for (bin, pairs) in &bins {
            let count = |of: fn(&&&Pair) -> bool| pairs.iter().filter(of).count();
            let sum = |of: fn(&&Pair) -> f64| digits(pairs.iter().map(of).sum());
            let from = if *bin == 0 { 0 } else { 1u64 << (bin - 1) };
            push(
                &mut rows,
                format_args!(
                    "<tr><td>{from} to {}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                    (1u64 << (*bin).min(62)) - 1,
                    pairs.len(),
                    count(|pair| pair.got == pair.wanted),
                    count(|pair| pair.got < pair.wanted),
                    count(|pair| pair.got > pair.wanted),
                    sum(|pair| pair.wanted),
                    sum(|pair| pair.got),
                ),
            );
        }
        rows
    }
}
