//! The verb `inspect`.

use crate::cli::InspectArgs;
use crate::error::Error;
use truetape_schemas::blame::Answer;

/// Carries out `truetape inspect`.
pub fn run(args: InspectArgs) -> Result<Answer, Error> {
    Err(Error::bug(format!("{args:?}"), "not built yet"))
}
