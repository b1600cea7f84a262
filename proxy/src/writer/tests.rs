use super::*;
use crate::capture::Status;
use crate::disk::Appender;
use crate::metrics::Metric;
use crate::room::{FreeMin, OnQuota, Room};
use crate::seal;
use crate::sealer::Poke;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use truetape_schemas::capture::Exchange;
use truetape_schemas::file;
use truetape_schemas::ledger::Ledger;

/// What a disk does from now on.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mood {
    Well,
    /// Takes so many bytes of the next write, then is full.
    FullAfter(usize),
    /// The same, and refuses to cut off what it took.
    TornAfter(usize),
    /// Refuses to make files, and to take bytes.
    Gone,
    /// Takes bytes, and cannot promise to keep them.
    Unsure,
}

#[derive(Clone)]
struct MoodyDisk(Arc<Mutex<Mood>>, Arc<Mutex<Room>>);

struct MoodyFile {
    file: std::fs::File,
    mood: Arc<Mutex<Mood>>,
}

fn full() -> io::Error {
    io::ErrorKind::StorageFull.into()
}

impl Disk for MoodyDisk {
    fn create(&mut self, path: &Path) -> io::Result<Box<dyn Appender>> {
        if *self.0.lock().unwrap() == Mood::Gone {
            return Err(full());
        }
        Ok(Box::new(MoodyFile {
            file: crate::disk::create(path)?,
            mood: Arc::clone(&self.0),
        }))
    }

    fn room(&mut self, _directory: &Path, _counted: bool) -> io::Result<Room> {
        Ok(*self.1.lock().unwrap())
    }

    fn remove_oldest(&mut self, directory: &Path) -> io::Result<Option<PathBuf>> {
        let oldest = room::remove_oldest(directory)?;
        if oldest.is_some() {
            self.1.lock().unwrap().used_bytes -= QUOTA / 20;
        }
        Ok(oldest)
    }
}

const QUOTA: u64 = 1000;
const FREE_MIN: u64 = 100;

const ROOMY: Room = Room {
    used_bytes: 0,
    free_bytes: 1 << 40,
    size_bytes: 1 << 41,
};

impl MoodyFile {
    fn fill(&mut self, bytes: &[u8], room: usize, left: fn(usize) -> Mood) -> io::Result<()> {
        let taken = room.min(bytes.len());
        *self.mood.lock().unwrap() = left(room - taken);
        self.file.append(&bytes[..taken])?;
        if taken == bytes.len() {
            Ok(())
        } else {
            Err(full())
        }
    }
}

impl Appender for MoodyFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mood = *self.mood.lock().unwrap();
        match mood {
            Mood::Well | Mood::Unsure => self.file.append(bytes),
            Mood::FullAfter(room) => self.fill(bytes, room, Mood::FullAfter),
            Mood::TornAfter(room) => self.fill(bytes, room, Mood::TornAfter),
            Mood::Gone => Err(full()),
        }
    }

    fn truncate(&mut self, bytes: u64) -> io::Result<()> {
        match *self.mood.lock().unwrap() {
            Mood::TornAfter(_) => Err(io::Error::other("input/output error")),
            _ => self.file.truncate(bytes),
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        match *self.mood.lock().unwrap() {
            Mood::Unsure => Err(io::Error::other("input/output error")),
            _ => Ok(()),
        }
    }
}

struct Stage {
    directory: tempfile::TempDir,
    recorder: Arc<Recorder>,
    mood: Arc<Mutex<Mood>>,
    room: Arc<Mutex<Room>>,
    writer: Writer,
    next_id: u64,
    in_progress: u64,
    terms: Arc<crate::spool::Terms>,
}

impl Stage {
    fn new(rotate_rows: u64) -> Self {
        Self::with(rotate_rows, OnQuota::Pause, None)
    }

    fn with(rotate_rows: u64, on_quota: OnQuota, flight: Option<Duration>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (recorder, _records) = Recorder::new(1 << 20, 4);
        let mood = Arc::new(Mutex::new(Mood::Well));
        let room = Arc::new(Mutex::new(ROOMY));
        let terms = Arc::default();
        let setup = Setup {
            rotation: Rotation {
                bytes: 1 << 20,
                rows: rotate_rows,
                every: Duration::from_secs(3600),
                fsync_every: Duration::ZERO,
            },
            room: room::Limits {
                quota: Some(QUOTA),
                on_quota,
                free_min: FreeMin::Bytes(FREE_MIN),
            },
            keys: Keyring::default(),
            flight,
            names: Names {
                directory: directory.path().to_owned(),
                prefix: "p-1".to_owned(),
                next: 1,
            },
            terms: Arc::clone(&terms),
        };
        let writer = Writer::start(
            &recorder,
            &Arc::new(Metrics::default()),
            &Arc::new(Status::default()),
            Box::new(MoodyDisk(Arc::clone(&mood), Arc::clone(&room))),
            setup,
        )
        .unwrap();
        Self {
            directory,
            recorder,
            mood,
            room,
            writer,
            next_id: 0,
            in_progress: 0,
            terms,
        }
    }

    fn entry(&mut self, degraded: bool) -> Entry {
        self.next_id += 1;
        let exchange = Exchange {
            exchange_id: self.next_id.to_string(),
            degraded: degraded.then(|| vec!["body".to_owned()]),
            ..Exchange::default()
        };
        let held = Held::nothing(self.recorder.budget());
        Entry {
            frame: spool::row(exchange).unwrap(),
            degraded,
            held,
            terms: Arc::clone(&self.terms),
        }
    }

    fn act(&mut self, action: &Action) {
        match action {
            Action::Arrive(n) => {
                for _ in 0..*n {
                    self.recorder.account().offer();
                }
                self.in_progress += n;
            }
            Action::Write(n) => {
                let n = self.in_progress.min(*n);
                self.in_progress -= n;
                let batch: Vec<Entry> = (0..n).map(|i| self.entry(i % 3 == 0)).collect();
                if !batch.is_empty() {
                    self.writer.take(batch);
                }
            }
            Action::QueueFull => {
                if self.in_progress > 0 {
                    self.in_progress -= 1;
                    self.recorder.account().lose(Loss::QueueFull, 1);
                }
            }
            Action::Probe => self.recorder.skip(crate::account::Exclusion::NotInference),
            Action::House => self.writer.keep_house(),
            Action::Quiet => self.writer.note_quiet(),
            Action::Disk(mood) => {
                *self.mood.lock().unwrap() = *mood;
                // Time passes: the pause after a failure is over.
                self.time_passes();
            }
            Action::Room(room) => {
                *self.room.lock().unwrap() = *room;
                self.time_passes();
            }
            Action::Flush => self.writer.status.flush(),
            Action::Expire => {
                if let Some(flight) = &mut self.writer.flight {
                    let rows = flight.expire(Instant::now() + Duration::from_secs(3600));
                    let account = self.recorder.account();
                    account.exclude_many(Exclusion::FlightExpired, rows);
                }
            }
        }
    }

    fn time_passes(&mut self) {
        if let Some(paused) = &mut self.writer.paused {
            paused.until = paused.until.map(|_| Instant::now());
        }
        self.writer.looked = None;
    }

    /// Seals what is there; gives the sum of the ledgers, and the ids of the rows.
    fn seal(&self) -> (Ledger, Vec<String>) {
        let mut sum = Ledger::default();
        let mut ids = Vec::new();
        let mut spools: Vec<_> = std::fs::read_dir(self.directory.path())
            .unwrap()
            .map(|e| e.unwrap().path())
            .collect();
        spools.sort();
        for spool in spools {
            let sealed = seal::seal(&spool, &Keyring::default()).unwrap();
            assert!(sealed.ledger.balances(), "{:?}", sealed.ledger);
            let Some(path) = sealed.path else { continue };
            let rows = file::Reader::<Exchange>::open(&path)
                .unwrap()
                .read_all()
                .unwrap();
            assert_eq!(rows.len() as u64, sealed.ledger.rows());
            ids.extend(rows.into_iter().map(|row| row.exchange_id));
            sum.merge(&sealed.ledger);
        }
        (sum, ids)
    }
}

#[derive(Clone, Debug)]
enum Action {
    Arrive(u64),
    Write(u64),
    QueueFull,
    Probe,
    House,
    Quiet,
    Disk(Mood),
    Room(Room),
    Flush,
    Expire,
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        4 => (1u64..6).prop_map(Action::Arrive),
        4 => (1u64..6).prop_map(Action::Write),
        1 => Just(Action::QueueFull),
        1 => Just(Action::Probe),
        3 => Just(Action::House),
        1 => Just(Action::Quiet),
        2 => prop_oneof![
            2 => Just(Mood::Well),
            1 => (0usize..4000).prop_map(Mood::FullAfter),
            1 => (0usize..4000).prop_map(Mood::TornAfter),
            1 => Just(Mood::Gone),
            1 => Just(Mood::Unsure),
        ].prop_map(Action::Disk),
        1 => (0u64..2 * QUOTA, 0u64..2 * FREE_MIN).prop_map(|(used_bytes, free_bytes)| {
            Action::Room(Room { used_bytes, free_bytes, ..ROOMY })
        }),
        1 => Just(Action::Room(ROOMY)),
        1 => Just(Action::Flush),
        1 => Just(Action::Expire),
    ]
}

fn sound(ids: &[String]) -> bool {
    ids.iter().collect::<std::collections::BTreeSet<_>>().len() == ids.len()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Whatever happened, after an orderly end the segments add up to what the process counted, and
    /// hold exactly the rows that it calls recorded or degraded, once each.
    #[test]
    fn the_ledger_balances_after_any_faults(
        actions in proptest::collection::vec(action(), 0..40),
        rotate_rows in 1u64..8,
        flight in any::<bool>(),
    ) {
        let flight = flight.then_some(Duration::from_secs(60));
        let mut stage = Stage::with(rotate_rows, OnQuota::Pause, flight);
        for action in &actions {
            stage.act(action);
        }
        stage.act(&Action::Disk(Mood::Well));
        stage.act(&Action::Room(ROOMY));
        stage.act(&Action::Write(u64::MAX));
        stage.writer.keep_house();
        if stage.writer.open.is_none() {
            stage.writer.open_next().unwrap();
        }
        stage.writer.end();
        let counted = stage.recorder.account().snapshot();
        prop_assert!(counted.balances(), "{counted:?}");
        let (sum, ids) = stage.seal();
        prop_assert_eq!(sum, counted.clone());
        prop_assert_eq!(ids.len() as u64, counted.rows());
        prop_assert!(sound(&ids));
    }

    /// Killed at any point, every row that was written is there once, and the rest of what is known
    /// to have been offered is counted as killed.
    #[test]
    fn a_kill_loses_no_written_row_and_hides_no_loss(
        actions in proptest::collection::vec(action(), 0..40),
        rotate_rows in 1u64..8,
        flight in any::<bool>(),
    ) {
        let flight = flight.then_some(Duration::from_secs(60));
        let mut stage = Stage::with(rotate_rows, OnQuota::Pause, flight);
        for action in &actions {
            stage.act(action);
        }
        let counted = stage.recorder.account().snapshot();
        let torn = stage.writer.open.as_ref().is_some_and(|open| open.torn);
        let (sum, ids) = stage.seal();
        // Killed before it could cut them off, rows that it had called lost are there after all.
        prop_assert!(ids.len() as u64 == counted.rows() || torn && ids.len() as u64 > counted.rows());
        prop_assert!(sound(&ids));
        prop_assert!(sum.offered <= counted.offered);
        let killed = sum.dropped.get("killed").copied().unwrap_or(0);
        prop_assert!(killed <= counted.offered - counted.accounted() + lost(&counted.dropped));
    }
}

fn lost(dropped: &BTreeMap<String, u64>) -> u64 {
    dropped.values().sum()
}

#[test]
fn a_full_disk_costs_rows_and_the_capture_goes_on_after_it() {
    let mut stage = Stage::new(1000);
    stage.act(&Action::Arrive(9));
    stage.act(&Action::Write(3));
    stage.act(&Action::Disk(Mood::FullAfter(10)));
    stage.act(&Action::Write(3));
    assert_eq!(stage.writer.status.state(), "paused_disk");
    stage.act(&Action::Disk(Mood::Well));
    stage.act(&Action::Write(3));
    assert_eq!(stage.writer.status.state(), "recording");
    stage.writer.close(true);
    let (sum, ids) = stage.seal();
    assert_eq!(ids, ["1", "2", "3", "7", "8", "9"]);
    assert_eq!(sum.dropped, BTreeMap::from([("disk".to_owned(), 3)]));
    assert!(sum.balances() && sum.offered == 9);
}

#[test]
fn rows_that_a_failed_write_left_are_cut_off_before_the_next() {
    let mut stage = Stage::new(1000);
    stage.act(&Action::Arrive(4));
    stage.act(&Action::Write(1));
    // Two of three rows get to the disk, and cannot be cut off at once.
    let two = (stage.entry(false).frame.bytes() + 8) * 5 / 2;
    stage.act(&Action::Disk(Mood::TornAfter(two)));
    stage.act(&Action::Write(2));
    stage.act(&Action::Write(1));
    stage.act(&Action::Arrive(1));
    stage.act(&Action::Disk(Mood::Well));
    stage.act(&Action::Write(1));
    stage.writer.close(true);
    let (sum, ids) = stage.seal();
    assert_eq!(sum, stage.recorder.account().snapshot());
    assert_eq!(ids.len() as u64, sum.rows());
}

#[test]
fn what_is_in_progress_at_a_rotation_belongs_to_the_next_segment() {
    let mut stage = Stage::new(2);
    stage.act(&Action::Arrive(5));
    stage.act(&Action::Write(2));
    stage.act(&Action::House);
    stage.act(&Action::Write(3));
    stage.writer.close(true);
    let first = seal::seal(
        &stage.directory.path().join("p-1-000001.spool"),
        &Keyring::default(),
    )
    .unwrap();
    assert_eq!(
        (first.ledger.offered, first.ledger.rows(), first.closed),
        (2, 2, true)
    );
    let (rest, _) = stage.seal_rest();
    assert_eq!((rest.offered, rest.rows()), (3, 3));
}

impl Stage {
    fn seal_rest(&self) -> (Ledger, Vec<String>) {
        let first = self.directory.path().join("p-1-000001.parquet");
        std::fs::remove_file(first).unwrap();
        self.seal()
    }
}

#[test]
fn a_writer_whose_queue_ends_closes_its_segment() {
    let mut stage = Stage::new(1000);
    stage.recorder.account().offer();
    let entry = stage.entry(false);
    let (rows, written) = std::sync::mpsc::sync_channel(4);
    rows.send(entry).unwrap();
    drop(rows);
    let Stage {
        directory,
        recorder,
        writer,
        ..
    } = stage;
    writer.run(&written, &Poke::to_nobody());
    let sealed = seal::seal(
        &directory.path().join("p-1-000001.spool"),
        &Keyring::default(),
    )
    .unwrap();
    assert_eq!((sealed.ledger.rows(), sealed.closed), (1, true));
    assert_eq!(sealed.ledger, recorder.account().snapshot());
}

mod waiting;
