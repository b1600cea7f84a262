//! Killed at random moments: at the end every segment is in the store once, byte for byte, and none
//! is left here.

use super::{LARGE_BYTES, left, no_env, once, seal, start, tree, url};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use truetape_testkit::s3::{FakeS3, Fault};
use truetape_testkit::tempdir::TempDir;
use truetape_testkit::trace::Numbers;

const KILLS: u64 = 20;

/// Every fifth segment goes in parts.
const LARGE_EVERY: u64 = 5;

/// Lets a shipper live for a random while, again and again, with a new segment each time; then lets
/// one finish. Gives what must be in the store.
fn kill_again_and_again(
    seed: u64,
    dir: &Path,
    url: &str,
    env: &[(String, String)],
) -> BTreeMap<String, Vec<u8>> {
    let mut numbers = Numbers::new(seed);
    let mut sealed = BTreeMap::new();
    let mut killed_at_work = 0;
    for number in 1..=KILLS {
        let large = number % LARGE_EVERY == 0;
        let (name, bytes) = seal(dir, number, if large { LARGE_BYTES } else { 3_000 });
        sealed.insert(name, bytes);
        let shipper = start(dir, url, &["--every", "100ms"], env);
        // What is being tested is any moment at all, so no event is awaited.
        std::thread::sleep(Duration::from_millis(numbers.between(0, 600)));
        killed_at_work += u64::from(shipper.kill().code.is_none());
    }
    assert_eq!(
        killed_at_work, KILLS,
        "a shipper ended before it was killed"
    );
    let ended = once(dir, url, env).expect_code(0);
    assert_eq!(
        left(dir),
        Vec::<std::path::PathBuf>::new(),
        "seed {seed}: {ended:?}"
    );
    sealed
}

#[test]
fn a_folder_holds_every_segment_once_after_kills() {
    let scratch = TempDir::new("ship-kill-folder");
    let (dir, store) = (scratch.join("capture"), scratch.join("store"));
    std::fs::create_dir(&store).unwrap();
    let url = format!("file://{}/live", store.display());
    std::fs::create_dir(store.join("live")).unwrap();
    let sealed = kill_again_and_again(11, &dir, &url, &no_env());
    let wanted: BTreeMap<_, _> = sealed
        .into_iter()
        .map(|(name, bytes)| (format!("live/pod-7/{name}"), bytes))
        .collect();
    let found = tree(&store);
    assert_eq!(
        found.keys().collect::<Vec<_>>(),
        wanted.keys().collect::<Vec<_>>()
    );
    assert!(found == wanted, "a segment is not what was sealed");
}

#[test]
fn a_slow_bucket_holds_every_segment_once_after_kills() {
    let scratch = TempDir::new("ship-kill-s3");
    let dir = scratch.join("capture");
    let store = FakeS3::start(|_| Fault::Slow(Duration::from_millis(15)));
    let sealed = kill_again_and_again(12, &dir, &url(), &store.env());
    let wanted: BTreeMap<_, _> = sealed
        .into_iter()
        .map(|(name, bytes)| (super::key(&name), bytes))
        .collect();
    let found = store.objects();
    assert_eq!(
        found.keys().collect::<Vec<_>>(),
        wanted.keys().collect::<Vec<_>>()
    );
    assert!(found == wanted, "a segment is not what was sealed");
    let written_over = store.overwritten();
    assert!(
        written_over.iter().all(|key| key.ends_with(".uploading")),
        "{written_over:?}"
    );
}
