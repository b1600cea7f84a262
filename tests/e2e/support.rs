//! The verbs, as a user runs them.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use truetape_schemas::set::manifest::Manifest;
use truetape_schemas::set::{Turn, store};
use truetape_testkit::process::{Ended, Listening, Process, run, run_with};
use truetape_testkit::tempdir::TempDir;

/// The command under test.
pub(crate) const TRUETAPE: &str = env!("CARGO_BIN_EXE_truetape");

/// Longest wait for anything on loopback.
pub(crate) const WITHIN: Duration = Duration::from_secs(20);

/// Runs the command to its end.
#[track_caller]
pub(crate) fn truetape<A: Into<OsString> + Clone>(args: &[A]) -> Ended {
    run(TRUETAPE.as_ref(), args.iter().cloned().map(Into::into))
}

/// Runs the command to its end, with variables.
#[track_caller]
pub(crate) fn truetape_with<A: Into<OsString> + Clone>(args: &[A], env: &[(&str, &str)]) -> Ended {
    run_with(TRUETAPE.as_ref(), args.iter().cloned().map(Into::into), env)
}

/// A running proxy.
#[derive(Debug)]
pub(crate) struct Recorder {
    pub(crate) process: Process,
    pub(crate) at: Listening,
}

impl Recorder {
    /// Starts one in front of `upstream`, with more flags.
    #[track_caller]
    pub(crate) fn start(upstream: &str, out: &Path, more: &[&str]) -> Self {
        Self::start_with(upstream, out, more, &[])
    }

    /// The same with variables.
    #[track_caller]
    pub(crate) fn start_with(
        upstream: &str,
        out: &Path,
        more: &[&str],
        env: &[(&str, &str)],
    ) -> Self {
        let mut args: Vec<OsString> = vec!["record".into()];
        args.extend(["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"].map(OsString::from));
        args.extend(["--upstream".into(), upstream.into()]);
        args.extend(["--out".into(), out.as_os_str().to_owned()]);
        args.extend(more.iter().map(OsString::from));
        let process = Process::start(TRUETAPE.as_ref(), args, env);
        let at = process.listening();
        Self { process, at }
    }

    /// The admin address.
    pub(crate) fn admin(&self) -> SocketAddr {
        self.at.admin.unwrap()
    }

    /// `http://host:port`.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.at.listen)
    }
}

/// Starts the reference engine; gives its address too.
#[track_caller]
pub(crate) fn engine(more: &[&str]) -> (Process, SocketAddr) {
    let mut args = vec!["stub", "engine", "--listen", "127.0.0.1:0"];
    args.extend(more);
    let process = Process::start(TRUETAPE.as_ref(), args, &[]);
    let addr = process.listening().listen;
    (process, addr)
}

/// A set, read back.
#[derive(Debug)]
pub(crate) struct Set {
    pub(crate) dir: PathBuf,
    pub(crate) manifest: Manifest,
    pub(crate) turns: Vec<Turn>,
}

/// A recipe that takes everything, at the block size and with the tokenizer of the stub.
pub(crate) fn recipe(name: &str, content: &str) -> String {
    format!(
        "name = \"{name}\"\n[tokens]\ntokenizer = \"bytes:4\"\nblock_tokens = 16\n\
         [select]\nmethod = \"all\"\n[content]\nkind = \"{content}\"\n"
    )
}

/// Compiles a capture, and reads the set.
#[track_caller]
pub(crate) fn compile(dir: &TempDir, capture: &Path, name: &str, content: &str) -> Set {
    let recipe_file = dir.join(&format!("{name}.toml"));
    std::fs::write(&recipe_file, recipe(name, content)).unwrap();
    let store_dir = dir.join("sets");
    let args: [&std::ffi::OsStr; 6] = [
        "compile".as_ref(),
        capture.as_os_str(),
        "--recipe".as_ref(),
        recipe_file.as_os_str(),
        "--store".as_ref(),
        store_dir.as_os_str(),
    ];
    let ended = truetape(&args);
    assert!(matches!(ended.code, Some(0 | 1)), "{ended:?}");
    let dir = store::resolve(&format!("{name}@latest"), Some(&store_dir)).unwrap();
    let manifest = store::manifest(&dir).unwrap();
    let turns = store::turns(&dir).unwrap();
    Set {
        dir,
        manifest,
        turns,
    }
}
