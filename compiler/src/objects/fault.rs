//! What can be wrong with a store, and who must act.

use crate::error::Error;
use std::error::Error as _;

/// Characters of a store's own words that a message repeats: some answer with pages of XML.
const CAUSE_CHARS_MAX: usize = 300;

/// What is wrong with a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// There is no such object, or no such bucket.
    Absent,
    /// There is an object of that name.
    Taken,
    /// The store knows us not, or does not let us.
    Denied,
    /// The store cannot do what is needed.
    Unsupported,
    /// It could not be reached, or is busy: worth another try.
    Passing,
}

impl Fault {
    /// Reads a client's error.
    pub(crate) fn of(cause: &object_store::Error) -> Self {
        use object_store::Error::{
            AlreadyExists, NotFound, NotImplemented, NotModified, NotSupported, PermissionDenied,
            Precondition, Unauthenticated,
        };
        match cause {
            // Somebody else ended our upload, as a rule of the bucket does: it begins anew.
            NotFound { .. } if chain(cause).contains("NoSuchUpload") => Self::Passing,
            NotFound { .. } => Self::Absent,
            AlreadyExists { .. } | Precondition { .. } | NotModified { .. } => Self::Taken,
            PermissionDenied { .. } | Unauthenticated { .. } => Self::Denied,
            NotSupported { .. } | NotImplemented { .. } => Self::Unsupported,
            // Listings come without a kind; what the store answered is in the chain.
            _ => of_words(&chain(cause)),
        }
    }

    /// Another try may go well without anybody doing anything.
    pub(crate) fn passes(self) -> bool {
        self == Self::Passing
    }

    /// One word, for counters.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Taken => "taken",
            Self::Denied => "denied",
            Self::Unsupported => "unsupported",
            Self::Passing => "unavailable",
        }
    }

    /// The error of a command that cannot go on.
    pub(crate) fn error(self, url: &str, cause: &object_store::Error) -> Error {
        let said = brief(cause);
        let problem = match self {
            Self::Absent => format!("there is no such bucket or object: {said}; check the URL"),
            Self::Taken => format!("an object of that name is there: {said}"),
            Self::Denied => format!(
                "the store denies access: {said}; check the credentials in the environment \
                 (AWS_*, GOOGLE_*, AZURE_*) and what they may do"
            ),
            Self::Unsupported => format!(
                "the store cannot do what is needed, which is to create an object only where none \
                 is: {said}"
            ),
            Self::Passing => format!(
                "the store could not be reached, or is busy: {said}; check the URL, the endpoint \
                 and the credentials, or try again"
            ),
        };
        Error::target(url, problem)
    }
}

fn of_words(words: &str) -> Fault {
    let says = |needles: &[&str]| needles.iter().any(|needle| words.contains(needle));
    if says(&["NoSuchBucket", "404 Not Found", "ContainerNotFound"]) {
        Fault::Absent
    } else if says(&[
        "403 Forbidden",
        "401 Unauthorized",
        "AccessDenied",
        "InvalidAccessKeyId",
    ]) {
        Fault::Denied
    } else {
        Fault::Passing
    }
}

fn chain(cause: &object_store::Error) -> String {
    let mut text = cause.to_string();
    let mut next = cause.source();
    while let Some(because) = next {
        text.push_str(": ");
        text.push_str(&because.to_string());
        next = because.source();
    }
    text
}

/// The store's own words on one line, and not too many of them. The innermost cause is the one that
/// says what happened to the connection; it is repeated where the outer words lack it.
pub(crate) fn brief(cause: &object_store::Error) -> String {
    let outer = cause.to_string();
    let mut innermost = None;
    let mut next = cause.source();
    while let Some(because) = next {
        innermost = Some(because.to_string());
        next = because.source();
    }
    let mut text = one_line(&outer, CAUSE_CHARS_MAX);
    if let Some(innermost) = innermost.filter(|innermost| !outer.contains(innermost)) {
        text.push_str(": ");
        text.push_str(&one_line(&innermost, CAUSE_CHARS_MAX));
    }
    text
}

fn one_line(text: &str, chars_max: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    if line.chars().count() <= chars_max {
        return line;
    }
    let cut: String = line.chars().take(chars_max).collect();
    format!("{cut}...")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generic(words: &str) -> object_store::Error {
        object_store::Error::Generic {
            store: "S3",
            source: words.to_owned().into(),
        }
    }

    #[test]
    fn a_listing_says_in_words_what_is_wrong() {
        let of = |words: &str| Fault::of(&generic(words));
        assert_eq!(
            of("status: 404 Not Found: <Code>NoSuchBucket</Code>"),
            Fault::Absent
        );
        assert_eq!(of("status: 403 Forbidden"), Fault::Denied);
        assert_eq!(
            of("status: 503 Service Unavailable: SlowDown"),
            Fault::Passing
        );
        assert_eq!(of("connection refused"), Fault::Passing);
    }

    #[test]
    fn an_upload_that_somebody_ended_is_begun_anew() {
        let absent = |words: &str| object_store::Error::NotFound {
            path: "a".to_owned(),
            source: words.to_owned().into(),
        };
        assert_eq!(
            Fault::of(&absent("<Code>NoSuchUpload</Code>")),
            Fault::Passing
        );
        assert_eq!(Fault::of(&absent("<Code>NoSuchKey</Code>")), Fault::Absent);
    }

    #[test]
    fn a_message_is_one_line_of_bounded_length() {
        let said = brief(&generic(&"<a>\n  <b>\n".repeat(1_000)));
        assert!(
            !said.contains('\n') && said.chars().count() < 2 * CAUSE_CHARS_MAX + 10,
            "{said}"
        );
    }
}
