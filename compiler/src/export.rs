//! The verb `export`.

use crate::cli::ExportArgs;
use crate::error::Error;
use truetape_schemas::blame::Answer;

/// Carries out `truetape export`.
pub fn run(args: ExportArgs) -> Result<Answer, Error> {
    Err(Error::bug(format!("{args:?}"), "not built yet"))
}
