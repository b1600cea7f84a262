use super::*;
use crate::spool;
use std::os::unix::fs::PermissionsExt as _;
use truetape_schemas::time::ClockAnchor;

fn anchor() -> ClockAnchor {
    ClockAnchor {
        wall_us: 10,
        mono_us: 3,
    }
}

fn head() -> Vec<u8> {
    spool::begin(&Head {
        opened: anchor(),
        config_digest: "d".to_owned(),
        redaction_profile: "r".to_owned(),
        tool_version: "0".to_owned(),
    })
    .unwrap()
}

fn row(id: usize) -> Vec<u8> {
    let exchange = Exchange {
        exchange_id: id.to_string(),
        request_body: Some(vec![b'x'; 10]),
        ..Exchange::default()
    };
    spool::row(exchange).unwrap()
}

fn note(offered: u64, closed: bool) -> Vec<u8> {
    let ledger = Ledger {
        offered,
        ..Ledger::default()
    };
    spool::note(&Note {
        ledger,
        anchor: anchor(),
        closed,
    })
    .unwrap()
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
    let spool = spool_of(directory.path(), &[head(), note.unwrap()]);
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
