//! What a path names: a capture, a set or a run.

use crate::error::Error;
use crate::objects::{fetch, is_url};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use truetape_schemas::capture::footer::{CLOCK_RESOLUTION_US, Footer};
use truetape_schemas::capture::{Exchange, SEGMENT_SUFFIX};
use truetape_schemas::file::Reader;
use truetape_schemas::ledger::Ledger;
use truetape_schemas::{run, set};

/// The segments of a capture, on this machine.
#[derive(Clone, Debug, Default)]
pub struct Segments {
    paths: Vec<PathBuf>,
    /// Those of a store are gone with the last user of its scratch folder.
    _scratch: Option<Arc<tempfile::TempDir>>,
}

impl Segments {
    /// Segments that were fetched into a scratch folder.
    pub(crate) fn fetched(paths: Vec<PathBuf>, scratch: tempfile::TempDir) -> Self {
        Self {
            paths,
            _scratch: Some(Arc::new(scratch)),
        }
    }
}

impl From<Vec<PathBuf>> for Segments {
    fn from(paths: Vec<PathBuf>) -> Self {
        Self {
            paths,
            _scratch: None,
        }
    }
}

impl std::ops::Deref for Segments {
    type Target = [PathBuf];

    fn deref(&self) -> &[PathBuf] {
        &self.paths
    }
}

/// What a path names.
#[derive(Clone, Debug)]
pub enum Subject {
    /// A capture: its segments, ordered by name.
    Capture(Segments),
    /// The directory of a set.
    Set(PathBuf),
    /// The directory of a run.
    Run(PathBuf),
}

/// Finds out what a path, a reference as `name@tag`, or the URL of a capture names.
pub fn subject(reference: &str, store: Option<&Path>) -> Result<Subject, Error> {
    if is_url(reference) {
        return fetch::fetch(reference).map(Subject::Capture);
    }
    let path = Path::new(reference);
    if is_dir(path)? {
        if is_file(&path.join(set::store::MANIFEST))? {
            return Ok(Subject::Set(path.to_owned()));
        }
        if is_file(&path.join(run::RUN))? {
            return Ok(Subject::Run(path.to_owned()));
        }
        let segments = segments(path)?;
        if !segments.is_empty() {
            return Ok(Subject::Capture(segments.into()));
        }
        // A name in a store is a directory too: `store/chat` means `store/chat@latest`.
        if !is_file(&path.join(set::store::TAGS))? {
            return Err(no_segments(path));
        }
    } else if is_file(path)? {
        return Ok(Subject::Capture(vec![path.to_owned()].into()));
    }
    Ok(Subject::Set(set::store::resolve(reference, store)?))
}

/// The segments of a capture: a directory of them, or one, or what a URL names.
pub fn capture(path: &Path) -> Result<Segments, Error> {
    if let Some(url) = path.to_str().filter(|text| is_url(text)) {
        return fetch::fetch(url);
    }
    if is_file(path)? {
        return Ok(vec![path.to_owned()].into());
    }
    for (marker, what) in [(set::store::MANIFEST, "a set"), (run::RUN, "a run")] {
        if is_file(&path.join(marker))? {
            let problem = format!("is {what}, wanted a capture");
            return Err(Error::data(path.display(), problem));
        }
    }
    let segments = segments(path)?;
    if segments.is_empty() {
        Err(no_segments(path))
    } else {
        Ok(segments.into())
    }
}

fn no_segments(path: &Path) -> Error {
    let problem = format!(
        "no sealed segments (*{SEGMENT_SUFFIX}) there, and no set or run; a proxy seals its segment \
         when it rotates or stops, and what a killed one left when it starts again"
    );
    Error::data(path.display(), problem)
}

/// Spools, locks and files in the making are not segments.
fn segments(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut segments = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(|cause| Error::io(dir, cause))? {
        let path = entry.map_err(|cause| Error::io(dir, cause))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.ends_with(SEGMENT_SUFFIX) {
            segments.push(path);
        }
    }
    segments.sort();
    Ok(segments)
}

fn is_file(path: &Path) -> Result<bool, Error> {
    Ok(metadata(path)?.is_some_and(|metadata| metadata.is_file()))
}

fn is_dir(path: &Path) -> Result<bool, Error> {
    Ok(metadata(path)?.is_some_and(|metadata| metadata.is_dir()))
}

fn metadata(path: &Path) -> Result<Option<std::fs::Metadata>, Error> {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    match std::fs::metadata(path) {
        Ok(metadata) => Ok(Some(metadata)),
        Err(cause) if matches!(cause.kind(), NotFound | NotADirectory) => Ok(None),
        Err(cause) => Err(Error::io(path, cause)),
    }
}

/// What the footers of a capture say, taken together.
#[derive(Clone, Debug, Default)]
pub struct Footers {
    /// The sum of the ledgers; none when no segment has one.
    pub ledger: Option<Ledger>,
    /// The coarsest clock.
    pub clock_resolution_us: Option<i64>,
    /// What importers could not carry over, each once and whatever the order of the captures.
    pub import_losses: BTreeSet<String>,
    /// The smallest sampling rate, where sessions were sampled.
    pub sampling_rate: Option<f64>,
}

impl Footers {
    /// Adds the footer of a segment.
    pub fn add(&mut self, footer: &Footer) {
        if let Some(ledger) = &footer.ledger {
            self.ledger.get_or_insert_default().merge(ledger);
        }
        self.clock_resolution_us = self.clock_resolution_us.max(footer.clock_resolution_us);
        self.import_losses
            .extend(footer.import_losses.iter().cloned());
        if let Some(rate) = footer.sampling_rate.filter(|rate| *rate < 1.0) {
            self.sampling_rate = Some(self.sampling_rate.map_or(rate, |least| least.min(rate)));
        }
    }

    /// Sentences that a user of this capture should read.
    pub fn findings(&self) -> Vec<String> {
        let mut findings = Vec::new();
        if let Some(ledger) = &self.ledger {
            let dropped: u64 = ledger.dropped.values().sum();
            if dropped > 0 {
                findings.push(format!(
                    "the recorder lost {dropped} of {} exchanges: the source is not complete",
                    ledger.offered
                ));
            }
            if !ledger.balances() {
                findings.push("the ledger of the capture does not balance".to_owned());
            }
        }
        if let Some(rate) = self.sampling_rate {
            findings.push(format!("the recorder kept {rate} of the sessions"));
        }
        if let Some(us) = self.clock_resolution_us {
            findings.push(format!(
                "the source's clock steps by about {} s ({CLOCK_RESOLUTION_US}): burstiness below \
                 three steps is unknown",
                us as f64 / 1e6
            ));
        }
        findings.extend(
            self.import_losses
                .iter()
                .map(|loss| format!("not in the trace: {loss}")),
        );
        findings
    }
}

/// Opens a segment, with its footer.
pub fn open(path: &Path) -> Result<(Reader<Exchange>, Footer), Error> {
    let reader = Reader::<Exchange>::open(path)?;
    let footer = Footer::from_pairs(reader.footer());
    Ok((reader, footer))
}

#[cfg(test)]
mod tests {
    use super::{Footer, Footers};

    #[test]
    fn footers_say_the_same_in_any_order() {
        let footer = |loss: &str| Footer {
            import_losses: vec![loss.to_owned(), "both".to_owned()],
            ..Footer::default()
        };
        let told = |losses: [&str; 2]| {
            let mut footers = Footers::default();
            losses.iter().for_each(|loss| footers.add(&footer(loss)));
            footers.findings()
        };
        assert_eq!(told(["x", "a"]), told(["a", "x"]));
        assert_eq!(told(["x", "a"]).len(), 3);
    }
}
