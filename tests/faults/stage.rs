//! A recorder under load.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use truetape_schemas::ledger::Ledger;
use truetape_testkit::client::{exchange, request};
use truetape_testkit::process::{Ended, Listening, Process, run};

/// The same function as `truetape-proxy`, in the program that this package builds.
const TRUETAPE: &str = env!("CARGO_BIN_EXE_truetape");

/// Longest wait for what must happen.
pub(crate) const WITHIN: Duration = Duration::from_secs(40);

pub(crate) fn truetape<A: Into<OsString> + Clone>(args: &[A]) -> Ended {
    run(TRUETAPE.as_ref(), args.iter().cloned().map(Into::into))
}

#[derive(Debug)]
pub(crate) struct Recorder {
    pub(crate) process: Process,
    pub(crate) at: Listening,
    out: PathBuf,
}

impl Recorder {
    pub(crate) fn start(upstream: SocketAddr, out: &Path, more: &[&str]) -> Self {
        Self::run(TRUETAPE, &[], upstream, out, more)
    }

    /// Started by another program, as a shell that sets limits.
    pub(crate) fn run(
        program: &str,
        before: &[&str],
        upstream: SocketAddr,
        out: &Path,
        more: &[&str],
    ) -> Self {
        let mut args: Vec<OsString> = before.iter().map(OsString::from).collect();
        let fixed = [
            "record",
            "--listen",
            "127.0.0.1:0",
            "--admin",
            "127.0.0.1:0",
        ];
        args.extend(fixed.map(OsString::from));
        args.extend(["--upstream".into(), format!("http://{upstream}").into()]);
        args.extend(["--out".into(), out.as_os_str().to_owned()]);
        args.extend(more.iter().map(OsString::from));
        let process = Process::start(program.as_ref(), args, &[]);
        Self {
            at: process.listening(),
            process,
            out: out.to_owned(),
        }
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.at.listen
    }

    fn page(&self, path: &str) -> String {
        exchange(
            self.at.admin.unwrap(),
            &request("GET", path, &[], b""),
            None,
        )
        .text()
    }

    /// The samples of `/metrics`.
    pub(crate) fn metrics(&self) -> BTreeMap<String, f64> {
        let sample = |line: &str| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        self.page("/metrics").lines().filter_map(sample).collect()
    }

    pub(crate) fn metric(&self, name: &str) -> f64 {
        self.metrics().get(name).copied().unwrap_or(0.0)
    }

    pub(crate) fn dropped(&self, reason: &str) -> f64 {
        self.metric(&format!(
            "truetape_records_dropped_total{{reason=\"{reason}\"}}"
        ))
    }

    pub(crate) fn state(&self) -> String {
        let page: serde_json::Value = serde_json::from_str(&self.page("/capture")).unwrap();
        page["state"].as_str().unwrap().to_owned()
    }

    #[track_caller]
    pub(crate) fn wait(&self, what: &str, mut until: impl FnMut(&Self) -> bool) {
        let deadline = Instant::now() + WITHIN;
        while !until(self) {
            assert!(
                Instant::now() < deadline,
                "{what} never was: {}\n{}",
                self.page("/capture"),
                self.process.log()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Resident memory now, in MiB.
    pub(crate) fn rss_mib(&self) -> u64 {
        self.status_mib("VmRSS:")
    }

    /// Most resident memory so far, in MiB.
    pub(crate) fn peak_mib(&self) -> u64 {
        self.status_mib("VmHWM:")
    }

    fn status_mib(&self, field: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id()));
        let status = status.unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        let kib: u64 = line
            .unwrap()
            .trim()
            .trim_end_matches(" kB")
            .parse()
            .unwrap();
        kib / 1024
    }

    /// Stops it in order, and checks what it left.
    #[track_caller]
    pub(crate) fn finish(self, offered: u64) -> Ledger {
        let out = self.out.clone();
        self.process.stop().expect_code(0);
        let ledger = verified(&out, None);
        assert_eq!(ledger.offered, offered, "{ledger:?}");
        ledger
    }
}

/// The account of a capture that `truetape verify` finds nothing wrong with.
#[track_caller]
pub(crate) fn verified(out: &Path, key_file: Option<&Path>) -> Ledger {
    let keys = key_file.map(|file| ["--key-file".into(), file.as_os_str().to_owned()]);
    let with_keys = |verb: &str, more: &[&str]| {
        let mut args: Vec<OsString> = vec![verb.into(), out.as_os_str().to_owned()];
        args.extend(more.iter().map(OsString::from));
        args.extend(keys.iter().flatten().cloned());
        truetape(&args).expect_code(0).stdout
    };
    with_keys("verify", &[]);
    let shown = with_keys("inspect", &["--format", "json"]);
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    let ledger: Ledger = serde_json::from_value(shown["ledger"].clone()).unwrap();
    assert!(ledger.balances(), "{ledger:?}");
    let left: Vec<PathBuf> = truetape_testkit::capture::files(out)
        .into_iter()
        .filter(|path| {
            path.extension()
                .is_some_and(|ext| ext == "spool" || ext == "tmp")
        })
        .collect();
    assert!(left.is_empty(), "{left:?}");
    ledger
}
