//! Decoders of other makers, which may panic on a file that nobody should have written.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// What is said where a decoder panicked. Its message may quote the file, and is not told.
const BROKE_OFF: &str = "its decoder broke off; the file is damaged or hostile";

/// Runs a decoder: where it panics, the file cannot be read.
///
/// That of Parquet checks less than it assumes: a column chunk of a negative length panics, and so
/// do values in an encoding that has no decoder. What a panic leaves behind must not be used again.
pub(super) fn contained<T>(decode: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(decode)).unwrap_or_else(|_| Err(BROKE_OFF.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::{BROKE_OFF, contained};

    #[test]
    #[expect(clippy::panic, reason = "it is what is contained")]
    fn a_panic_is_an_error_that_does_not_quote_it() {
        assert_eq!(contained(|| Ok(7)), Ok(7));
        assert_eq!(
            contained::<()>(|| Err("no".to_owned())),
            Err("no".to_owned())
        );
        assert_eq!(
            contained::<()>(|| panic!("secret")),
            Err(BROKE_OFF.to_owned())
        );
    }
}
