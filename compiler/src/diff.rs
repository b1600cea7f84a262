//! The verb `diff`.

use crate::cli::DiffArgs;
use crate::error::Error;
use truetape_schemas::blame::Answer;

/// Carries out `truetape diff`.
pub fn run(args: DiffArgs) -> Result<Answer, Error> {
    Err(Error::bug(format!("{args:?}"), "not built yet"))
}
