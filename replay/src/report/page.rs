//! The page of a run, with its set where that can be found.

use crate::cli::ReportArgs;
use crate::error::Error;
use std::path::Path;
use truetape_fidelity::gate::Outcome;
use truetape_fidelity::render::{self, Evidence, SetSide};
use truetape_schemas::report::Report;
use truetape_schemas::run::{self, Dispatch, Run};
use truetape_schemas::set::manifest::Manifest;
use truetape_schemas::set::{Turn, store};

/// Draws the page of a run that is on disk.
pub(super) fn draw(
    args: &ReportArgs,
    run: &Run,
    report: &Report,
    gate: Option<&Outcome>,
) -> Result<String, Error> {
    let mut dispatches: Vec<Dispatch> = Vec::new();
    for dir in &args.runs {
        dispatches.extend(run::dispatches_without_events(dir)?);
    }
    dispatches.sort_by_key(|dispatch| dispatch.turn_id);
    let set = set_of(args, run)?;
    Ok(render::report_html(&Evidence {
        report,
        run: Some(run),
        dispatches: &dispatches,
        set: set
            .as_ref()
            .map(|(manifest, turns)| SetSide { manifest, turns }),
        gate,
    }))
}

/// The run's set: the one that is named, which must be it, or the one that the store has of it.
fn set_of(args: &ReportArgs, run: &Run) -> Result<Option<(Manifest, Vec<Turn>)>, Error> {
    let store = args.store.as_deref();
    match (&args.set, store) {
        (Some(named), _) => {
            let set = open(named, store)?;
            if set.0.digest != run.set_digest {
                let problem = format!(
                    "is set {}, and the run is of {}",
                    set.0.digest, run.set_digest
                );
                return Err(Error::Set {
                    subject: named.clone(),
                    problem,
                });
            }
            Ok(Some(set))
        }
        (None, Some(_)) => {
            let own = format!("{}@sha256:{}", run.set_name, run.set_digest);
            match open(&own, store) {
                Ok(set) => Ok(Some(set)),
                // The page is the run's, and says what it lacks.
                Err(cause) => {
                    tracing::warn!(%cause, "the page is drawn without the set");
                    Ok(None)
                }
            }
        }
        (None, None) => Ok(None),
    }
}

fn open(reference: &str, named_store: Option<&Path>) -> Result<(Manifest, Vec<Turn>), Error> {
    let dir = store::resolve(reference, named_store)?;
    Ok((store::manifest(&dir)?, store::turns(&dir)?))
}
