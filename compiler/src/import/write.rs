//! The segments of an import.

use super::aside::Aside;
use super::format::TraceFormat;
use super::line::{self, TraceRow};
use super::scan::{Scan, each_row};
use super::{ImportOptions, Imported};
use crate::error::Error;
use std::collections::HashMap;
use std::path::Path;
use truetape_schemas::capture::footer::Footer;
use truetape_schemas::capture::{Exchange, LengthSource, Outcome, ParseStatus, SEGMENT_SUFFIX};
use truetape_schemas::file::{READ_BATCH_ROWS, Reader, Writer};
use truetape_schemas::ledger::Ledger;

/// Rows of a segment at most: with 100 block hashes a row, about 200 MB before compression.
const SEGMENT_ROWS_MAX: u64 = 256 * 1024;

/// The session rule of a trace that names its sessions.
const RULE_SESSION_ID: &str = "trace:session_id";
/// The session rule of a trace that names the parent of each chat.
const RULE_PARENT_CHAT: &str = "trace:parent_chat_id";

/// Writes the capture of a scanned trace, whole or not at all.
pub(super) fn capture(
    options: &ImportOptions,
    block_tokens: u32,
    scan: Scan,
) -> Result<Imported, Error> {
    capture_in_segments(options, block_tokens, scan, SEGMENT_ROWS_MAX)
}

fn capture_in_segments(
    options: &ImportOptions,
    block_tokens: u32,
    scan: Scan,
    segment_rows_max: u64,
) -> Result<Imported, Error> {
    let digest = import_digest(options, &scan);
    refuse_a_mix(&options.out, &digest)?;
    let aside = Aside::create(&options.out)?;
    let losses = losses(options.format, &scan);
    let mut segments = Segments {
        format: options.format,
        dir: aside.dir(),
        rows_max: segment_rows_max,
        footer: Footer {
            proxy_config_digest: Some(digest),
            import_losses: losses.clone(),
            clock_resolution_us: scan.clock_resolution_us,
            tool_version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            ..Footer::default()
        },
        open: None,
        sealed: Vec::new(),
        total: Ledger::default(),
    };
    let mut maker = RowMaker {
        options,
        block_tokens,
        roots: HashMap::new(),
        rows: 0,
    };
    for file in &options.files {
        each_row(options.format, file, |_, bytes| {
            match line::read(options.format, bytes, block_tokens) {
                Ok(row) => segments.record(maker.exchange(row, bytes)),
                Err(bad) => segments.exclude(bad.reason),
            }
        })?;
    }
    segments.seal()?;
    let (ledger, names) = (segments.total, segments.sealed);
    aside.place()?;
    Ok(Imported {
        ledger,
        bad: scan.bad,
        losses,
        clock_resolution_us: scan.clock_resolution_us,
        segments: names.iter().map(|name| options.out.join(name)).collect(),
    })
}

fn losses(format: TraceFormat, scan: &Scan) -> Vec<String> {
    let mut losses = format.losses();
    if !scan.other_keys.is_empty() {
        let keys: Vec<&str> = scan.other_keys.iter().map(String::as_str).collect();
        losses.push(format!(
            "keys that have no column here: {}",
            keys.join(", ")
        ));
    }
    losses
}

/// Names an import by everything that shapes its rows.
fn import_digest(options: &ImportOptions, scan: &Scan) -> String {
    let mut digester = truetape_schemas::ids::Digester::new();
    digester.add(scan.digest.as_bytes());
    digester.add(&options.start_us.to_le_bytes());
    digester.finish()
}

/// A directory is one capture: another one's segments in it would be read as the same traffic.
fn refuse_a_mix(out: &Path, digest: &str) -> Result<(), Error> {
    let entries = match std::fs::read_dir(out) {
        Ok(entries) => entries,
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(cause) => return Err(Error::io(out, cause)),
    };
    for entry in entries {
        let path = entry.map_err(|cause| Error::io(out, cause))?.path();
        let ours = path
            .extension()
            .is_some_and(|extension| extension == "parquet")
            && Reader::<Exchange>::open(&path).is_ok_and(|reader| {
                Footer::from_pairs(reader.footer())
                    .proxy_config_digest
                    .as_deref()
                    == Some(digest)
            });
        if !ours {
            let problem = format!(
                "not empty, and {} is not of this import; give an empty or absent directory",
                path.file_name().unwrap_or_default().display()
            );
            return Err(Error::data(out.display(), problem));
        }
    }
    Ok(())
}

/// Makes rows from lines.
struct RowMaker<'a> {
    options: &'a ImportOptions,
    block_tokens: u32,
    /// The first chat of each chat's conversation.
    roots: HashMap<i64, i64>,
    rows: u64,
}

impl RowMaker<'_> {
    fn exchange(&mut self, row: TraceRow, line: &[u8]) -> Exchange {
        let index = self.rows;
        self.rows += 1;
        let (session_key, session_rule) = self.session(&row);
        let hashed = row.hash_ids.is_some();
        let chat = row.chat;
        let (spoken, recorded) = (row.spoken, row.recorded);
        let exchange = Exchange {
            exchange_id: exchange_id(self.options.format, index, line),
            proxy_id: format!("import:{}", self.options.format.name()),
            conn_id: -1,
            conn_seq: i32::try_from(index).unwrap_or(i32::MAX),
            arrival: self.options.start_us.saturating_add(row.timestamp_us),
            arrival_mono_us: row.timestamp_us,
            arrival_rest_ns: row.timestamp_rest_ns,
            method: "POST".to_owned(),
            dialect: "trace".to_owned(),
            model: row.model,
            input_tokens: row.input_tokens,
            input_tokens_source: LengthSource::Usage,
            output_tokens: row.output_tokens,
            output_tokens_source: match row.output_tokens {
                Some(_) => LengthSource::Usage,
                None => LengthSource::Absent,
            },
            block_tokens: hashed.then(|| i32::try_from(self.block_tokens).unwrap_or(i32::MAX)),
            block_hashes: row.hash_ids,
            session_key,
            session_rule,
            response_id: chat.map(|(id, _)| format!("chat-{id}")),
            previous_response_id: chat.and_then(|(_, parent)| Some(format!("chat-{}", parent?))),
            outcome: if row.failed {
                Outcome::Error
            } else {
                Outcome::Complete
            },
            parse_status: ParseStatus::NotApplicable,
            ..Exchange::default()
        };
        match (spoken, recorded) {
            (Some(spoken), _) => spoken.put(exchange),
            (None, Some(recorded)) => Exchange {
                exchange_id: exchange.exchange_id,
                proxy_id: exchange.proxy_id,
                conn_id: exchange.conn_id,
                conn_seq: exchange.conn_seq,
                arrival: exchange.arrival,
                arrival_mono_us: exchange.arrival_mono_us,
                arrival_rest_ns: exchange.arrival_rest_ns,
                ..*recorded
            },
            (None, None) => exchange,
        }
    }

    fn session(&mut self, row: &TraceRow) -> (Option<String>, Option<String>) {
        if let Some((id, parent)) = row.chat {
            let root = parent.map_or(id, |parent| *self.roots.get(&parent).unwrap_or(&parent));
            self.roots.insert(id, root);
            return (
                Some(format!("chat-{root}")),
                Some(RULE_PARENT_CHAT.to_owned()),
            );
        }
        let rule = row.session_id.as_ref().map(|_| RULE_SESSION_ID.to_owned());
        (row.session_id.clone(), rule)
    }
}

/// Names a row: UUID-shaped, sorted by row number, the same on every import.
///
/// The number comes first so that rows that arrive at the same instant keep the trace's order.
fn exchange_id(format: TraceFormat, index: u64, line: &[u8]) -> String {
    let mut digester = truetape_schemas::ids::Digester::new();
    digester.add(format.name().as_bytes());
    digester.add(&index.to_le_bytes());
    digester.add(line);
    let digest = digester.finish();
    let hex = |from: usize, to: usize| digest.get(from..to).unwrap_or_default();
    let number = format!("{:012x}", index & 0xffff_ffff_ffff);
    let (high, low) = number.split_at(8);
    // Version 8 of RFC 9562 leaves the bits to us.
    format!("{high}-{low}-8{}-8{}-{}", hex(0, 3), hex(3, 6), hex(6, 18))
}

/// Writes rows to segments, each with the account of its own lines.
struct Segments<'a> {
    format: TraceFormat,
    dir: &'a Path,
    rows_max: u64,
    footer: Footer,
    open: Option<Open>,
    /// Names of the segments that are done.
    sealed: Vec<String>,
    total: Ledger,
}

struct Open {
    writer: Writer<Exchange>,
    batch: Vec<Exchange>,
    ledger: Ledger,
}

impl Segments<'_> {
    /// The name of the segment that is open, or would be.
    fn name(&self) -> String {
        let number = self.sealed.len();
        format!("import-{}-{number:05}{SEGMENT_SUFFIX}", self.format.name())
    }

    fn open(&mut self) -> Result<&mut Open, Error> {
        if self.open.is_none() {
            let writer = Writer::create(&self.dir.join(self.name()))?;
            self.open = Some(Open {
                writer,
                batch: Vec::new(),
                ledger: Ledger::default(),
            });
        }
        self.open
            .as_mut()
            .ok_or_else(|| Error::bug("import", "no segment is open"))
    }

    fn record(&mut self, row: Exchange) -> Result<(), Error> {
        let open = self.open()?;
        open.batch.push(row);
        open.ledger.offered += 1;
        open.ledger.recorded += 1;
        if open.batch.len() >= READ_BATCH_ROWS {
            open.writer.write(&open.batch)?;
            open.batch.clear();
        }
        if open.ledger.recorded >= self.rows_max {
            self.seal()
        } else {
            Ok(())
        }
    }

    fn exclude(&mut self, reason: &str) -> Result<(), Error> {
        let open = self.open()?;
        open.ledger.offered += 1;
        *open.ledger.excluded.entry(reason.to_owned()).or_default() += 1;
        Ok(())
    }

    fn seal(&mut self) -> Result<(), Error> {
        let Some(mut open) = self.open.take() else {
            return Ok(());
        };
        open.writer.write(&open.batch)?;
        self.total.merge(&open.ledger);
        let footer = Footer {
            ledger: Some(open.ledger),
            ..self.footer.clone()
        };
        open.writer.finish(&footer.to_pairs())?;
        self.sealed.push(self.name());
        Ok(())
    }
}

#[cfg(test)]
mod tests;
