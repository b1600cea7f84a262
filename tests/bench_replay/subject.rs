//! The load generators under test, each told to keep one recorded arrival list.

use crate::poll::now_ns;
use crate::schedule::{INPUT_TOKENS, Schedule};
use serde_json::Value;
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use truetape_testkit::eval::{done, program, said};

/// Before the first arrival, for a bare thread to connect.
const LEAD_NS: u64 = 200_000_000;

/// Connections of the bare thread; each serves every so-many-th arrival.
const BARE_CONNECTIONS: usize = 256;

/// A load generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A thread that sleeps to each instant and writes: what the machine itself adds.
    Bare,
    Truetape,
    Aiperf,
    InferencePerf,
    Vllm,
    Guidellm,
}

impl Kind {
    pub(crate) const ALL: [Self; 6] = [
        Self::Bare,
        Self::Truetape,
        Self::Aiperf,
        Self::InferencePerf,
        Self::Vllm,
        Self::Guidellm,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare thread",
            Self::Truetape => "truetape",
            Self::Aiperf => "aiperf",
            Self::InferencePerf => "inference-perf",
            Self::Vllm => "vllm",
            Self::Guidellm => "guidellm",
        }
    }

    /// Its program: named by a variable, or on the path. The bare thread has none.
    pub(crate) fn program(self) -> Result<PathBuf, String> {
        if self == Self::Bare {
            return Ok(PathBuf::new());
        }
        let variable = format!(
            "TRUETAPE_BENCH_{}",
            self.name().replace('-', "_").to_ascii_uppercase()
        );
        program(self.name(), &variable)
    }

    pub(crate) fn version(self, program: &Path) -> Option<String> {
        (self != Self::Bare)
            .then(|| said(&program.to_string_lossy(), &["--version"]))
            .flatten()
    }

    /// Needs a tokenizer on disk to make prompts of a length.
    pub(crate) fn needs_tokenizer(self) -> bool {
        !matches!(self, Self::Bare | Self::Truetape)
    }
}

/// What a subject says of its own run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claim {
    /// Its own lateness, p50 and p99, in milliseconds.
    pub(crate) lateness_ms: Option<(f64, f64)>,
    /// Its schedule's zero on the wall clock, in microseconds.
    pub(crate) zero_us: Option<i64>,
}

/// One run of one subject.
pub(crate) struct Job<'a> {
    pub(crate) kind: Kind,
    pub(crate) program: &'a Path,
    pub(crate) tokenizer: Option<&'a Path>,
    pub(crate) schedule: &'a Schedule,
    pub(crate) folder: &'a Path,
    pub(crate) target: SocketAddr,
    /// Requests in flight at most, where the run asks how many there can be.
    pub(crate) in_flight: Option<usize>,
    pub(crate) core: Option<usize>,
}

impl Job<'_> {
    /// Runs it to its end.
    pub(crate) fn run(&self) -> Result<Claim, String> {
        let trace = self.folder.join("trace.jsonl");
        self.schedule.write(&trace);
        match self.kind {
            Kind::Bare => {
                bare(self.target, self.schedule);
                Ok(Claim::default())
            }
            Kind::Truetape => self.truetape(&trace),
            Kind::Aiperf => self.aiperf(&trace),
            Kind::InferencePerf => self.inference_perf(),
            Kind::Vllm => self.vllm(&trace),
            Kind::Guidellm => self.guidellm(&trace),
        }
    }

    fn url(&self) -> String {
        format!("http://{}", self.target)
    }

    fn command(&self) -> Command {
        let mut command = match self.core {
            Some(core) => {
                let mut pinned = Command::new("taskset");
                pinned.args(["-c", &core.to_string()]).arg(self.program);
                pinned
            }
            None => Command::new(self.program),
        };
        command.current_dir(self.folder).env("NO_COLOR", "1");
        command.env("HF_HUB_OFFLINE", "1");
        command
    }

    fn tokenizer(&self) -> String {
        self.tokenizer
            .map(|path| path.display().to_string())
            .unwrap_or_default()
    }

    fn truetape(&self, trace: &Path) -> Result<Claim, String> {
        let recipe = self.folder.join("recipe.toml");
        let text =
            "name = \"bench\"\n[select]\nmethod = \"all\"\n[content]\nkind = \"synthetic\"\n";
        std::fs::write(&recipe, text).map_err(|cause| cause.to_string())?;
        let trace = trace.display().to_string();
        done(
            self.command()
                .args(["import", "mooncake", &trace, "--out", "capture"]),
        )?;
        done(self.command().args([
            "compile",
            "capture",
            "--recipe",
            "recipe.toml",
            "--store",
            "sets",
        ]))?;
        let url = self.url();
        let mut replay = self.command();
        replay.args([
            "replay",
            "bench@latest",
            "--store",
            "sets",
            "--target",
            &url,
            "--out",
            "run",
            "--no-probe",
            "--cache",
            "as-is",
            "--pacing",
            "open",
            "--fail-on",
            "never",
            "--lateness-p99-max",
            "1h",
        ]);
        if let Some(most) = self.in_flight {
            replay.args(["--max-in-flight", &most.to_string()]);
        }
        done(&mut replay)?;
        let run =
            std::fs::read(self.folder.join("run/run.json")).map_err(|cause| cause.to_string())?;
        let run: Value = serde_json::from_slice(&run).map_err(|cause| cause.to_string())?;
        let number = |at: &str| run.pointer(at).and_then(Value::as_f64);
        let answered = number("/account/answered").unwrap_or(0.0);
        if answered < self.schedule.due_ms.len() as f64 {
            return Err(format!("{answered} were answered"));
        }
        Ok(Claim {
            lateness_ms: number("/summary/lateness_ms/p50").zip(number("/summary/lateness_ms/p99")),
            zero_us: run.pointer("/zero_us").and_then(Value::as_i64),
        })
    }

    /// It takes a folder for a name once it is offline, so the folder is put where names are found.
    fn aiperf(&self, trace: &Path) -> Result<Claim, String> {
        let hub = self.folder.join("hub/models--truetape--bench");
        let copied = hub.join("snapshots/0");
        let copy = || -> std::io::Result<()> {
            std::fs::create_dir_all(hub.join("refs"))?;
            std::fs::create_dir_all(&copied)?;
            std::fs::write(hub.join("refs/main"), "0")?;
            for entry in std::fs::read_dir(self.tokenizer.unwrap_or(Path::new(".")))? {
                let entry = entry?;
                std::fs::copy(entry.path(), copied.join(entry.file_name()))?;
            }
            Ok(())
        };
        copy().map_err(|cause| format!("its tokenizer: {cause}"))?;
        let (trace, url) = (trace.display().to_string(), self.url());
        done(self.command().env("HF_HOME", self.folder).args([
            "profile",
            "--model",
            "bench",
            "--url",
            &url,
            "--endpoint-type",
            "chat",
            "--streaming",
            "--input-file",
            &trace,
            "--custom-dataset-type",
            "mooncake_trace",
            "--fixed-schedule",
            "--tokenizer",
            "truetape/bench",
            "--ui",
            "none",
            "--artifact-dir",
            "aiperf",
        ]))?;
        Ok(Claim::default())
    }

    fn vllm(&self, trace: &Path) -> Result<Claim, String> {
        let (trace, url, tokenizer) = (trace.display().to_string(), self.url(), self.tokenizer());
        let count = self.schedule.due_ms.len().to_string();
        done(self.command().args([
            "bench",
            "serve",
            "--backend",
            "openai",
            "--base-url",
            &url,
            "--endpoint",
            "/v1/completions",
            "--model",
            "bench",
            "--tokenizer",
            &tokenizer,
            "--dataset-name",
            "timed_trace",
            "--dataset-path",
            &trace,
            "--timed-trace-sec-multiplier",
            "0.001",
            "--timed-trace-chunk-hash-size",
            "64",
            "--num-prompts",
            &count,
            "--ready-check-timeout-sec",
            "0",
            "--disable-tqdm",
        ]))?;
        Ok(Claim::default())
    }

    fn guidellm(&self, trace: &Path) -> Result<Claim, String> {
        let seconds = self.folder.join("trace_s.jsonl");
        let text = std::fs::read_to_string(trace).map_err(|cause| cause.to_string())?;
        let mut lines = String::new();
        for line in text.lines() {
            let mut row: Value = serde_json::from_str(line).map_err(|cause| cause.to_string())?;
            let ms = row["timestamp"].as_f64().unwrap_or(0.0);
            row["timestamp"] = (ms / 1000.0).into();
            writeln!(lines, "{row}").map_err(|cause| cause.to_string())?;
        }
        std::fs::write(&seconds, lines).map_err(|cause| cause.to_string())?;
        let (url, tokenizer) = (self.url(), self.tokenizer());
        let data = format!("kind=trace_synthetic,path={}", seconds.display());
        done(self.command().args([
            "benchmark",
            "run",
            "--target",
            &url,
            "--model",
            "bench",
            "--processor",
            &tokenizer,
            "--profile",
            "replay",
            "--data",
            &data,
            "--output-dir",
            "guidellm",
            "--disable-console",
        ]))?;
        Ok(Claim::default())
    }

    /// It reads Azure's traces: a table with wall times.
    fn inference_perf(&self) -> Result<Claim, String> {
        let mut table = String::from("TIMESTAMP,ContextTokens,GeneratedTokens\n");
        for ms in &self.schedule.due_ms {
            let (second, part) = (ms / 1000, ms % 1000);
            let (minute, second) = (second / 60, second % 60);
            writeln!(
                table,
                "2026-11-30 12:{minute:02}:{second:02}.{part:03}0000,{INPUT_TOKENS},{}",
                self.schedule.output_tokens
            )
            .map_err(|cause| cause.to_string())?;
        }
        let trace = self.folder.join("azure.csv");
        std::fs::write(&trace, table).map_err(|cause| cause.to_string())?;
        let config = format!(
            "api:\n  type: completion\n  streaming: true\n\
             server:\n  type: vllm\n  model_name: bench\n  base_url: {}\n  ignore_eos: true\n\
             tokenizer:\n  pretrained_model_name_or_path: {}\n\
             data:\n  type: random\n  trace:\n    file: {path}\n    format: AzurePublicDataset\n\
             load:\n  type: trace_replay\n  stages:\n  - rate: 1\n    duration: {count}\n  trace:\n    file: {path}\n    format: AzurePublicDataset\n\
             storage:\n  local_storage:\n    path: {}\n",
            self.url(),
            self.tokenizer(),
            self.folder.join("inference-perf").display(),
            count = self.schedule.due_ms.len(),
            path = trace.display(),
        );
        std::fs::write(self.folder.join("config.yml"), config)
            .map_err(|cause| cause.to_string())?;
        done(self.command().args(["--config_file", "config.yml"]))?;
        Ok(Claim::default())
    }
}

/// Sleeps to each instant and writes a request that was made beforehand; other threads read.
fn bare(target: SocketAddr, schedule: &Schedule) {
    let body = format!(
        "{{\"model\":\"bench\",\"stream\":true,\"max_tokens\":{},\"messages\":[]}}",
        schedule.output_tokens
    );
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut streams: Vec<TcpStream> = (0..BARE_CONNECTIONS)
        .map(|_| TcpStream::connect(target).expect("the upstream listens"))
        .collect();
    let readers: Vec<_> = streams.iter().map(drain).collect();
    crate::poll::exact_wakes();
    let zero_ns = now_ns() + LEAD_NS;
    for (number, due_ns) in schedule.due_ns().into_iter().enumerate() {
        let left_ns = (zero_ns + due_ns).saturating_sub(now_ns());
        if left_ns > 0 {
            std::thread::sleep(Duration::from_nanos(left_ns));
        }
        let at = number % streams.len();
        streams[at]
            .write_all(request.as_bytes())
            .expect("the upstream reads");
    }
    std::thread::sleep(Duration::from_secs(1));
    for stream in &streams {
        stream.shutdown(std::net::Shutdown::Both).ok();
    }
    for reader in readers {
        reader.join().expect("a reader ends");
    }
}

fn drain(stream: &TcpStream) -> std::thread::JoinHandle<()> {
    let mut stream = stream.try_clone().expect("a descriptor");
    let read = move || {
        let mut buffer = vec![0; 16 * 1024];
        while stream.read(&mut buffer).is_ok_and(|read| read > 0) {}
    };
    let thread = std::thread::Builder::new().stack_size(64 * 1024);
    thread.spawn(read).expect("a thread")
}
