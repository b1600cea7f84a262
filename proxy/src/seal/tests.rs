use super::*;
use crate::spool;
use crate::spool::{Frame, Pen};
use std::os::unix::fs::PermissionsExt as _;
use truetape_schemas::time::ClockAnchor;

fn anchor() -> ClockAnchor {
    ClockAnchor {
        wall_us: 10,
        mono_us: 3,
    }
}

/// Frames of a spool in the clear.
fn written(frames: &[Frame]) -> Vec<u8> {
    let (mut pen, _) = Pen::new(None).unwrap();
    let mut bytes = Vec::new();
    for frame in frames {
        pen.write(frame, &mut bytes).unwrap();
    }
    bytes
}

fn head() -> Vec<u8> {
    let head = spool::head(&Head {
        opened: anchor(),
        terms: spool::Terms {
            config_digest: "d".to_owned(),
            redaction_profile: "r".to_owned(),
            ..spool::Terms::default()
        },
        tool_version: "0".to_owned(),
        columns: spool::columns().to_vec(),
    });
    [spool::MAGIC.to_vec(), written(&[head.unwrap()])].concat()
}

fn row(id: usize) -> Vec<u8> {
    let exchange = Exchange {
        exchange_id: id.to_string(),
        request_body: Some(vec![b'x'; 10]),
        ..Exchange::default()
    };
    written(&[spool::row(exchange).unwrap()])
}

fn note(offered: u64, closed: bool) -> Vec<u8> {
    let ledger = Ledger {
        offered,
        ..Ledger::default()
    };
    let note = spool::note(&Note {
        ledger,
        anchor: anchor(),
        closed,
    });
    written(&[note.unwrap()])
}

fn seal(spool: &Path) -> Result<Sealed, Error> {
    super::seal(spool, &Keyring::default())
}

fn spool_of(directory: &Path, parts: &[Vec<u8>]) -> PathBuf {
    let path = directory.join("p-1-000001.spool");
    std::fs::write(&path, parts.concat()).unwrap();
    path
}

fn ids(path: &Path) -> Vec<String> {
    let rows = file::Reader::<Exchange>::open(path)
        .unwrap()
        .read_all()
        .unwrap();
    rows.into_iter().map(|row| row.exchange_id).collect()
}

#[test]
fn a_torn_spool_becomes_a_segment_that_says_what_was_lost() {
    let directory = tempfile::tempdir().unwrap();
    let torn = row(3)[..20].to_vec();
    let spool = spool_of(
        directory.path(),
        &[head(), row(1), row(2), note(5, false), torn],
    );
    let sealed = seal(&spool).unwrap();
    let path = sealed.path.unwrap();
    assert_eq!(ids(&path), ["1", "2"]);
    assert_eq!((sealed.closed, sealed.torn_bytes), (false, 20));
    assert_eq!((sealed.ledger.offered, sealed.ledger.recorded), (5, 2));
    assert_eq!(sealed.ledger.dropped["killed"], 3);
    assert!(!spool.try_exists().unwrap());
    let footer = Footer::from_pairs(file::Reader::<Exchange>::open(&path).unwrap().footer());
    assert_eq!(footer.ledger, Some(sealed.ledger));
    assert_eq!(footer.clock_anchors, [anchor(), anchor()]);
    assert_eq!(footer.proxy_config_digest.as_deref(), Some("d"));
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_ledger_of_absurd_counts_is_sealed_and_balances() {
    let mut ledger = Ledger {
        offered: u64::MAX,
        sampled_out: 1,
        ..Ledger::default()
    };
    for reason in ["bug", "disk", "memory"] {
        ledger.dropped.insert(reason.to_owned(), u64::MAX);
    }
    let note = spool::note(&Note {
        ledger,
        anchor: anchor(),
        closed: true,
    });
    // A frame that means nothing is one more lost to a bug.
    let strange = Frame::whole(b"?".to_vec());
    let directory = tempfile::tempdir().unwrap();
    let parts = [head(), row(1), written(&[strange, note.unwrap()])];
    let sealed = seal(&spool_of(directory.path(), &parts)).unwrap();
    assert!(sealed.ledger.balances());
    assert_eq!(
        (sealed.ledger.offered, sealed.ledger.recorded),
        (u64::MAX, 1)
    );
    assert_eq!(ids(&sealed.path.unwrap()), ["1"]);
}

#[test]
fn a_crash_between_rename_and_removal_makes_no_row_twice() {
    let directory = tempfile::tempdir().unwrap();
    let parts = [head(), row(1), note(1, true)];
    let spool = spool_of(directory.path(), &parts);
    let first = seal(&spool).unwrap();
    let spool = spool_of(directory.path(), &parts);
    let again = seal(&spool).unwrap();
    assert_eq!((&again.path, &again.ledger), (&first.path, &first.ledger));
    assert_eq!(ids(&again.path.unwrap()), ["1"]);
    assert!(!spool.try_exists().unwrap());
}

#[test]
fn a_crash_while_sealing_leaves_nothing_that_looks_sealed() {
    let directory = tempfile::tempdir().unwrap();
    let spool = spool_of(directory.path(), &[head(), row(1), note(1, true)]);
    let aside = aside_path(&segment_path(&spool));
    std::fs::write(&aside, b"PAR1 half").unwrap();
    let sealed = seal(&spool).unwrap();
    assert_eq!(ids(&sealed.path.unwrap()), ["1"]);
    assert!(!aside.try_exists().unwrap());
}

#[test]
fn a_spool_that_tells_nothing_leaves_no_file() {
    for parts in [
        vec![],
        vec![head()],
        vec![head(), note(0, false)],
        vec![b"TTSP".to_vec()],
    ] {
        let directory = tempfile::tempdir().unwrap();
        let spool = spool_of(directory.path(), &parts);
        let sealed = seal(&spool).unwrap();
        assert_eq!((sealed.path, sealed.ledger), (None, Ledger::default()));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}

#[test]
fn a_spool_of_probes_alone_keeps_its_account() {
    let directory = tempfile::tempdir().unwrap();
    let mut ledger = Ledger {
        offered: 2,
        ..Ledger::default()
    };
    ledger.excluded.insert("not_inference".to_owned(), 2);
    let note = spool::note(&Note {
        ledger: ledger.clone(),
        anchor: anchor(),
        closed: true,
    });
    let spool = spool_of(directory.path(), &[head(), written(&[note.unwrap()])]);
    let sealed = seal(&spool).unwrap();
    assert_eq!(sealed.ledger, ledger);
    assert!(ids(&sealed.path.unwrap()).is_empty());
}

#[test]
fn rows_that_a_note_did_not_know_of_are_rows_all_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let spool = spool_of(directory.path(), &[head(), note(1, false), row(1), row(2)]);
    let sealed = seal(&spool).unwrap();
    assert_eq!((sealed.ledger.offered, sealed.ledger.rows()), (2, 2));
    assert!(sealed.ledger.balances());
}

#[test]
fn an_encrypted_spool_becomes_an_encrypted_segment_and_waits_for_its_key() {
    let directory = tempfile::tempdir().unwrap();
    let keys = Keyring::of(truetape_schemas::file::key::Key::new(vec![5; 32]).unwrap());
    let (mut pen, mut bytes) = Pen::new(keys.writing()).unwrap();
    let exchange = Exchange {
        exchange_id: "1".to_owned(),
        request_body: Some(b"a prompt".to_vec()),
        ..Exchange::default()
    };
    pen.write(&spool::row(exchange.clone()).unwrap(), &mut bytes)
        .unwrap();
    assert!(!bytes.windows(8).any(|part| part == b"a prompt"));
    let torn = [bytes.as_slice(), b"torn"].concat();
    let spool = spool_of(directory.path(), &[torn]);
    let refused = seal(&spool).unwrap_err();
    assert!(matches!(refused, Error::NoKey { .. }), "{refused}");
    assert!(spool.try_exists().unwrap(), "it waits");
    let sealed = super::seal(&spool, &keys).unwrap();
    assert_eq!((sealed.ledger.rows(), sealed.torn_bytes), (1, 4));
    let path = sealed.path.unwrap();
    assert!(file::Reader::<Exchange>::open(&path).is_err());
    let rows = file::Reader::<Exchange>::open_with(&path, &keys).unwrap();
    assert_eq!(rows.read_all().unwrap(), [exchange]);
}

#[test]
fn a_spool_of_another_version_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let spool = spool_of(directory.path(), &[b"TTSPOOL9 and more".to_vec()]);
    let refused = seal(&spool).unwrap_err().to_string();
    assert!(refused.contains("another version"), "{refused}");
    assert!(spool.try_exists().unwrap());
}

#[test]
fn long_bodies_are_batches_of_their_own() {
    let directory = tempfile::tempdir().unwrap();
    let body = |length: usize| Exchange {
        exchange_id: length.to_string(),
        request_body: Some(vec![b'q'; length]),
        response_body: length.is_multiple_of(2).then(|| vec![b's'; 3 * length]),
        ..Exchange::default()
    };
    let long = limits::SEAL_BATCH_BYTES_MAX;
    let wanted: Vec<Exchange> = [10, long, 11, long / 2 + 1, 12, 13].map(body).into();
    let frames: Vec<Frame> = wanted
        .iter()
        .map(|row| spool::row(row.clone()).unwrap())
        .collect();
    let spool = spool_of(directory.path(), &[head(), written(&frames)]);
    let path = seal(&spool).unwrap().path.unwrap();
    let reader = file::Reader::<Exchange>::open(&path).unwrap();
    assert_eq!(reader.read_all().unwrap(), wanted);
}
