//! A capture is the same where it was shipped to as where it was recorded.

use super::{args, key, no_env, once, seal, url};
use crate::support::{TRUETAPE, recipe, truetape};
use std::ffi::OsString;
use std::path::Path;
use truetape_schemas::set::store;
use truetape_testkit::process::{Ended, run_with};
use truetape_testkit::s3::{FakeS3, Fault};
use truetape_testkit::tempdir::TempDir;

fn with(env: &[(String, String)], args: &[OsString]) -> Ended {
    let env: Vec<(&str, &str)> = env.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    run_with(TRUETAPE.as_ref(), args, &env)
}

fn verb(name: &str, what: &str) -> Vec<OsString> {
    ["".into(), name.into(), what.into()][1..].to_vec()
}

/// Compiles what a path or URL names, and gives the digest of the set.
pub(super) fn digest(scratch: &TempDir, what: &str, env: &[(String, String)]) -> String {
    let recipe_file = scratch.join("recipe.toml");
    std::fs::write(&recipe_file, recipe("one", "synthetic")).unwrap();
    let sets = scratch.join(&format!("sets-{}", what.len()));
    let mut args = verb("compile", what);
    args.extend([
        "--recipe".into(),
        recipe_file.into(),
        "--store".into(),
        sets.clone().into(),
    ]);
    with(env, &args).expect_code(0);
    let dir = store::resolve("one@latest", Some(&sets)).unwrap();
    store::manifest(&dir).unwrap().digest
}

#[test]
fn a_digest_is_the_same_from_a_folder_a_bucket_and_a_mount() {
    let scratch = TempDir::new("ship-digest");
    let dir = scratch.join("capture");
    for number in 1..=3 {
        seal(&dir, number, 3_000);
    }
    let local = digest(&scratch, &dir.display().to_string(), &no_env());
    let mount = scratch.join("mount");
    std::fs::create_dir(&mount).unwrap();
    let mount = format!("file://{}", mount.display());
    let keep = args(&dir, &mount, &["--once", "--keep-local"]);
    truetape(&keep).expect_code(0);
    assert_eq!(digest(&scratch, &mount, &no_env()), local);
    let bucket = FakeS3::start(|_| Fault::None);
    once(&dir, &url(), &bucket.env()).expect_code(0);
    assert_eq!(digest(&scratch, &url(), &bucket.env()), local);
    for name in ["profile", "inspect", "verify"] {
        let ended = with(&bucket.env(), &verb(name, &url()));
        assert_eq!(ended.code, Some(0), "{name}: {ended:?}");
    }
    let one = bucket.objects().into_keys().next().unwrap();
    let one = format!("s3://{}/{one}", truetape_testkit::s3::BUCKET);
    let ended = with(&bucket.env(), &verb("verify", &one)).expect_code(0);
    assert!(ended.stdout.contains("1 rows"), "{}", ended.stdout);
}

#[test]
fn what_cannot_be_read_is_said_with_the_right_code() {
    let bucket = FakeS3::start(|_| Fault::None);
    bucket.put("live/readme.txt", b"nothing");
    bucket.put("set/manifest.json", b"{}");
    let denied = FakeS3::start(|_| Fault::Status(403, "AccessDenied"));
    let at = |path: &str| format!("s3://{path}");
    let cases = [
        (
            &bucket,
            at("tapes/live"),
            65,
            "no segments (*.parquet) there",
        ),
        (
            &bucket,
            at("tapes/nothing"),
            65,
            "no segments (*.parquet) there",
        ),
        (
            &bucket,
            at("tapes/live/a.parquet"),
            65,
            "no segments (*.parquet) there",
        ),
        (
            &bucket,
            at("tapes/set"),
            65,
            "is a set; a URL names captures",
        ),
        (&bucket, at("elsewhere/live"), 69, "no such bucket"),
        (&denied, at("tapes/live"), 69, "denies access"),
    ];
    for (store, what, code, said) in cases {
        let ended = with(&store.env(), &verb("verify", &what));
        assert_eq!(ended.code, Some(code), "{what}: {ended:?}");
        assert!(
            ended.stderr.contains(said) && ended.stderr.contains(&what),
            "{}",
            ended.stderr
        );
    }
    for (what, code) in [
        ("ftp://host/x", 78),
        ("s3://", 78),
        ("file:///no/such/folder", 65),
    ] {
        let ended = with(&no_env(), &verb("inspect", what));
        assert_eq!(ended.code, Some(code), "{what}: {ended:?}");
    }
    // A shipper fills no folder that is not there: it may be a mount that is missing.
    let ended = once(Path::new("."), "file:///no/such/folder", &no_env()).expect_code(78);
    assert!(ended.stderr.contains("make the folder"), "{}", ended.stderr);
}

#[test]
fn a_prefix_that_is_too_large_is_not_fetched() {
    let scratch = TempDir::new("ship-large");
    let (name, bytes) = seal(&scratch.join("capture"), 1, 3_000);
    let bucket = FakeS3::start(|_| Fault::None);
    bucket.put(&key(&name), &bytes);
    let mut env = bucket.env();
    env.push(("TRUETAPE_FETCH_BYTES_MAX".to_owned(), "1KiB".to_owned()));
    let ended = with(&env, &verb("verify", &url())).expect_code(65);
    assert!(
        ended.stderr.contains("TRUETAPE_FETCH_BYTES_MAX"),
        "{}",
        ended.stderr
    );
}
