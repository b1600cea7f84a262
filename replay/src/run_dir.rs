//! A run on disk: `turns.parquet`, `fidelity.json`, `report.md`, `report.html`, and `run.json` last.

use crate::error::Error;
use std::path::Path;
use truetape_fidelity::render::{self, Evidence};
use truetape_schemas::file::{self, write_atomically};
use truetape_schemas::run::{self, Run};

/// Looks whether a run can be written to a directory, and leaves nothing behind.
pub fn check(out: &Path) -> Result<(), Error> {
    match std::fs::read_dir(out) {
        Ok(entries) => empty(out, entries),
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(cause) => Err(file::Error::io(out, cause).into()),
    }
}

/// Makes the directory of a run, which must not exist or be empty: a run is never overwritten.
///
/// It is made before anything is sent, so that a run is not lost for want of a place to write it.
pub fn prepare(out: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(out).map_err(|cause| file::Error::io(out, cause))?;
    let entries = std::fs::read_dir(out).map_err(|cause| file::Error::io(out, cause))?;
    empty(out, entries)
}

fn empty(out: &Path, mut entries: std::fs::ReadDir) -> Result<(), Error> {
    if entries.next().is_some() {
        let problem = "holds files already; a run is never overwritten: name another --out";
        return Err(Error::Out {
            path: out.to_owned(),
            problem: problem.to_owned(),
        });
    }
    Ok(())
}

/// Writes what a run came to; its rows are there already. A directory without a `run.json` is not a
/// run, so that it comes last.
pub fn write(out: &Path, run: &Run, evidence: &Evidence<'_>) -> Result<(), Error> {
    let report = evidence.report;
    write_atomically(
        &out.join(run::FIDELITY),
        &json(&out.join(run::FIDELITY), report)?,
    )?;
    write_atomically(&out.join(run::REPORT), render::markdown(report).as_bytes())?;
    write_atomically(
        &out.join(run::PAGE),
        render::report_html(evidence).as_bytes(),
    )?;
    write_atomically(&out.join(run::RUN), &json(&out.join(run::RUN), run)?)?;
    Ok(())
}

fn json(path: &Path, value: &impl serde::Serialize) -> Result<Vec<u8>, Error> {
    let encoded = serde_json::to_vec_pretty(value);
    let mut bytes = encoded.map_err(|cause| Error::Bug {
        subject: path.display().to_string(),
        problem: cause.to_string(),
    })?;
    bytes.push(b'\n');
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_never_overwritten() {
        let scratch = tempfile::tempdir().unwrap();
        let out = scratch.path().join("deep").join("run");
        check(&out).unwrap();
        assert!(!out.try_exists().unwrap());
        prepare(&out).unwrap();
        prepare(&out).unwrap();
        std::fs::write(out.join("run.json"), "{}").unwrap();
        check(&out).unwrap_err();
        let error = prepare(&out).unwrap_err();
        assert!(error.to_string().ends_with("name another --out"), "{error}");
    }
}
