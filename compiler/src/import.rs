//! The verb `import`.

use crate::cli::ImportArgs;
use crate::error::Error;
use truetape_schemas::blame::Answer;

/// Carries out `truetape import`.
pub fn run(args: ImportArgs) -> Result<Answer, Error> {
    Err(Error::bug(format!("{args:?}"), "not built yet"))
}
