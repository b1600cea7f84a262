//! Tokenising: the compiler's ways beside Hugging Face's own encoder, on the same text, the same
//! vocabulary and the same threads.

use crate::steps::cpu_s;
use crate::words;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Instant;
use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::tokenizer::normalizer::SplitDelimiterBehavior;
use tokenizers::{
    DecoderWrapper, NormalizerWrapper, PostProcessorWrapper, PreTokenizerWrapper, Tokenizer,
    TokenizerImpl,
};
use truetape_compiler::tokenizer::Vocabulary;
use truetape_fidelity::blocks::{BlockKey, of_rendered, of_tokens};
use truetape_testkit::eval::{Table, figure};

/// Prompts that are encoded, and bytes of each.
const PROMPTS: u64 = 2_000;
const PROMPT_BYTES: usize = 8 << 10;

/// Prompts that the vocabulary is learned from; others than those that are encoded.
const LEARNED_PROMPTS: u64 = 500;

/// Tokens of the vocabulary.
const VOCABULARY: usize = 32_000;

/// Tokens in a block.
const BLOCK_TOKENS: u32 = 16;

/// How text is split before it is merged: as Llama 3 and Qwen do.
const SPLIT: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Encodes a text, and says how many tokens it is.
type Way<'a> = dyn Fn(&str) -> u64 + Sync + 'a;

/// One way to encode all prompts, measured.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Speed {
    what: &'static str,
    threads: usize,
    tokens: u64,
    wall_s: f64,
    cpu_s: f64,
    tokens_per_s: f64,
}

/// Encodes the prompts in every way; `vocabulary` is a `tokenizer.json`, or is learned from prompts.
pub(crate) fn measure(
    dir: &Path,
    vocabulary: Option<&Path>,
    seed: u64,
    threads: usize,
) -> Vec<Speed> {
    let texts: Vec<String> = (0..PROMPTS)
        .map(|number| words::prompt(seed, number, PROMPT_BYTES))
        .collect();
    let path = vocabulary.map_or_else(|| learned(dir, seed), Path::to_owned);
    let reference = Tokenizer::from_file(&path).expect("a tokenizer.json");
    let ours = Vocabulary::open(&path, None, None).expect("the same tokenizer.json");
    for text in &texts {
        let wanted = reference.encode_fast(text.as_str(), false).expect("ids");
        let found = ours.encode(text, false).expect("ids");
        assert_eq!(found, wanted.get_ids(), "other ids than the reference's");
    }
    let key = BlockKey::new(b"bench");
    let by_reference = |text: &str| {
        let encoding = reference.encode_fast(text, false).expect("ids");
        encoding.get_ids().len() as u64
    };
    let by_ours = |text: &str| ours.encode(text, false).expect("ids").len() as u64;
    let to_blocks = |text: &str| {
        let ids = ours.encode(text, false).expect("ids");
        std::hint::black_box(of_tokens(&key, &ids, BLOCK_TOKENS, true));
        ids.len() as u64
    };
    let by_bytes = |text: &str| {
        std::hint::black_box(of_rendered(&key, text.as_bytes(), 4.0, BLOCK_TOKENS));
        (text.len() as u64).div_ceil(4)
    };
    let ways: [(&'static str, &Way<'_>); 4] = [
        (
            "Hugging Face `tokenizers`, tokenizer.json to ids",
            &by_reference,
        ),
        ("truetape, tokenizer.json to ids", &by_ours),
        ("truetape, tokenizer.json to keyed block hashes", &to_blocks),
        ("truetape, `bytes:4` to keyed block hashes", &by_bytes),
    ];
    let mut counts = vec![1, threads];
    counts.dedup();
    let each = ways.into_iter().flat_map(|(what, way)| {
        let texts = &texts;
        counts
            .iter()
            .map(move |threads| speed(what, way, texts, *threads))
    });
    each.collect()
}

fn speed(what: &'static str, way: &Way<'_>, texts: &[String], threads: usize) -> Speed {
    let share = texts.len().div_ceil(threads.max(1));
    let (begin, cpu_before_s) = (Instant::now(), cpu_s());
    let tokens: u64 = std::thread::scope(|scope| {
        let workers: Vec<_> = texts
            .chunks(share)
            .map(|texts| scope.spawn(move || texts.iter().map(|text| way(text)).sum::<u64>()))
            .collect();
        let counted = workers
            .into_iter()
            .map(|worker| worker.join().expect("tokens"));
        counted.sum()
    });
    let wall_s = begin.elapsed().as_secs_f64();
    Speed {
        what,
        threads,
        tokens,
        wall_s,
        cpu_s: cpu_s() - cpu_before_s,
        tokens_per_s: tokens as f64 / wall_s,
    }
}

/// The vocabulary of an earlier run, or one that is learned now.
fn learned(dir: &Path, seed: u64) -> PathBuf {
    let path = dir.join(format!("vocabulary-{seed}.json"));
    if path.is_file() {
        return path;
    }
    std::fs::create_dir_all(dir).expect("a folder for the vocabulary");
    let split = SplitPattern::Regex(SPLIT.to_owned());
    let split = Split::new(split, SplitDelimiterBehavior::Isolated, false).expect("a pattern");
    let levels = ByteLevel::new(false, true, false);
    let before = vec![
        PreTokenizerWrapper::Split(split),
        PreTokenizerWrapper::ByteLevel(levels),
    ];
    let mut made: TokenizerImpl<
        BPE,
        NormalizerWrapper,
        PreTokenizerWrapper,
        PostProcessorWrapper,
        DecoderWrapper,
    > = TokenizerImpl::new(BPE::default());
    made.with_pre_tokenizer(Some(PreTokenizerWrapper::Sequence(Sequence::new(before))));
    made.with_decoder(Some(DecoderWrapper::ByteLevel(levels)));
    let mut trainer = BpeTrainer::builder()
        .show_progress(false)
        .vocab_size(VOCABULARY)
        .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
        .build();
    let texts = (0..LEARNED_PROMPTS).map(|at| words::prompt(seed, PROMPTS + at, PROMPT_BYTES));
    made.train(&mut trainer, texts).expect("a vocabulary");
    made.save(&path, false).expect("a file for the vocabulary");
    path
}

/// The figures as a table.
pub(crate) fn table(speeds: &[Speed]) -> Table {
    let mut table = Table::new(
        &format!("Tokenising {PROMPTS} prompts of {PROMPT_BYTES} bytes; the ids are the same"),
        &[
            "encoder",
            "threads",
            "tokens",
            "wall s",
            "CPU s",
            "million tokens a second",
            "million tokens a CPU second",
        ],
    );
    for speed in speeds {
        table.row([
            speed.what.to_owned(),
            speed.threads.to_string(),
            speed.tokens.to_string(),
            figure(speed.wall_s),
            figure(speed.cpu_s),
            figure(speed.tokens_per_s / 1e6),
            figure(speed.tokens as f64 / speed.cpu_s / 1e6),
        ]);
    }
    table
}
