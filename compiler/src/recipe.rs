//! What to make of captures: the recipe, a TOML file that travels with the set.
//!
//! Everything here changes what a set is, and is part of its digest. What only changes how the
//! compiler runs (threads, directories) is a flag.

use crate::error::Error;
use serde::{Deserialize, Serialize};
use std::path::Path;
use truetape_schemas::set::manifest::Tokenizer;

mod arrange;
mod control;
mod select;

pub use arrange::{Arrange, RATE_RECORDED, RATE_SHAPE, RATE_STRESS};
pub use control::{Control, ControlArrivals, ControlLengths};
pub use select::{Method, RoutingRule, Select, TOKEN_SHARE_DEFAULT, Window};

/// A recipe, with its defaults filled in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Recipe {
    /// The set's name in the store.
    pub name: String,
    /// Seeds the permanent random numbers and the synthetic text.
    pub seed: u64,
    /// What the set is a sample of.
    pub view: View,
    /// How text becomes tokens and blocks.
    pub tokens: Tokens,
    /// Which sessions are taken.
    pub select: Select,
    /// When they start.
    pub arrange: Arrange,
    /// What their prompts hold.
    pub content: Content,
    /// What is generated instead of selected: the set is then a control, no sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control: Option<Control>,
}

impl Default for Recipe {
    fn default() -> Self {
        Self {
            name: "set".to_owned(),
            seed: 0,
            view: View::default(),
            tokens: Tokens::default(),
            select: Select::default(),
            arrange: Arrange::default(),
            content: Content::default(),
            control: None,
        }
    }
}

/// What one system under test stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum View {
    /// One replica behind a session-affine balancer.
    #[default]
    Replica,
    /// The whole fleet as one pooled cache.
    Fleet,
}

impl View {
    /// The word in the manifest.
    pub fn name(self) -> &'static str {
        match self {
            Self::Replica => "replica",
            Self::Fleet => "fleet",
        }
    }
}

/// How text becomes tokens and blocks. Imported traces bring their own lengths and blocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tokens {
    /// `auto`, `bytes:4`, or a file: a `tokenizer.json`, or a vocabulary of tiktoken. A relative
    /// path counts from the recipe's directory.
    pub tokenizer: String,
    /// The chat template: a file of Jinja, or a `tokenizer_config.json`. Where it is not said, the
    /// one beside `tokenizer` is taken, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chat_template: Option<String>,
    /// How text is split for a vocabulary of tiktoken; its file's name says it where this does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoding: Option<String>,
    /// Tokens in a block: the target engine's block size.
    pub block_tokens: u32,
}

impl Default for Tokens {
    fn default() -> Self {
        Self {
            tokenizer: AUTO.to_owned(),
            chat_template: None,
            encoding: None,
            block_tokens: BLOCK_TOKENS_DEFAULT,
        }
    }
}

/// The tokenizer that is told by reported usage.
pub const AUTO: &str = "auto";

/// The tokenizer of the engine stub: four bytes of the rendered prompt are one token.
pub const BYTES_4: &str = "bytes:4";

/// Begins the digest that stands for a file in a recipe that was carried out.
const FILE: &str = "file:";

/// Endings of files that hold a vocabulary.
const VOCABULARIES: [&str; 3] = ["json", "tiktoken", "model"];

impl Tokens {
    /// Makes paths count from a directory.
    fn resolve(&mut self, directory: &Path) {
        let from = |name: &str| directory.join(name).to_string_lossy().into_owned();
        if self.is_file() {
            self.tokenizer = from(&self.tokenizer);
        }
        self.chat_template = self.chat_template.as_deref().map(from);
    }

    fn is_file(&self) -> bool {
        self.tokenizer != AUTO && self.tokenizer != BYTES_4
    }

    fn check(&self) -> Result<(), String> {
        let extension = Path::new(&self.tokenizer).extension();
        let known = extension.is_some_and(|found| VOCABULARIES.iter().any(|one| found == *one));
        if self.is_file() && !known && !self.tokenizer.starts_with(FILE) {
            return Err(format!(
                "tokens.tokenizer: `{}`, allowed are `{AUTO}`, `{BYTES_4}`, and a file that ends in \
                 .json, .tiktoken or .model",
                self.tokenizer
            ));
        }
        let lone = [
            ("chat_template", self.chat_template.is_some()),
            ("encoding", self.encoding.is_some()),
        ];
        if let Some((key, _)) = lone.iter().find(|(_, said)| *said && !self.is_file()) {
            return Err(format!(
                "tokens.{key}: goes with a tokenizer that is a file only"
            ));
        }
        if self.block_tokens == 0 {
            return Err("tokens.block_tokens: 0, allowed is 1 or more".to_owned());
        }
        Ok(())
    }
}

/// vLLM's block size on most hardware.
pub const BLOCK_TOKENS_DEFAULT: u32 = 16;

/// What prompts hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Content {
    /// Where the text comes from.
    pub kind: ContentKind,
    /// How a prompt that is made up from lengths and block ids is sent.
    #[serde(skip_serializing_if = "PromptForm::is_default")]
    pub prompt: PromptForm,
}

/// How a prompt that is made up from lengths and block ids is sent. Prompts with text keep their
/// own form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptForm {
    /// As one text.
    #[default]
    Completions,
    /// As the one message of a chat; its length includes what the chat template adds.
    Chat,
}

impl PromptForm {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Where the text of prompts comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContentKind {
    /// New text with the same token lengths and the same sharing; no production text remains.
    #[default]
    Synthetic,
    /// The text that production sent.
    Verbatim,
    /// None: lengths only.
    Lengths,
}

impl ContentKind {
    /// The word in the manifest.
    pub fn name(self) -> &'static str {
        match self {
            Self::Synthetic => "synthetic",
            Self::Verbatim => "verbatim",
            Self::Lengths => "lengths",
        }
    }
}

impl Recipe {
    /// Reads a recipe and checks it.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path)
            .map_err(|cause| Error::config(path.display(), format!("cannot be read: {cause}")))?;
        let mut recipe =
            Self::parse(&text).map_err(|problem| Error::config(path.display(), problem))?;
        recipe
            .tokens
            .resolve(path.parent().unwrap_or(Path::new("")));
        Ok(recipe)
    }

    /// Parses a recipe and checks it; the error says what is wrong and what is allowed.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut recipe: Self = toml::from_str(text).map_err(|cause| cause.to_string())?;
        // Groups that are not named keep their defaults.
        let defaults = Select::default();
        for (group, weight) in defaults.weights {
            recipe.select.weights.entry(group).or_insert(weight);
        }
        for (group, tolerance) in defaults.tolerances {
            recipe.select.tolerances.entry(group).or_insert(tolerance);
        }
        recipe.check()?;
        Ok(recipe)
    }

    /// Checks what types cannot.
    pub fn check(&self) -> Result<(), String> {
        check_name(&self.name)?;
        self.tokens.check()?;
        if self.content.prompt == PromptForm::Chat && !self.tokens.is_file() {
            return Err(
                "content.prompt: `chat` goes with a tokens.tokenizer that is a file only"
                    .to_owned(),
            );
        }
        if let Some(control) = &self.control {
            control.check()?;
        }
        self.select.check()?;
        self.arrange.check(&self.select)
    }

    /// The recipe as the manifest and the digest hold it: files by their digests, since a set does
    /// not know the machine it was made on.
    pub fn to_json(&self, tokenizer: &Tokenizer) -> Result<serde_json::Value, Error> {
        let mut recipe = self.clone();
        let named = |digest: &String| format!("{FILE}{digest}");
        if let Some(digest) = &tokenizer.digest {
            recipe.tokens.tokenizer = named(digest);
            recipe.tokens.chat_template = tokenizer.template_digest.as_ref().map(named);
        }
        serde_json::to_value(recipe)
            .map_err(|cause| Error::bug("recipe", format!("could not encode JSON: {cause}")))
    }
}

/// A name is a directory of the store, and stands before `@` in references.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.starts_with('.') || !name.chars().all(allowed) {
        return Err(format!(
            "name: `{name}`, allowed are letters, digits, `-`, `_` and `.`, not starting with `.`"
        ));
    }
    Ok(())
}

fn duration_us(key: &str, text: &str) -> Result<i64, String> {
    let duration = humantime::parse_duration(text)
        .map_err(|cause| format!("{key}: `{text}`: {cause}; write it as in \"90s\" or \"5m\""))?;
    i64::try_from(duration.as_micros()).map_err(|_| format!("{key}: `{text}` is too long"))
}

#[cfg(test)]
mod tests {
    use super::{Method, Recipe};

    #[test]
    fn an_empty_recipe_is_the_default_one() {
        assert_eq!(Recipe::parse("").unwrap(), Recipe::default());
        assert_eq!(Recipe::default().select.method, Method::Balanced);
    }

    #[test]
    fn the_example_is_a_recipe() {
        let example = include_str!("../../examples/recipe.toml");
        assert!(Recipe::parse(example).is_ok());
    }

    #[test]
    fn what_is_wrong_is_named_with_what_is_allowed() {
        let cases = [
            ("sead = 1", "sead"),
            ("name = \"../x\"", "name: `../x`"),
            (
                "[tokens]\ntokenizer = \"bytes:3\"",
                "allowed are `auto`, `bytes:4`, and a file",
            ),
            ("[tokens]\nblock_tokens = 0", "1 or more"),
            (
                "[tokens]\nencoding = \"o200k_base\"",
                "goes with a tokenizer",
            ),
            ("[arrange]\nrate = \"steady\"", "allowed are `recorded`"),
            ("[arrange]\nrate = \"stress\"", "needs 2 or more"),
            ("[arrange]\ncopies = 2", "rate = \"stress\" only"),
            (
                "[select]\nmethod = \"all\"\n[arrange]\nrate = \"shape\"",
                "balanced",
            ),
            ("[arrange]\nidle_max = \"x\"", "arrange.idle_max"),
            ("[select]\ntoken_share = 1.5", "up to 1"),
            ("[select]\ntoken_share = 0.1\ntokens = 5", "one of them"),
            ("[select]\nmethod = \"all\"\ntokens = 5", "balanced"),
            ("[select.weights]\ninputs = 1.0", "unknown variant"),
            ("[select.weights]\ninput = -1.0", "0 or more"),
            ("[select.tolerances]\nhits = 0.0", "more than 0"),
            ("[select]\nreplicas = 0", "1 or more"),
            (
                "[select]\nrouting = \"captured\"\nreplicas = 2",
                "does not go",
            ),
            ("[select]\nmethod = \"window\"", "select.window: missing"),
            (
                "[select]\nmethod = \"window\"\nwindow = { start = \"0\", length = \"x\" }",
                "select.window.",
            ),
            ("[content]\nkind = \"real\"", "synthetic"),
            ("[content]\nprompt = \"chat\"", "that is a file only"),
            (
                "[control]\nlengths = \"fixed\"\narrivals = \"poisson\"\narrival_cv = 2.0",
                "goes with arrivals",
            ),
            (
                "[control]\nlengths = \"fixed\"\narrivals = \"gamma\"\narrival_cv = 0.0",
                "more than 0",
            ),
        ];
        for (text, wanted) in cases {
            let problem = Recipe::parse(text).unwrap_err();
            assert!(problem.contains(wanted), "{text}: {problem}");
        }
    }
}
