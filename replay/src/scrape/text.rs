//! Prometheus' text format, as far as every server writes it.

use std::collections::HashMap;

/// One sample.
#[derive(Clone, Debug, PartialEq)]
pub struct Scraped {
    /// Its name, as in `vllm:num_requests_running`.
    pub name: String,
    /// Its labels as they were written, without the braces.
    pub labels: String,
    /// `counter`, `gauge`, `histogram`, `summary` or `unknown`.
    pub kind: &'static str,
    /// Its value.
    pub value: f64,
}

/// Endings by which a sample differs from the name of its family.
const ENDINGS: [&str; 5] = ["_total", "_bucket", "_sum", "_count", "_created"];

/// Reads samples. A line that is none, or whose value is no number, is left out.
pub fn parse(text: &str) -> Vec<Scraped> {
    let mut kinds: HashMap<&str, &'static str> = HashMap::new();
    let mut samples = Vec::new();
    for line in text.lines() {
        let line = line.trim();
        if let Some(comment) = line.strip_prefix('#') {
            let mut words = comment.split_whitespace();
            if let (Some("TYPE"), Some(name), Some(kind)) =
                (words.next(), words.next(), words.next())
            {
                kinds.insert(name, known(kind));
            }
            continue;
        }
        samples.extend(sample(line, &kinds));
    }
    samples
}

fn sample(line: &str, kinds: &HashMap<&str, &'static str>) -> Option<Scraped> {
    let name_end = line.find(|c: char| c == '{' || c.is_whitespace())?;
    let (name, rest) = line.split_at(name_end);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(inside) => {
            let end = labels_end(inside)?;
            let (labels, rest) = inside.split_at(end);
            (labels.trim().trim_end_matches(','), rest.get(1..)?)
        }
        None => ("", rest),
    };
    // A time and an exemplar may follow.
    let value: f64 = rest.split_whitespace().next()?.parse().ok()?;
    if name.is_empty() || value.is_nan() {
        return None;
    }
    let family = ENDINGS.iter().find_map(|ending| name.strip_suffix(ending));
    let kind = kinds.get(name).or_else(|| kinds.get(family?));
    Some(Scraped {
        name: name.to_owned(),
        labels: labels.to_owned(),
        kind: kind.copied().unwrap_or("unknown"),
        value,
    })
}

/// The closing brace; one inside a value is none.
fn labels_end(inside: &str) -> Option<usize> {
    let (mut quoted, mut escaped) = (false, false);
    for (at, byte) in inside.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'}' if !quoted => return Some(at),
            _ => {}
        }
    }
    None
}

fn known(kind: &str) -> &'static str {
    ["counter", "gauge", "histogram", "summary"]
        .into_iter()
        .find(|known| *known == kind)
        .unwrap_or("unknown")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Vec<(String, String, &'static str, f64)> {
        let samples = parse(text).into_iter();
        samples
            .map(|s| (s.name, s.labels, s.kind, s.value))
            .collect()
    }

    #[test]
    fn samples_are_read_with_their_labels_and_kinds() {
        let text = "# HELP vllm:x Text with a # and {.\n# TYPE vllm:x counter\n\
                    vllm:x_total{engine=\"0\",model_name=\"a\\\"}b\"} 12 1700000000000\n\
                    # TYPE h histogram\nh_bucket{le=\"+Inf\",} 3 # {trace=\"1\"} 0.5\nh_sum 1.5e3\n\
                    # TYPE g gauge\n  g   +Inf\nodd{ 1\nno value\nn NaN\nplain 7\n";
        let row = |name: &str, labels: &str, kind, value| {
            (name.to_owned(), labels.to_owned(), kind, value)
        };
        assert_eq!(
            read(text),
            [
                row(
                    "vllm:x_total",
                    "engine=\"0\",model_name=\"a\\\"}b\"",
                    "counter",
                    12.0
                ),
                row("h_bucket", "le=\"+Inf\"", "histogram", 3.0),
                row("h_sum", "", "histogram", 1_500.0),
                row("g", "", "gauge", f64::INFINITY),
                row("plain", "", "unknown", 7.0),
            ]
        );
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_reader(text in "[a-z:_{}\"\\\\=,# 0-9.\n]{0,200}") {
            for sample in parse(&text) {
                prop_assert!(!sample.name.is_empty() && !sample.value.is_nan());
            }
        }
    }
}
