//! One engine's way through the product.

use crate::engine::{Installed, Kind, MODEL, Serving};
use crate::traffic;
use serde::Serialize;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use truetape_testkit::eval::done;
use truetape_testkit::process::Process;

/// Points of the prompt by which cached tokens may differ from what is expected.
const CACHED_POINTS_MAX: f64 = 0.02;

/// What was seen.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Seen {
    pub(crate) turns: usize,
    /// Share of turns whose output had the recorded length.
    pub(crate) outputs_exact: Option<f64>,
    /// Share of prompt tokens that the set gives reason to expect from the cache: with what the
    /// target generated, since the traffic is greedy and it says again what was recorded.
    pub(crate) cached_expected: Option<f64>,
    /// The same of prompts alone.
    pub(crate) cached_of_prompts: Option<f64>,
    /// Share that the engine reported.
    pub(crate) cached: Option<f64>,
    /// The same of a run after it.
    pub(crate) cached_again: Option<f64>,
    /// The same of a run that emptied the cache before it, with no salts.
    pub(crate) cached_flushed: Option<f64>,
    /// What the run found about salts.
    pub(crate) salt: Option<String>,
    /// The verdict on what was cached before the run.
    pub(crate) isolation: String,
    pub(crate) probe: Option<String>,
    pub(crate) probe_uncached: Option<String>,
}

impl Seen {
    /// What does not hold.
    pub(crate) fn problems(&self, kind: Kind) -> Vec<String> {
        let mut problems = Vec::new();
        let mut check = |holds: bool, what: &str| {
            if !holds {
                problems.push(what.to_owned());
            }
        };
        check(
            self.outputs_exact == Some(1.0),
            "every output has its length",
        );
        let near = |cached: Option<f64>| {
            let pair = self.cached_expected.zip(cached);
            pair.is_some_and(|(expected, seen)| (expected - seen).abs() <= CACHED_POINTS_MAX)
        };
        match kind {
            Kind::Vllm => {
                check(near(self.cached), "cached tokens are as expected");
                check(near(self.cached_again), "a second run starts cold");
                check(near(self.cached_flushed), "a flushed run starts cold");
                check(
                    self.salt.as_deref() == Some("honoured"),
                    "salts are honoured",
                );
                check(self.isolation == "PASS", "isolation passes");
                check(self.probe.as_deref() == Some("PASS"), "the probe passes");
                check(
                    self.probe_uncached.as_deref() == Some("FAIL"),
                    "the probe fails without a prefix cache",
                );
            }
            Kind::Llamacpp | Kind::Dynamo => {
                check(self.cached.is_some(), "cached tokens are told");
                check(self.salt.is_none(), "that salts are ignored is found");
                check(self.isolation != "PASS", "isolation is not claimed");
            }
        }
        problems
    }
}

/// Takes an engine all the way.
pub(crate) fn of(kind: Kind, truetape: &Path, python: &Path, root: &Path) -> Result<Seen, String> {
    let engine = Installed::of(kind, python, root)?;
    let folder = tempfile::tempdir().map_err(|cause| cause.to_string())?;
    let log = root
        .join("target/engines")
        .join(format!("{}.log", kind.name()));
    let serving = engine.serve(true, &log)?;
    let way = Way {
        truetape: truetape.to_owned(),
        folder: folder.path().to_owned(),
        serving: &serving,
    };
    let turns = way.record()?;
    way.compile(&engine)?;
    let first = way.replay("first", "salted")?;
    let second = way.replay("second", "salted")?;
    let flushed = match kind.can_flush() {
        true => Some(way.replay("flushed", "flush")?),
        false => None,
    };
    let mut seen = Seen {
        turns,
        outputs_exact: first.value("run.output_tokens.within_1"),
        cached_expected: first.cached_at_most(),
        cached_of_prompts: first.target("run.cached_tokens.simulated"),
        cached: first.value("run.cached_tokens.simulated"),
        cached_again: second.value("run.cached_tokens.simulated"),
        cached_flushed: flushed
            .as_ref()
            .and_then(|run| run.value("run.cached_tokens.simulated")),
        salt: first.salt(),
        isolation: first.verdict("run.isolation.cache"),
        probe: probe(truetape, &serving.url()),
        probe_uncached: None,
    };
    if first.value("run.output_tokens.ratio") != first.target("run.output_tokens.ratio") {
        seen.outputs_exact = seen.outputs_exact.map(|share| share.min(0.999));
    }
    drop(serving);
    if kind.can_go_uncached() {
        let serving = engine.serve(false, &log)?;
        seen.probe_uncached = probe(truetape, &serving.url());
    }
    Ok(seen)
}

struct Way<'a> {
    truetape: PathBuf,
    folder: PathBuf,
    serving: &'a Serving,
}

/// A run's account of itself.
struct Run {
    run: Value,
    report: Value,
}

impl Way<'_> {
    fn truetape(&self, args: &[&str]) -> Result<String, String> {
        done(
            Command::new(&self.truetape)
                .current_dir(&self.folder)
                .args(args),
        )
    }

    fn record(&self) -> Result<usize, String> {
        let out = self.folder.join("capture").display().to_string();
        let upstream = self.serving.url();
        let args = [
            "record",
            "--listen",
            "127.0.0.1:0",
            "--admin",
            "127.0.0.1:0",
            "--upstream",
            &upstream,
            "--out",
            &out,
            "--content",
            "full",
        ];
        let recorder = Process::start(&self.truetape, args, &[]);
        let answered = traffic::send(recorder.listening().listen);
        recorder.stop().expect_code(0);
        answered
    }

    fn compile(&self, engine: &Installed) -> Result<(), String> {
        let tokenizer = engine.model.join("tokenizer.json");
        let recipe = format!(
            "name = \"engine\"\n[tokens]\ntokenizer = \"{}\"\nblock_tokens = {}\n\
             [select]\nmethod = \"all\"\n[content]\nkind = \"verbatim\"\n",
            tokenizer.display(),
            engine.kind.block_tokens()
        );
        std::fs::write(self.folder.join("recipe.toml"), recipe)
            .map_err(|cause| cause.to_string())?;
        self.truetape(&[
            "compile",
            "capture",
            "--recipe",
            "recipe.toml",
            "--store",
            "sets",
        ])?;
        Ok(())
    }

    fn replay(&self, out: &str, cache: &str) -> Result<Run, String> {
        let url = self.serving.url();
        self.truetape(&[
            "replay",
            "engine@latest",
            "--store",
            "sets",
            "--target",
            &url,
            "--out",
            out,
            "--model",
            MODEL,
            "--fail-on",
            "never",
            "--allow-captured-origin",
            "--cache",
            cache,
        ])?;
        let read = |name: &str| -> Result<Value, String> {
            let path = self.folder.join(out).join(name);
            let text =
                std::fs::read(&path).map_err(|cause| format!("{}: {cause}", path.display()))?;
            serde_json::from_slice(&text).map_err(|cause| cause.to_string())
        };
        Ok(Run {
            run: read("run.json")?,
            report: read("fidelity.json")?,
        })
    }
}

/// The verdict of `truetape probe`; none where it gave none.
fn probe(truetape: &Path, url: &str) -> Option<String> {
    let mut probe = Command::new(truetape);
    let output = probe
        .args(["probe", url, "--format", "json"])
        .output()
        .ok()?;
    let told: Value = serde_json::from_slice(&output.stdout).ok()?;
    told.get("verdict")?.as_str().map(str::to_owned)
}

impl Run {
    fn dimension(&self, id: &str) -> Option<&Value> {
        let dimensions = self.report.get("dimensions")?.as_array()?;
        dimensions
            .iter()
            .find(|dimension| dimension.get("id").and_then(Value::as_str) == Some(id))
    }

    fn value(&self, id: &str) -> Option<f64> {
        self.dimension(id)?.get("value")?.as_f64()
    }

    fn target(&self, id: &str) -> Option<f64> {
        self.dimension(id)?.get("target")?.as_f64()
    }

    /// What the report says of the most that a cache without bound can hold.
    fn cached_at_most(&self) -> Option<f64> {
        let note = self.dimension("run.cached_tokens.simulated")?.get("note")?;
        let (_, share) = note.as_str()?.split_once("up to ")?;
        let percent: f64 = share.split_once(" %")?.0.parse().ok()?;
        Some(percent / 100.0)
    }

    fn verdict(&self, id: &str) -> String {
        let verdict = self.dimension(id).and_then(|found| found.get("verdict"));
        verdict
            .and_then(Value::as_str)
            .unwrap_or("absent")
            .to_owned()
    }

    fn salt(&self) -> Option<String> {
        let found = self.run.pointer("/flags/cache_verified")?.as_str()?;
        Some(found.to_owned())
    }
}
