//! Stage 1: captures become rows in the canonical order, with an account of what was left out.

use super::account::Account;
use super::reading;
use super::row::{Name, Names, Row, row};
use super::sessionize;
use crate::error::Error;
use crate::parallel;
use crate::source::{self, Footers, Segments};
use crate::talk::Progress;
use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use truetape_schemas::capture::Exchange;
use truetape_schemas::set::manifest::{Source, Stage};
use truetape_schemas::wire::Dialect;

mod canonical;
mod clocks;

/// What the captures hold.
#[derive(Debug)]
pub(crate) struct Ingested {
    /// The rows, in the canonical order.
    pub(crate) rows: Vec<Row>,
    /// The segments they were read from.
    pub(crate) segments: Vec<PathBuf>,
    /// The account of this stage.
    pub(crate) stage: Stage,
    /// The captures, ordered by digest.
    pub(crate) sources: Vec<Source>,
    /// What the footers say.
    pub(crate) footers: Footers,
    /// Things a user should know.
    pub(crate) findings: Vec<String>,
    /// Known to whoever has the captures, and to nobody who has only the set.
    pub(crate) secret: Secret,
}

impl Ingested {
    /// Refuses captures that hold nothing to compile.
    pub(crate) fn require_traffic(&self) -> Result<(), Error> {
        if self.rows.is_empty() {
            return Err(Error::data("captures", no_traffic(&self.stage)));
        }
        Ok(())
    }
}

/// Why there is nothing to compile: what was read, and why it was left out.
fn no_traffic(ingest: &Stage) -> String {
    let why: Vec<String> = ingest
        .left
        .iter()
        .map(|(reason, rows)| format!("{rows} {reason}"))
        .collect();
    let why = if why.is_empty() {
        String::new()
    } else {
        format!(" ({})", why.join(", "))
    };
    format!(
        "no inference traffic that can be replayed among {} rows{why}; record in front of a server \
         that generates text",
        ingest.read
    )
}

/// A key that follows from the captures but not from anything that is published about them.
///
/// Hashes and synthetic text are keyed with it: with a public key, whoever has a set could test
/// guesses of a prompt, token by token.
#[derive(Clone, Copy)]
pub(crate) struct Secret(pub(crate) [u8; 32]);

impl Secret {
    /// A keyed hash.
    pub(crate) fn hash(&self, bytes: &[u8]) -> u64 {
        let digest = blake3::keyed_hash(&self.0, bytes);
        let (first, _) = digest.as_bytes().split_at(8);
        first.try_into().map_or(0, u64::from_le_bytes)
    }

    /// Another secret, for another use.
    pub(crate) fn derive(&self, context: &str, seed: u64) -> Self {
        let mut salt = self.0.to_vec();
        salt.extend(seed.to_le_bytes());
        Self(blake3::derive_key(context, &salt))
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// What separates the secret from the digests that are published.
const SECRET_CONTEXT: &str = "truetape 2026 content secret v1";

/// Reads captures.
pub(crate) fn ingest(captures: &[Segments], threads: usize) -> Result<Ingested, Error> {
    let mut ingest = Ingest {
        threads,
        ..Ingest::default()
    };
    let mut sources = Vec::new();
    for capture in captures {
        sources.push(ingest.capture(capture)?);
    }
    sources.sort();
    let Ingest {
        mut rows,
        segments,
        footers,
        ..
    } = ingest;
    // In place: rows that are equal in all of this are the same row, whichever comes first.
    rows.sort_unstable_by(|(a, a_digest), (b, b_digest)| {
        (a.order(), a_digest).cmp(&(b.order(), b_digest))
    });
    let mut account = Account::new("ingest", rows.len());
    let mut findings = footers.findings();
    leave_duplicates(&mut rows, &mut account);
    leave_replayed(&mut rows, &mut account, &mut findings);
    findings.extend(clocks::align(&mut rows, &mut account));
    let is_inference = |(row, _): &Digested| {
        row.dialect != Dialect::Unknown || row.input_tokens.is_some() || row.output_tokens.is_some()
    };
    account.keep(&mut rows, "not_inference", is_inference);
    // Nothing is generated there: an embedding has no answer whose length could be replayed.
    account.keep(&mut rows, "embeddings", |(row, _)| {
        row.dialect != Dialect::OpenaiEmbeddings
    });
    let stage = account.close(rows.len());
    let secret = secret(&rows);
    let rows = rows.into_iter().map(|(row, _)| row).collect();
    Ok(Ingested {
        rows,
        segments,
        stage,
        sources,
        footers,
        findings,
        secret,
    })
}

/// The secret of the rows that are kept: what is left out changes nothing about the others.
fn secret(rows: &[Digested]) -> Secret {
    let mut digests: Vec<[u8; 32]> = rows.iter().map(|(_, digest)| *digest).collect();
    digests.sort_unstable();
    Secret(blake3::derive_key(SECRET_CONTEXT, digests.as_flattened()))
}

/// A capture named twice, or a row that a recorder wrote twice, is not two requests.
fn leave_duplicates(rows: &mut Vec<Digested>, account: &mut Account) {
    let mut seen: HashSet<&str> = HashSet::with_capacity(rows.len());
    let mut told: HashSet<Told<'_>> = HashSet::new();
    let first: Vec<bool> = rows
        .iter()
        .map(|(row, _)| {
            let again = told_of(row).is_some_and(|of_row| !told.insert(of_row));
            seen.insert(&row.exchange_id) && !again
        })
        .collect();
    drop(told);
    drop(seen);
    let mut first = first.into_iter();
    account.keep(rows, "duplicate", |_| first.next().unwrap_or(true));
}

/// What two rows of one recorder cannot have in common: the microseconds in which an exchange began
/// and ended, its connection, its prompt and its lengths.
type Told<'a> = (&'a str, (i64, i64), i64, u64, [Option<i64>; 2]);

/// None where a row does not say enough: two lines of a trace may well be equal.
fn told_of(row: &Row) -> Option<Told<'_>> {
    let times = (row.arrival, row.end_us?);
    let (_, _, conn) = row.conn.as_ref()?;
    let prompt = sessionize::full_chain(row)?;
    let lengths = [row.input_tokens, row.output_tokens];
    Some((&row.proxy_id, times, *conn, prompt, lengths))
}

/// Replayed traffic is not production; a capture of nothing else is what the user asked for.
fn leave_replayed(rows: &mut Vec<Digested>, account: &mut Account, findings: &mut Vec<String>) {
    let runs: BTreeSet<Name> = rows
        .iter()
        .filter_map(|(row, _)| row.replay_run.clone())
        .collect();
    if runs.is_empty() {
        return;
    }
    if rows.iter().any(|(row, _)| row.replay_run.is_none()) {
        account.keep(rows, "replayed_traffic", |(row, _)| {
            row.replay_run.is_none()
        });
        return;
    }
    let runs: Vec<&str> = runs.iter().map(AsRef::as_ref).collect();
    findings.push(format!(
        "captured from replayed traffic, run {}",
        runs.join(", ")
    ));
}

/// A row with its digest.
type Digested = (Row, [u8; 32]);

#[derive(Default)]
struct Ingest {
    threads: usize,
    names: Names,
    rows: Vec<Digested>,
    segments: Vec<PathBuf>,
    footers: Footers,
}

impl Ingest {
    fn capture(&mut self, segments: &[PathBuf]) -> Result<Source, Error> {
        let first_row = self.rows.len();
        for segment in segments {
            self.segment(segment)?;
        }
        let rows = self.rows.get(first_row..).unwrap_or_default();
        let mut digests: Vec<[u8; 32]> = rows.iter().map(|(_, digest)| *digest).collect();
        digests.sort_unstable();
        let source = Source {
            digest: blake3::hash(digests.as_flattened()).to_hex().to_string(),
            format: truetape_schemas::capture::FORMAT.to_string(),
            rows: rows.len() as u64,
            replay: !rows.is_empty() && rows.iter().all(|(row, _)| row.replay_run.is_some()),
        };
        Ok(source)
    }

    fn segment(&mut self, path: &Path) -> Result<(), Error> {
        let position = u32::try_from(self.segments.len()).unwrap_or(u32::MAX);
        self.segments.push(path.to_owned());
        let (reader, footer) = source::open(path)?;
        self.footers.add(&footer);
        let total = reader.row_count();
        let mut progress = Progress::new();
        let mut done = 0_u64;
        for batch in parallel::ahead(reader)? {
            let mut batch = batch??;
            done += batch.len() as u64;
            progress.show(&format!("{}: {done} of {total} rows", path.display()));
            let read = parallel::map(&mut batch, self.threads, |exchange| {
                let extra = reading::extra(exchange);
                (digest(exchange), extra)
            })?;
            for (exchange, (digest, extra)) in batch.into_iter().zip(read) {
                let row = row(exchange, extra, position, &mut self.names);
                self.rows.push((row, digest));
            }
        }
        progress.clear();
        Ok(())
    }
}

/// Room for the canonical bytes of a row with few block hashes.
const DIGEST_BYTES: usize = 1024;

/// The digest of a row: its columns as canonical bytes, and its bodies as they are. The bodies are
/// dropped on the way.
fn digest(exchange: &mut Exchange) -> [u8; 32] {
    let bodies = [exchange.request_body.take(), exchange.response_body.take()];
    for blob in exchange.request_blobs.iter_mut().flatten() {
        // Its hash says it, in whatever row of a segment the bytes are.
        blob.data = None;
    }
    let mut hasher = blake3::Hasher::new();
    let mut add = |bytes: &[u8]| {
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    let mut columns = Vec::with_capacity(DIGEST_BYTES);
    // Nothing in a row is of a kind that has no canonical form.
    let _infallible = canonical::write(exchange, &mut columns);
    add(&columns);
    for body in bodies {
        add(&[u8::from(body.is_some())]);
        add(body.as_deref().unwrap_or_default());
    }
    *hasher.finalize().as_bytes()
}
