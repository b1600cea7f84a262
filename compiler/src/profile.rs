//! The verb `profile`.

use crate::cli::ProfileArgs;
use crate::error::Error;
use truetape_schemas::blame::Answer;

/// Carries out `truetape profile`.
pub fn run(args: ProfileArgs) -> Result<Answer, Error> {
    Err(Error::bug(format!("{args:?}"), "not built yet"))
}
