//! Text to token ids, and back.

use crate::error::Error;
use fastokens::tiktoken::TiktokenConfig;
use std::path::Path;

/// What both encoders must agree on before the fast one is trusted: spaces, ends of lines, digits,
/// code, accents, scripts without spaces, emoji made of several characters, bytes that are rare.
const CHECKED: [&str; 8] = [
    "Hello, world! It's 3.14159 o'clock on 2026-11-30.",
    "fn main() {\n\t    let x = a[0]  +  1_000;\r\n\r\n    println!(\"{x:?}\");\n}\n",
    "    indented\n\n\n   trailing   \n",
    "Stra\u{df}e, na\u{ef}ve, \u{17d}lu\u{165}ou\u{10d}k\u{fd} k\u{16f}\u{148}, e\u{301} \u{e9}",
    "\u{4f60}\u{597d}\u{ff0c}\u{4e16}\u{754c}\u{3002}\u{3053}\u{3093}\u{306b}\u{3061}\u{306f} \u{c548}\u{b155} \u{645}\u{631}\u{62d}\u{628}\u{627}",
    "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467} \u{1f1e8}\u{1f1ff} \u{2764}\u{fe0f} \u{0}\u{7f}\u{a0}\u{feff}",
    "<|im_start|>user\nhi<|im_end|>\n<s>[INST] x [/INST]</s>",
    "{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Brno\", \"days\": 12345678901}}",
];

/// An encoder of either kind.
pub(super) enum Encoder {
    Fast(Box<fastokens::Tokenizer>, Format),
    Reference(Box<tokenizers::Tokenizer>),
}

/// A format of vocabularies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    HuggingFace,
    Tiktoken,
}

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fast(_, format) => write!(f, "Fast({format:?})"),
            Self::Reference(_) => f.write_str("Reference"),
        }
    }
}

impl Encoder {
    /// Reads a vocabulary, by the ending of its name.
    pub(super) fn of(path: &Path, bytes: &[u8], encoding: Option<&str>) -> Result<Self, Error> {
        let extension = path.extension().and_then(std::ffi::OsStr::to_str);
        match extension {
            Some("json") => hugging_face(path, bytes),
            Some("tiktoken" | "model") => tiktoken(path, bytes, encoding),
            _ => Err(Error::config(
                path.display(),
                "tokens.tokenizer: allowed are a tokenizer.json, and a vocabulary of tiktoken \
                 whose name ends in .tiktoken or .model",
            )),
        }
    }

    /// The word in the manifest.
    pub(super) fn format(&self) -> &'static str {
        match self {
            Self::Fast(_, Format::Tiktoken) => "tiktoken",
            Self::Fast(_, Format::HuggingFace) | Self::Reference(_) => "huggingface",
        }
    }

    /// Whether the fast encoder was found to be the same as the reference.
    #[cfg(test)]
    pub(super) fn is_fast(&self) -> bool {
        matches!(self, Self::Fast(..))
    }

    pub(super) fn encode(&self, text: &str, special: bool) -> Result<Vec<u32>, String> {
        match self {
            Self::Fast(fast, _) => fast
                .encode_with_special_tokens(text, special)
                .map_err(|cause| cause.to_string()),
            Self::Reference(reference) => reference
                .encode_fast(text, special)
                .map(|encoding| encoding.get_ids().to_vec())
                .map_err(|cause| cause.to_string()),
        }
    }

    pub(super) fn decode(&self, ids: &[u32]) -> Result<String, String> {
        match self {
            Self::Fast(fast, _) => fast.decode(ids, false).map_err(|cause| cause.to_string()),
            Self::Reference(reference) => reference
                .decode(ids, false)
                .map_err(|cause| cause.to_string()),
        }
    }
}

fn hugging_face(path: &Path, bytes: &[u8]) -> Result<Encoder, Error> {
    let reference = tokenizers::Tokenizer::from_bytes(bytes).map_err(|cause| {
        let problem = format!("tokens.tokenizer: not a tokenizer.json: {cause}");
        Error::config(path.display(), problem)
    })?;
    let reference = Encoder::Reference(Box::new(without_limits(reference)));
    let json = serde_json::from_slice(bytes).ok();
    let Some(mut fast) = json.and_then(|json| fastokens::Tokenizer::from_json(json).ok()) else {
        return Ok(reference);
    };
    fast.set_truncation(None);
    fast.set_padding(None);
    let fast = Encoder::Fast(Box::new(fast), Format::HuggingFace);
    Ok(if agree(&fast, &reference) {
        fast
    } else {
        reference
    })
}

/// A prompt is as long as it is: files of embedding models cut at 512 tokens, and fill up to them.
fn without_limits(mut reference: tokenizers::Tokenizer) -> tokenizers::Tokenizer {
    reference.with_padding(None);
    // Without parameters there is nothing that could be refused.
    let _nothing_to_refuse = reference.with_truncation(None).is_ok();
    reference
}

fn agree(fast: &Encoder, reference: &Encoder) -> bool {
    CHECKED.iter().all(|text| {
        [false, true].into_iter().all(|special| {
            let (a, b) = (fast.encode(text, special), reference.encode(text, special));
            a.is_ok() && a == b
        })
    })
}

/// The file has the ranks only; how text is split before them goes by the name of the encoding.
fn tiktoken(path: &Path, bytes: &[u8], encoding: Option<&str>) -> Result<Encoder, Error> {
    let stem = path.file_stem().and_then(std::ffi::OsStr::to_str);
    let name = encoding.or(stem).unwrap_or_default();
    let config = TiktokenConfig::from_preset(name).ok_or_else(|| {
        let problem = format!(
            "tokens.encoding: `{name}` is not known; allowed are `cl100k_base` and `o200k_base`, or \
             a file of that name"
        );
        Error::config(path.display(), problem)
    })?;
    let not_one = |cause: String| {
        let problem = format!("tokens.tokenizer: not a vocabulary of tiktoken: {cause}");
        Error::config(path.display(), problem)
    };
    let text = std::str::from_utf8(bytes).map_err(|cause| not_one(cause.to_string()))?;
    let fast = fastokens::Tokenizer::from_tiktoken_str(text, config)
        .map_err(|cause| not_one(cause.to_string()))?;
    Ok(Encoder::Fast(Box::new(fast), Format::Tiktoken))
}
