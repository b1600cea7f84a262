//! Every dimension, and how near the set's own search came.

use super::super::svg::escape;
use super::super::words;
use super::Evidence;
use super::head::{direction, verdict};
use super::scale::digits;
use truetape_schemas::report::Dimension;
use truetape_schemas::set::manifest::Selection;

/// Renders the dimensions of each level, failures first.
pub(super) fn section(evidence: &Evidence<'_>) -> String {
    let mut text = String::from("<section id=\"dimensions\"><h2>Dimensions</h2>\n");
    for level in words::LEVELS {
        let of_level = words::of_level(evidence.report, level);
        if !of_level.is_empty() {
            text.push_str(&table(words::level(level), &of_level));
        }
    }
    let selection = evidence.set.and_then(|set| set.manifest.selection.as_ref());
    if let Some(selection) = selection.filter(|chosen| !chosen.residuals.is_empty()) {
        text.push_str(&floor(selection));
    }
    text.push_str("</section>\n");
    text
}

fn table(heading: &str, dimensions: &[&Dimension]) -> String {
    let rows: String = dimensions.iter().map(|dimension| row(dimension)).collect();
    format!(
        "<h3>{heading}</h3>\n<div class=\"wide\" tabindex=\"0\"><table class=\"dimensions\"><thead><tr><th>Dimension</th><th>Value</th>\
         <th>Target</th><th>Deviation</th><th>Tolerance</th><th>Verdict</th><th>Direction</th></tr></thead>\
         <tbody>\n{rows}</tbody></table></div>\n"
    )
}

fn row(dimension: &Dimension) -> String {
    let note = dimension.note.as_deref().map_or_else(String::new, |note| {
        format!("<br><span class=\"soft\">{}</span>", escape(note))
    });
    let cell = |name: &str, text: &str| format!("<td data-name=\"{name}\">{text}</td>");
    let name = format!(
        "<code>{}</code> {}{note}",
        escape(&dimension.id),
        escape(&dimension.title)
    );
    let cells = [
        format!("<td class=\"name\">{name}</td>"),
        cell("value", &escape(&words::value(dimension, dimension.value))),
        cell(
            "target",
            &escape(&words::value(dimension, dimension.target)),
        ),
        cell("deviation", &escape(&words::deviation(dimension))),
        cell("tolerance", &escape(&words::tolerance(dimension))),
        cell("verdict", &verdict(dimension.verdict)),
        cell("direction", &direction(dimension.direction)),
    ];
    format!(
        "<tr class=\"{}\">{}</tr>\n",
        dimension.verdict.name().to_lowercase(),
        cells.concat()
    )
}

/// What the search for the set's sessions reached: a set of this size comes no nearer by that search.
fn floor(selection: &Selection) -> String {
    let rows: String = selection
        .residuals
        .iter()
        .map(|residual| {
            format!(
                "<tr><td>{} {}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                escape(&residual.group),
                escape(&residual.name),
                digits(residual.wanted),
                digits(residual.got),
                digits(residual.error),
                if residual.held_out {
                    "held out"
                } else {
                    "searched"
                }
            )
        })
        .collect();
    format!(
        "<h3>Feasible floor</h3>\n<p class=\"soft\">What the search for the set's sessions reached ({} of {} {}s, {} \
         of the tokens where {} was asked for): at this budget no dimension that rests on these sums comes nearer by \
         it.</p>\n<details><summary>{} sums</summary><div class=\"wide\" tabindex=\"0\"><table class=\"numbers\"><tr><th>sum</th><th>wanted</th>\
         <th>got</th><th>error</th><th></th></tr>\n{rows}</table></div></details>\n",
        selection.units_taken,
        selection.units,
        escape(&selection.unit),
        words::percent(Some(selection.share_got)),
        words::percent(Some(selection.share)),
        selection.residuals.len(),
    )
}
