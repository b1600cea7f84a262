//! Made-up prompts to be tokenised, the same for the same seed: words of which few are common and
//! many are rare, sentences, code, numbers, and scripts of several bytes a letter.

use crate::traffic::Random;

/// Different words.
const WORDS: u64 = 40_000;

/// Syllables that words are made of.
#[rustfmt::skip]
const SYLLABLES: [&str; 48] = [
    "an", "ber", "ca", "con", "de", "dis", "el", "en", "er", "fa", "for", "ga", "ger", "hi", "ic",
    "in", "ing", "is", "ki", "la", "le", "ly", "ma", "men", "mo", "na", "ness", "no", "o", "on",
    "or", "pa", "per", "pre", "ra", "re", "ro", "sa", "ser", "sta", "ta", "ter", "ti", "tion", "to",
    "un", "va", "ver",
];

/// Letters beyond ASCII.
const LETTERS: [&str; 12] = [
    "é", "ß", "ž", "д", "и", "中", "文", "字", "の", "안", "م", "😀",
];

/// One prompt of about so many bytes.
pub(crate) fn prompt(seed: u64, number: u64, bytes: usize) -> String {
    let mut random = Random::new(seed, number);
    let mut text = String::with_capacity(bytes + 256);
    while text.len() < bytes {
        match random.below(8) {
            0 => code(&mut random, &mut text),
            1 => figures(&mut random, &mut text),
            2 if random.below(4) == 0 => letters(&mut random, &mut text),
            _ => sentence(&mut random, &mut text),
        }
    }
    text
}

/// A word, the lower its rank the more often: ranks are even in their logarithm.
fn word(random: &mut Random, text: &mut String) {
    let rank = (WORDS as f64).powf(random.unit()) as u64;
    let mut letters = Random::new(0x574F_5244, rank);
    for _ in 0..=rank.ilog2() / 4 {
        text.push_str(SYLLABLES[letters.below(SYLLABLES.len() as u64) as usize]);
    }
}

fn sentence(random: &mut Random, text: &mut String) {
    let words = 4 + random.below(18);
    for at in 0..words {
        word(random, text);
        let is_pause = random.below(9) == 0 && at + 1 < words;
        text.push_str(if is_pause { ", " } else { " " });
    }
    text.pop();
    text.push_str(if random.below(5) == 0 { ".\n\n" } else { ". " });
}

fn code(random: &mut Random, text: &mut String) {
    text.push_str("\n```\nfn ");
    word(random, text);
    text.push_str("() {\n");
    for _ in 0..2 + random.below(5) {
        text.push_str("    let ");
        word(random, text);
        text.push_str(" = self.");
        word(random, text);
        text.push_str(&format!("[{}];\n", random.below(4_096)));
    }
    text.push_str("}\n```\n");
}

fn figures(random: &mut Random, text: &mut String) {
    for _ in 0..1 + random.below(6) {
        let (whole, part) = (random.below(100_000), random.below(100));
        text.push_str(&format!("{whole}.{part:02}; "));
    }
}

fn letters(random: &mut Random, text: &mut String) {
    for _ in 0..8 + random.below(40) {
        text.push_str(LETTERS[random.below(LETTERS.len() as u64) as usize]);
    }
    text.push(' ');
}
