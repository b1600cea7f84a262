//! The states that a kill leaves, and what a stop gives up, with stores in memory and in a folder.

use super::pace::Pace;
use super::scan::{Segment, scan};
use super::tally::Tally;
use super::upload::{Halt, Shipped, Shipper};
use crate::objects::Objects;
use object_store::memory::InMemory;
use object_store::multipart::MultipartStore;
use object_store::path::Path as Key;
use object_store::{ObjectStore, ObjectStoreExt as _};
use std::path::Path;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use truetape_schemas::capture::Exchange;
use truetape_schemas::file::Writer;

/// Far less than a segment: all go in parts.
const SMALL_PARTS: u64 = 700;

/// Far more.
const ONE_PART: u64 = 1 << 30;

fn seal(dir: &Path, number: u32) -> Segment {
    let mut writer = Writer::create(&dir.join(format!("pod-17-{number:06}.parquet"))).unwrap();
    writer.write(&[Exchange::default()]).unwrap();
    writer.finish(&[]).unwrap();
    scan(dir).unwrap().ready.pop().unwrap()
}

fn shipper(dir: &Path, objects: Objects, part_bytes: u64) -> Shipper {
    Shipper {
        objects,
        dir: dir.to_owned(),
        pace: Pace::new(None),
        keep_local: false,
        stop: CancellationToken::new(),
        tally: Arc::new(Tally::default()),
        part_bytes,
    }
}

fn in_memory() -> (Arc<InMemory>, Objects) {
    let store = Arc::new(InMemory::new());
    let objects = Objects {
        store: Arc::clone(&store) as _,
        parts: Some(Arc::clone(&store) as Arc<dyn MultipartStore>),
        prefix: Key::from("live"),
        url: "memory".to_owned(),
    };
    (store, objects)
}

async fn keys(store: &dyn ObjectStore) -> Vec<String> {
    use futures_util::TryStreamExt as _;
    let listed: Vec<_> = store.list(None).try_collect().await.unwrap();
    let mut keys: Vec<String> = listed
        .into_iter()
        .map(|meta| meta.location.to_string())
        .collect();
    keys.sort();
    keys
}

async fn bytes(store: &dyn ObjectStore, key: &str) -> Vec<u8> {
    store
        .get(&Key::from(key))
        .await
        .unwrap()
        .bytes()
        .await
        .unwrap()
        .to_vec()
}

const KEY: &str = "live/pod/pod-17-000001.parquet";
const STAGING: &str = "live/pod/pod-17-000001.parquet.uploading";

#[tokio::test]
async fn a_segment_leaves_whole_or_in_parts() {
    for part_bytes in [SMALL_PARTS, ONE_PART] {
        let dir = tempfile::tempdir().unwrap();
        let segment = seal(dir.path(), 1);
        let sealed = std::fs::read(&segment.path).unwrap();
        let (store, objects) = in_memory();
        let shipped = shipper(dir.path(), objects, part_bytes)
            .ship(&segment)
            .await
            .unwrap();
        assert_eq!(shipped, Shipped::Sent);
        assert_eq!(keys(&*store).await, [KEY]);
        assert_eq!(bytes(&*store, KEY).await, sealed);
        assert_eq!(
            std::fs::read_dir(dir.path()).unwrap().count(),
            0,
            "nothing is left here"
        );
    }
}

#[tokio::test]
async fn every_state_that_a_kill_leaves_is_resumed_from() {
    let states: [&[&str]; 3] = [&[STAGING], &[KEY], &[STAGING, KEY]];
    for state in states {
        let dir = tempfile::tempdir().unwrap();
        let segment = seal(dir.path(), 1);
        let sealed = std::fs::read(&segment.path).unwrap();
        let (store, objects) = in_memory();
        for key in state {
            let torn = if *key == STAGING {
                sealed[..9].to_vec()
            } else {
                sealed.clone()
            };
            store.put(&Key::from(*key), torn.into()).await.unwrap();
        }
        // A predecessor was in the middle of its parts, and noted so.
        let id = store.create_multipart(&Key::from(STAGING)).await.unwrap();
        let note = dir
            .path()
            .join(".truetape-ship-pod-17-000001.parquet.upload");
        std::fs::write(&note, &id).unwrap();
        let shipped = shipper(dir.path(), objects, SMALL_PARTS)
            .ship(&segment)
            .await
            .unwrap();
        let was_there = state.contains(&KEY);
        assert_eq!(
            shipped,
            if was_there {
                Shipped::There
            } else {
                Shipped::Sent
            },
            "{state:?}"
        );
        assert_eq!(keys(&*store).await, [KEY], "{state:?}");
        assert_eq!(bytes(&*store, KEY).await, sealed, "{state:?}");
        assert_eq!(
            std::fs::read_dir(dir.path()).unwrap().count(),
            0,
            "{state:?}"
        );
        let again = store
            .put_part(&Key::from(STAGING), &id, 0, "x".into())
            .await;
        assert!(again.is_err(), "the upload that was noted is still open");
    }
}

#[tokio::test]
async fn another_content_is_kept_on_both_sides() {
    for part_bytes in [SMALL_PARTS, ONE_PART] {
        let dir = tempfile::tempdir().unwrap();
        let segment = seal(dir.path(), 1);
        let mut other = std::fs::read(&segment.path).unwrap();
        other[9] ^= 1;
        let (store, objects) = in_memory();
        store
            .put(&Key::from(KEY), other.clone().into())
            .await
            .unwrap();
        let halt = shipper(dir.path(), objects, part_bytes)
            .ship(&segment)
            .await
            .unwrap_err();
        assert!(
            matches!(&halt, Halt::Conflict(why) if why.contains("another content")),
            "{halt:?}"
        );
        assert_eq!(bytes(&*store, KEY).await, other);
        assert!(segment.path.is_file());
    }
}

#[tokio::test]
async fn a_stop_between_parts_gives_the_upload_up() {
    let dir = tempfile::tempdir().unwrap();
    let segment = seal(dir.path(), 1);
    let (store, objects) = in_memory();
    let mut shipper = shipper(dir.path(), objects, SMALL_PARTS);
    // The second part's turn comes in hours.
    shipper.pace = Pace::new(Some(1));
    let stop = shipper.stop.clone();
    let note = dir
        .path()
        .join(".truetape-ship-pod-17-000001.parquet.upload");
    let stopping = async {
        while !note.is_file() {
            tokio::task::yield_now().await;
        }
        stop.cancel();
    };
    let (shipped, ()) = tokio::join!(shipper.ship(&segment), stopping);
    assert!(matches!(shipped, Err(Halt::Stopped)), "{shipped:?}");
    assert_eq!(keys(&*store).await, [""; 0]);
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "the segment, and no note: {left:?}");
    assert!(segment.path.is_file());
}

#[tokio::test]
async fn a_folder_gets_the_same_and_keeps_no_working_name() {
    let dir = tempfile::tempdir().unwrap();
    let target = tempfile::tempdir().unwrap();
    let segment = seal(dir.path(), 1);
    let sealed = std::fs::read(&segment.path).unwrap();
    let folder = target.path().join("pod");
    std::fs::create_dir(&folder).unwrap();
    let staging = folder.join("pod-17-000001.parquet.uploading");
    std::fs::write(
        &staging,
        b"torn, and longer than what is to come".repeat(1_000),
    )
    .unwrap();
    let open = || Objects::open(&format!("file://{}", target.path().display())).unwrap();
    let shipped = shipper(dir.path(), open(), SMALL_PARTS)
        .ship(&segment)
        .await
        .unwrap();
    assert_eq!(shipped, Shipped::Sent);
    assert_eq!(
        std::fs::read(folder.join("pod-17-000001.parquet")).unwrap(),
        sealed
    );
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
    assert!(!segment.path.is_file());
    let segment = seal(dir.path(), 1);
    let shipped = shipper(dir.path(), open(), SMALL_PARTS)
        .ship(&segment)
        .await
        .unwrap();
    assert_eq!(shipped, Shipped::There);
}

#[tokio::test]
async fn a_segment_that_the_recorder_removed_is_no_fault() {
    let dir = tempfile::tempdir().unwrap();
    let segment = seal(dir.path(), 1);
    std::fs::remove_file(&segment.path).unwrap();
    let (store, objects) = in_memory();
    let shipped = shipper(dir.path(), objects, ONE_PART)
        .ship(&segment)
        .await
        .unwrap();
    assert_eq!(shipped, Shipped::Gone);
    assert_eq!(keys(&*store).await, [""; 0]);
}
