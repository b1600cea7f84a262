//! A portrait on a terminal: what the profile says, with the shape of its distributions.

use super::words::{count, number, percent};
use super::{plot, profile};
use crate::profile::portrait::{Bin, Mix, Portrait};
use std::collections::BTreeMap;

/// Models, upstreams and the like that are named; the others are counted.
const NAMED_MAX: usize = 6;

/// Renders a portrait.
pub(super) fn terminal(portrait: &Portrait) -> String {
    let mut text = profile::terminal(&portrait.profile);
    text.push_str("\nshapes\n");
    let shape = &portrait.shape;
    for (name, bins) in [
        ("prompt tokens", &shape.input_tokens),
        ("answer tokens", &shape.output_tokens),
        ("turns per session", &shape.turns_per_session),
        ("pause before a turn, s", &shape.think_time_s),
    ] {
        text.push_str(&histogram(name, bins));
    }
    if let Some(stretch) = shape.arrivals_stretch_s {
        let most = shape.arrivals.iter().max().copied().unwrap_or(0);
        text.push_str(&format!(
            "  {:<24}{}\n  {:<24}each mark {} s, the highest {} turns\n",
            "arrivals over time",
            plot::spark(&shape.arrivals),
            "",
            number(Some(stretch)),
            count(most)
        ));
    }
    text.push_str("\nmix\n");
    for (name, list) in lists(&portrait.mix) {
        text.push_str(&mix_line(name, list));
    }
    text
}

/// The lists of a mix with their names.
pub(super) fn lists(mix: &Mix) -> [(&'static str, &BTreeMap<String, u64>); 6] {
    [
        ("models", &mix.models),
        ("dialects", &mix.dialects),
        ("outcomes", &mix.outcomes),
        ("statuses", &mix.statuses),
        ("finish reasons", &mix.finish_reasons),
        ("upstreams", &mix.upstreams),
    ]
}

/// The words of a list, the commonest first, and how many turns the others have.
pub(super) fn commonest(list: &BTreeMap<String, u64>, named: usize) -> (Vec<(&str, u64)>, u64) {
    let mut words: Vec<(&str, u64)> = list.iter().map(|(word, n)| (word.as_str(), *n)).collect();
    words.sort_by_key(|(word, n)| (std::cmp::Reverse(*n), *word));
    let others = words.iter().skip(named).map(|(_, n)| n).sum();
    words.truncate(named);
    (words, others)
}

fn histogram(name: &str, bins: &[Bin]) -> String {
    let (Some(first), Some(last)) = (bins.first(), bins.last()) else {
        return format!("  {name:<24}unknown\n");
    };
    let counts: Vec<u64> = bins.iter().map(|bin| bin.count).collect();
    format!(
        "  {name:<24}{} {} {}, doubling\n",
        number(Some(first.from)),
        plot::spark(&counts),
        number(Some(last.to))
    )
}

fn mix_line(name: &str, list: &BTreeMap<String, u64>) -> String {
    let total: u64 = list.values().sum();
    if total == 0 {
        return String::new();
    }
    let share = |n: u64| percent(Some(n as f64 / total as f64));
    let (words, others) = commonest(list, NAMED_MAX);
    let mut items: Vec<String> = words
        .iter()
        .map(|(word, n)| format!("{} {}", printable(word), share(*n)))
        .collect();
    if others > 0 {
        items.push(format!("others {}", share(others)));
    }
    format!("  {name:<24}{}\n", items.join(", "))
}

/// A word of a client's, without what would move a terminal's cursor.
fn printable(word: &str) -> String {
    word.chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{commonest, mix_line, terminal};
    use crate::profile::portrait::Portrait;
    use std::collections::BTreeMap;

    fn list(words: &[(&str, u64)]) -> BTreeMap<String, u64> {
        words
            .iter()
            .map(|(word, n)| ((*word).to_owned(), *n))
            .collect()
    }

    #[test]
    fn the_commonest_come_first_and_the_others_are_counted() {
        let all = list(&[("a", 1), ("b", 5), ("c", 5), ("d", 2)]);
        assert_eq!(commonest(&all, 2), (vec![("b", 5), ("c", 5)], 3));
        assert_eq!(mix_line("models", &list(&[])), "");
    }

    #[test]
    fn a_clients_word_moves_no_cursor() {
        let line = mix_line("models", &list(&[("\u{1b}[2Jevil\n", 1)]));
        assert_eq!(line.matches('\n').count(), 1);
        assert!(!line.contains('\u{1b}'), "{line}");
    }

    #[test]
    fn what_is_not_known_is_said() {
        let text = terminal(&Portrait::default());
        assert!(text.contains("prompt tokens           unknown"), "{text}");
    }
}
