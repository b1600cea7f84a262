//! The verb `verify`.

use crate::cli::VerifyArgs;
use crate::error::Error;
use truetape_schemas::blame::Answer;

/// Carries out `truetape verify`.
pub fn run(args: VerifyArgs) -> Result<Answer, Error> {
    Err(Error::bug(format!("{args:?}"), "not built yet"))
}
