//! Spool to segment: rows to Parquet, once, with the ledger they prove.

use crate::account::Loss;
use crate::disk;
use crate::limits;
use crate::spool::{Head, Item, Note, Reader};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use truetape_schemas::capture::blob::keep_once;
use truetape_schemas::capture::footer::Footer;
use truetape_schemas::capture::{Exchange, SEGMENT_SUFFIX};
use truetape_schemas::file::key::Keyring;
use truetape_schemas::file::{self, Error, Writer, sync_parent};
use truetape_schemas::ledger::Ledger;

/// What came of sealing a spool.
#[derive(Clone, Debug, PartialEq)]
pub struct Sealed {
    /// The segment; `None` when there was nothing to say.
    pub path: Option<PathBuf>,
    /// Its ledger.
    pub ledger: Ledger,
    /// The spool was closed in order, not left behind by a crash.
    pub closed: bool,
    /// Bytes at the end of the spool that were not whole.
    pub torn_bytes: u64,
}

/// Where the segment of a spool goes: a spool always makes the same file, so that a crash at any
/// point of sealing makes no row twice.
pub fn segment_path(spool: &Path) -> PathBuf {
    let name = spool.file_stem().unwrap_or_default().to_string_lossy();
    spool.with_file_name(format!("{name}{SEGMENT_SUFFIX}"))
}

/// The name a segment has while it is written.
pub fn aside_path(segment: &Path) -> PathBuf {
    let mut name = segment.file_name().unwrap_or_default().to_owned();
    name.push(".tmp");
    segment.with_file_name(name)
}

/// Seals a spool and removes it. The segment is encrypted when there is a key to write with.
pub fn seal(spool: &Path, keys: &Keyring) -> Result<Sealed, Error> {
    let segment = segment_path(spool);
    if let Some(sealed) = sealed_before(&segment, keys)? {
        remove(spool)?;
        return Ok(sealed);
    }
    let sealed = write(spool, &segment, keys)?;
    remove(spool)?;
    Ok(sealed)
}

/// A crash came between the rename of the segment and the removal of its spool.
fn sealed_before(segment: &Path, keys: &Keyring) -> Result<Option<Sealed>, Error> {
    if !segment
        .try_exists()
        .map_err(|cause| Error::io(segment, cause))?
    {
        return Ok(None);
    }
    let reader = file::Reader::<Exchange>::open_with(segment, keys)?;
    let ledger = Footer::from_pairs(reader.footer())
        .ledger
        .unwrap_or_default();
    Ok(Some(Sealed {
        path: Some(segment.to_owned()),
        ledger,
        closed: true,
        torn_bytes: 0,
    }))
}

fn write(spool: &Path, segment: &Path, keys: &Keyring) -> Result<Sealed, Error> {
    let mut reader = Reader::open(spool, keys)?;
    let mut file = Segment {
        path: segment,
        keys,
        writer: None,
    };
    let mut found = Found::default();
    let mut batch = Batch::default();
    // An image that ten turns repeat is kept once.
    let mut kept = HashSet::new();
    while let Some(item) = reader.next_item()? {
        let Some(mut row) = found.take(item) else {
            continue;
        };
        // Written before it grows beyond its bound: a long row is a batch of its own.
        if batch.is_full_with(&row) {
            file.write(std::mem::take(&mut batch))?;
        }
        // Before blobs are taken out of it: their bytes stay in the row, beside the body.
        let bytes = body_bytes(&row);
        keep_once(&mut row, &mut kept);
        batch.add(*row, bytes);
    }
    file.write(batch)?;
    let ledger = found.settle();
    let closed = found.note.as_ref().is_some_and(|note| note.closed);
    let torn_bytes = reader.torn_bytes();
    if ledger == Ledger::default() {
        return Ok(Sealed {
            path: None,
            ledger,
            closed,
            torn_bytes,
        });
    }
    let sealed = file
        .into_writer()?
        .finish(&found.footer(ledger.clone()).to_pairs())?;
    Ok(Sealed {
        path: Some(sealed.path),
        ledger,
        closed,
        torn_bytes,
    })
}

/// The segment while it is written: it is made with its first rows, or for its account.
struct Segment<'a> {
    path: &'a Path,
    keys: &'a Keyring,
    writer: Option<Writer<Exchange>>,
}

impl Segment<'_> {
    fn write(&mut self, batch: Batch) -> Result<(), Error> {
        if batch.rows.is_empty() {
            return Ok(());
        }
        let mut writer = match self.writer.take() {
            Some(writer) => writer,
            None => self.create()?,
        };
        writer.write_owned(batch.rows)?;
        self.writer = Some(writer);
        Ok(())
    }

    fn into_writer(mut self) -> Result<Writer<Exchange>, Error> {
        match self.writer.take() {
            Some(writer) => Ok(writer),
            None => self.create(),
        }
    }

    /// The file is made before the Parquet writer opens it: an existing file keeps its mode.
    fn create(&self) -> Result<Writer<Exchange>, Error> {
        let aside = aside_path(self.path);
        match std::fs::remove_file(&aside) {
            Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::io(&aside, cause));
            }
            _ => {}
        }
        drop(disk::create(&aside).map_err(|cause| Error::io(&aside, cause))?);
        Writer::create_with(self.path, self.keys.writing())
    }
}

fn remove(spool: &Path) -> Result<(), Error> {
    std::fs::remove_file(spool).map_err(|cause| Error::io(spool, cause))?;
    sync_parent(spool)
}

#[derive(Default)]
struct Batch {
    rows: Vec<Exchange>,
    bytes: usize,
}

impl Batch {
    fn add(&mut self, row: Exchange, bytes: usize) {
        self.bytes += bytes;
        self.rows.push(row);
    }

    fn is_full_with(&self, row: &Exchange) -> bool {
        self.rows.len() >= limits::SEAL_BATCH_ROWS_MAX
            || self.bytes + body_bytes(row) > limits::SEAL_BATCH_BYTES_MAX
    }
}

fn body_bytes(row: &Exchange) -> usize {
    let body = |body: &Option<Vec<u8>>| body.as_ref().map_or(0, Vec::len);
    body(&row.request_body) + body(&row.response_body)
}

/// What was found in a spool, beside the rows themselves.
#[derive(Debug, Default)]
struct Found {
    head: Option<Head>,
    note: Option<Note>,
    recorded: u64,
    degraded: u64,
    unreadable: u64,
}

impl Found {
    fn take(&mut self, item: Item) -> Option<Box<Exchange>> {
        match item {
            Item::Head(head) => self.head = Some(head),
            Item::Note(note) => self.note = Some(note),
            Item::Unreadable => self.unreadable += 1,
            Item::Row(row) => {
                if row.degraded.is_some() {
                    self.degraded += 1;
                } else {
                    self.recorded += 1;
                }
                return Some(row);
            }
        }
        None
    }

    /// The ledger that the spool proves: rows as found, the rest as last noted. What was offered by
    /// then and is not here was lost with the process, or by the disk when it was closed in order.
    fn settle(&self) -> Ledger {
        let noted = self
            .note
            .as_ref()
            .map(|note| note.ledger.clone())
            .unwrap_or_default();
        let closed = self.note.as_ref().is_some_and(|note| note.closed);
        let mut ledger = Ledger {
            offered: noted.offered,
            recorded: self.recorded,
            degraded: self.degraded,
            sampled_out: noted.sampled_out,
            excluded: noted.excluded,
            dropped: noted.dropped,
        };
        lose(&mut ledger, Loss::Bug, self.unreadable);
        // Rows may have been written after the last note: they are the better witness.
        let missing = ledger.offered.saturating_sub(ledger.accounted());
        lose(
            &mut ledger,
            if closed { Loss::Disk } else { Loss::Killed },
            missing,
        );
        ledger.offered = ledger.accounted();
        ledger
    }

    fn footer(&self, ledger: Ledger) -> Footer {
        let head = self.head.clone();
        let terms = self.head.as_ref().map(|head| &head.terms);
        let anchors = head.as_ref().map(|head| head.opened).into_iter();
        Footer {
            ledger: Some(ledger),
            clock_anchors: anchors
                .chain(self.note.as_ref().map(|note| note.anchor))
                .collect(),
            proxy_config_digest: terms.map(|terms| terms.config_digest.clone()),
            redaction_profile: terms.map(|terms| terms.redaction_profile.clone()),
            digest_key_fingerprint: terms.and_then(|terms| terms.digest_key_fingerprint.clone()),
            sampling_rate: terms.and_then(|terms| terms.sampling_rate),
            sampling_salt: terms.and_then(|terms| terms.sampling_salt.clone()),
            tool_version: head.map(|head| head.tool_version),
            ..Footer::default()
        }
    }
}

fn lose(ledger: &mut Ledger, reason: Loss, n: u64) {
    if n > 0 {
        let lost = ledger.dropped.entry(reason.name().to_owned()).or_default();
        *lost = lost.saturating_add(n);
    }
}

#[cfg(test)]
mod tests;
