//! Sealed segments leave the machine exactly once, through kills, outages and a store that lies.
//!
//! [`crash`]: killed at random moments; [`network`]: what a store does wrong; [`reading`]: the same
//! captures read from where they were shipped to; [`moto`]: a real S3-compatible server.

use crate::support::TRUETAPE;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use truetape_schemas::capture::Exchange;
use truetape_schemas::capture::footer::Footer;
use truetape_schemas::file::Writer;
use truetape_schemas::ledger::Ledger;
use truetape_testkit::process::{Ended, Process, RUN_WITHIN};
use truetape_testkit::s3::{BUCKET, env};
use truetape_testkit::trace::Numbers;

mod crash;
mod moto;
mod network;
mod reading;

/// Larger than the part that a shipper sends at once (8 MiB).
const LARGE_BYTES: usize = 9 << 20;

/// Writes a sealed segment of one row, with a body that does not compress; gives its bytes.
fn seal(dir: &Path, number: u64, body_bytes: usize) -> (String, Vec<u8>) {
    std::fs::create_dir_all(dir).unwrap();
    let mut numbers = Numbers::new(number);
    let body: Vec<u8> = (0..body_bytes.div_ceil(8))
        .flat_map(|_| numbers.next_u64().to_le_bytes())
        .collect();
    let name = format!("pod-7-1732960000000000-{number:06}.parquet");
    let path = dir.join(&name);
    let row = Exchange {
        exchange_id: format!("exchange-{number}"),
        proxy_id: "pod-7".to_owned(),
        arrival: 1_732_960_000_000_000 + i64::try_from(number).unwrap(),
        arrival_mono_us: i64::try_from(number).unwrap(),
        method: "POST".to_owned(),
        path: "/v1/chat/completions".to_owned(),
        dialect: "openai_chat".to_owned(),
        input_tokens: Some(8),
        output_tokens: Some(2),
        response_body: Some(body),
        ..Exchange::default()
    };
    let footer = Footer {
        ledger: Some(Ledger {
            offered: 1,
            recorded: 1,
            ..Ledger::default()
        }),
        ..Footer::default()
    };
    let mut writer = Writer::create(&path).unwrap();
    writer.write(&[row]).unwrap();
    writer.finish(&footer.to_pairs()).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    (name, bytes)
}

/// Where a store keeps a segment of [`seal`].
fn key(name: &str) -> String {
    format!("live/pod-7/{name}")
}

/// The URL of captures in a store of S3's kind.
fn url() -> String {
    format!("s3://{BUCKET}/live")
}

/// A command line of `ship`.
fn args(dir: &Path, url: &str, more: &[&str]) -> Vec<OsString> {
    let mut args: Vec<OsString> = vec!["ship".into(), dir.into(), url.into()];
    args.extend(more.iter().map(OsString::from));
    args
}

fn start(dir: &Path, url: &str, more: &[&str], env: &[(String, String)]) -> Process {
    let env: Vec<(&str, &str)> = env.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    Process::start(TRUETAPE.as_ref(), args(dir, url, more), &env)
}

fn once(dir: &Path, url: &str, env: &[(String, String)]) -> Ended {
    start(dir, url, &["--once", "--format", "json"], env).wait(RUN_WITHIN)
}

/// The summary that a shipper printed.
fn summary(ended: &Ended) -> serde_json::Value {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|cause| panic!("{cause}: {ended:?}"))
}

/// Every file that a directory holds, but for the lock of a shipper.
fn left(dir: &Path) -> Vec<PathBuf> {
    let mut files = truetape_testkit::capture::files(dir);
    files.retain(|path| !path.ends_with(".truetape-ship.lock"));
    files
}

/// The files below a folder, by their path in it.
fn tree(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let named = |path: PathBuf| {
        let name = path.strip_prefix(dir).unwrap().display().to_string();
        (name, std::fs::read(&path).unwrap())
    };
    truetape_testkit::capture::files(dir)
        .into_iter()
        .map(named)
        .collect()
}

fn no_env() -> Vec<(String, String)> {
    env("http://127.0.0.1:1")
}
