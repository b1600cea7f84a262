//! How an exchange ended, from what was seen of it.

use crate::capture::Outcome;

/// How the body of an answer came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyEnd {
    /// The transport ended it as the protocol says: last chunk, full length, or close where the
    /// length was not given.
    Clean,
    /// The upstream went away before.
    Cut,
    /// The client went away before.
    ClientAborted,
    /// A time limit of ours passed before.
    Timeout,
    /// The recording process ended before.
    ProxyShutdown,
}

/// What the body turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// There was none.
    Empty,
    /// Events; whether every choice said why it ended.
    Events { finished: bool },
    /// A JSON document.
    Whole,
    /// The beginning of a JSON document.
    Half,
    /// Something that is not read.
    Opaque,
}

/// All that the outcome depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Evidence {
    pub(super) status: u16,
    pub(super) body: Body,
    /// The end marker was seen.
    pub(super) done: bool,
    /// The body says that something failed.
    pub(super) error: bool,
    /// The body says that someone called it off.
    pub(super) cancelled: bool,
    pub(super) end: BodyEnd,
}

/// Whether a response of this status has an answer in it, or says why there is none.
pub(super) fn has_answer(status: u16) -> bool {
    !matches!(status, 100..=199 | 204 | 205 | 300..=399)
}

/// Decides. The order of the questions is the order of their weight: what the server says counts
/// for more than how the transport ended, and an error for more than an end marker.
pub(super) fn of(evidence: Evidence) -> Outcome {
    if evidence.error || evidence.status >= 400 {
        return Outcome::Error;
    }
    if evidence.cancelled {
        return Outcome::ClientAborted;
    }
    if evidence.done {
        return Outcome::Complete;
    }
    match evidence.end {
        BodyEnd::Cut => Outcome::Truncated,
        BodyEnd::ClientAborted => Outcome::ClientAborted,
        BodyEnd::Timeout => Outcome::Timeout,
        BodyEnd::ProxyShutdown => Outcome::ProxyShutdown,
        BodyEnd::Clean => match evidence.body {
            Body::Events { finished: true } | Body::Whole | Body::Opaque => Outcome::Complete,
            Body::Events { finished: false } | Body::Half | Body::Empty => Outcome::Truncated,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outcome_follows_from_the_evidence() {
        use Body::{Empty, Events, Half, Opaque, Whole};
        use BodyEnd::{Clean, ClientAborted, Cut, ProxyShutdown, Timeout};
        let open = Events { finished: false };
        let finished = Events { finished: true };
        let cases = [
            // status, body, done, error, end
            ((200, finished, true, false, Clean), Outcome::Complete),
            ((200, finished, false, false, Clean), Outcome::Complete),
            ((200, open, true, false, Clean), Outcome::Complete),
            ((200, open, false, false, Clean), Outcome::Truncated),
            ((200, finished, true, false, Cut), Outcome::Complete),
            ((200, finished, false, false, Cut), Outcome::Truncated),
            ((200, open, true, true, Clean), Outcome::Error),
            ((200, open, false, true, Cut), Outcome::Error),
            ((200, open, true, false, ClientAborted), Outcome::Complete),
            (
                (200, finished, false, false, ClientAborted),
                Outcome::ClientAborted,
            ),
            ((200, open, false, false, Timeout), Outcome::Timeout),
            (
                (200, open, false, false, ProxyShutdown),
                Outcome::ProxyShutdown,
            ),
            ((200, Whole, false, false, Clean), Outcome::Complete),
            ((200, Half, false, false, Clean), Outcome::Truncated),
            ((200, Empty, false, false, Clean), Outcome::Truncated),
            ((200, Opaque, false, false, Clean), Outcome::Complete),
            ((200, Opaque, false, false, Cut), Outcome::Truncated),
            ((200, Whole, false, false, Cut), Outcome::Truncated),
            ((429, Empty, false, false, Clean), Outcome::Error),
            ((500, Opaque, false, false, ClientAborted), Outcome::Error),
        ];
        for ((status, body, done, error, end), outcome) in cases {
            let evidence = Evidence {
                status,
                body,
                done,
                error,
                cancelled: false,
                end,
            };
            assert_eq!(of(evidence), outcome, "{evidence:?}");
        }
    }
}
