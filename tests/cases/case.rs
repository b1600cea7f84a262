//! A folder as a case: what it holds decides how it is run.

use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The file that says what must come out.
pub(crate) const EXPECTED: &str = "expected.json";

/// One folder.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) id: String,
    pub(crate) dir: PathBuf,
    pub(crate) part: Vec<String>,
    pub(crate) tolerance_ms: f64,
    pub(crate) expect: Map<String, Value>,
    pub(crate) must_not: Vec<String>,
    files: BTreeSet<String>,
}

/// How a case is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `chunks*.jsonl`: a write schedule.
    Stream,
    /// `*.raw` on both sides, or raw answers to a JSON request.
    Raw,
    /// `script.json`: exchanges as raw text.
    Script,
    /// `request*.json` with `response*.json`: plain JSON exchanges.
    Json,
    /// `captures.jsonl`: what was already captured.
    Captures,
    /// `trace.*` and named trace files.
    Trace,
    /// `set.jsonl`: requests with planned sharing.
    Set,
    /// `schedule.jsonl`: dispatches against a server of fixed service time.
    Schedule,
    /// `session.jsonl`: turns of one session.
    Session,
    /// `results.jsonl`: what came of requests.
    Results,
    /// `tokens.json`: prompts as token ids.
    Tokens,
    /// `values.json`: an instant and block ids.
    Values,
    /// `targets.json`: prompt lengths.
    Targets,
    /// `plan.json`: a recorder that is killed.
    Plan,
}

impl Case {
    /// Reads a folder; `None` when it holds no case.
    pub(crate) fn read(dir: &Path) -> Option<Result<Self, String>> {
        let path = dir.join(EXPECTED);
        let text = std::fs::read_to_string(&path).ok()?;
        let id = dir
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        Some(Self::parse(id, dir, &text))
    }

    fn parse(id: String, dir: &Path, text: &str) -> Result<Self, String> {
        let value: Value = serde_json::from_str(text).map_err(|e| format!("{EXPECTED}: {e}"))?;
        let expect = value.get("expect").and_then(Value::as_object).cloned();
        let texts = |key: &str| strings(value.get(key));
        let files = std::fs::read_dir(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        let files = files
            .flatten()
            .map(|file| file.file_name().to_string_lossy().into_owned());
        Ok(Self {
            id,
            dir: dir.to_owned(),
            part: texts("part"),
            tolerance_ms: value
                .get("tolerance_ms")
                .and_then(Value::as_f64)
                .unwrap_or(0.0),
            expect: expect.ok_or_else(|| format!("{EXPECTED}: no `expect` object"))?,
            must_not: texts("must_not"),
            files: files.collect(),
        })
    }

    /// Decides by the files how the case is run.
    pub(crate) fn kind(&self) -> Option<Kind> {
        let has = |name: &str| self.has(name);
        let any = |prefix: &str, suffix: &str| !self.named(prefix, suffix).is_empty();
        let kinds = [
            (any("chunks", ".jsonl"), Kind::Stream),
            (has("script.json"), Kind::Script),
            (any("", ".raw"), Kind::Raw),
            (has("plan.json"), Kind::Plan),
            (has("captures.jsonl"), Kind::Captures),
            (has("targets.json"), Kind::Targets),
            (has("set.jsonl"), Kind::Set),
            (has("schedule.jsonl"), Kind::Schedule),
            (has("session.jsonl"), Kind::Session),
            (has("results.jsonl"), Kind::Results),
            (has("tokens.json"), Kind::Tokens),
            (has("values.json"), Kind::Values),
            (!self.traces().is_empty(), Kind::Trace),
            (any("request", ".json"), Kind::Json),
        ];
        kinds
            .into_iter()
            .find_map(|(yes, kind)| yes.then_some(kind))
    }

    /// Trace files, by name without ending.
    pub(crate) fn traces(&self) -> Vec<(String, String)> {
        let stem = |file: &String| {
            let (stem, ending) = file.rsplit_once('.')?;
            let trace = matches!(ending, "jsonl" | "csv" | "gor");
            trace.then(|| (stem.to_owned(), file.clone()))
        };
        self.files.iter().filter_map(stem).collect()
    }

    /// Whether the folder holds a file.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.files.contains(name)
    }

    /// Every file of the folder.
    pub(crate) fn files(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(String::as_str)
    }

    /// Files `<prefix>…<suffix>`, by what stands between.
    pub(crate) fn named(&self, prefix: &str, suffix: &str) -> Vec<(String, String)> {
        let middle = |file: &String| {
            let middle = file.strip_prefix(prefix)?.strip_suffix(suffix)?;
            Some((middle.trim_start_matches('_').to_owned(), file.clone()))
        };
        self.files.iter().filter_map(middle).collect()
    }

    /// A file's bytes.
    pub(crate) fn bytes(&self, name: &str) -> Result<Vec<u8>, String> {
        std::fs::read(self.dir.join(name)).map_err(|e| format!("{name}: {e}"))
    }

    /// A file as JSON.
    pub(crate) fn json(&self, name: &str) -> Result<Value, String> {
        serde_json::from_slice(&self.bytes(name)?).map_err(|e| format!("{name}: {e}"))
    }

    /// A file as JSON lines.
    pub(crate) fn lines(&self, name: &str) -> Result<Vec<Value>, String> {
        let text = String::from_utf8(self.bytes(name)?).map_err(|e| format!("{name}: {e}"))?;
        let parse = |line: &str| serde_json::from_str(line).map_err(|e| format!("{name}: {e}"));
        text.lines()
            .filter(|line| !line.trim().is_empty())
            .map(parse)
            .collect()
    }

    /// Whether the case is about this part of the product.
    pub(crate) fn is_about(&self, part: &str) -> bool {
        self.part.iter().any(|name| name == part)
    }
}

/// A list of texts; empty when it is not one.
pub(crate) fn strings(value: Option<&Value>) -> Vec<String> {
    let list = value.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Does a label of `expect` name this variant (a file's suffix)?
///
/// The file without a suffix is `A` or `a`; a label may be the start of a suffix.
pub(crate) fn names_variant(label: &str, variant: &str, all: &[&str]) -> bool {
    if label == variant {
        return true;
    }
    if all.contains(&label) {
        return false;
    }
    if variant.is_empty() {
        return label.eq_ignore_ascii_case("a") || label == "plain";
    }
    let starts = |name: &&&str| {
        name.strip_prefix(label)
            .is_some_and(|rest| rest.starts_with('_'))
    };
    variant.starts_with(label) && starts(&&variant) && all.iter().filter(starts).count() == 1
}

#[cfg(test)]
mod tests {
    use super::names_variant;

    #[test]
    fn labels_name_files_by_suffix() {
        let all = ["", "cut"];
        assert!(names_variant("A", "", &all));
        assert!(names_variant("cut", "cut", &all));
        assert!(!names_variant("cut", "", &all));
        let all = ["a", "b", "d_eof_only"];
        assert!(names_variant("a", "a", &all));
        assert!(names_variant("d", "d_eof_only", &all));
        assert!(!names_variant("b", "d_eof_only", &all));
        assert!(!names_variant("outcome", "a", &all));
    }
}
