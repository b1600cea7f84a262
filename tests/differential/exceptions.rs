//! What may differ, because the documentation says that it does.

use crate::stage::Came;
use std::time::Duration;
use truetape_testkit::talk::Protocol;

/// A documented difference.
pub(crate) struct Exception {
    /// Its name in the corpus.
    pub(crate) name: &'static str,
    /// What differs.
    keys: &'static [&'static str],
    /// Words of `docs/record.md` that tell it.
    pub(crate) told: &'static str,
    /// Why it is so.
    pub(crate) why: &'static str,
}

/// Every one; an entry that names one must show it, so that the page stays true.
pub(crate) const EXCEPTIONS: &[Exception] = &[
    Exception {
        name: "interim",
        keys: &["answer.interim-form"],
        told: "Of interim responses (1xx) over HTTP/1",
        why: "hyper's client hands them out without either",
    },
    Exception {
        name: "trailers",
        keys: &["answer.trailers", "request.trailers"],
        told: "Trailers that `Trailer` does not declare",
        why: "hyper's encoder sends only those that were declared, to those who take them",
    },
    Exception {
        name: "head-framing",
        keys: &["answer.field.transfer-encoding"],
        told: "`Transfer-Encoding` of the response to a HEAD",
        why: "it frames nothing there, and hyper leaves it out",
    },
    Exception {
        name: "not-modified",
        keys: &["answer.field.content-length"],
        told: "`Content-Length` of a 304",
        why: "hyper leaves it out",
    },
    Exception {
        name: "reason",
        keys: &["answer.start"],
        told: "A reason phrase that is not ASCII",
        why: "hyper's parser drops it",
    },
    Exception {
        name: "no-head",
        keys: &["answer.start"],
        told: "What an upstream sends that is not a whole head",
        why: "hyper hands out whole heads only",
    },
    Exception {
        name: "reset",
        keys: &["answer.end.how"],
        told: "A reset by the upstream, or chunks that cannot be read",
        why: "hyper tells a cut, and closes",
    },
    Exception {
        name: "up-to-close",
        keys: &["answer.field.transfer-encoding"],
        told: "A body that ends with its connection",
        why: "in chunks a cut shows, which up to a close it would not",
    },
    Exception {
        name: "version",
        keys: &["answer.start"],
        told: "A response has the version of its request",
        why: "hyper writes the version of the connection",
    },
    Exception {
        name: "two-framings",
        keys: &[
            "request.field.content-length",
            "client.kept",
            "answer.start",
            "answer.field.content-length",
            "answer.field.transfer-encoding",
            "answer.body",
            "answer.end",
        ],
        told: "with both `Content-Length` and `Transfer-Encoding`",
        why: "RFC 9112, 6.3: it may be an attempt to smuggle a request",
    },
    Exception {
        name: "streams-reset",
        keys: &["answer.end"],
        told: "The end of an upstream's HTTP/2 connection under a stream",
        why: "the client's connection carries other streams",
    },
    Exception {
        name: "http10",
        keys: &["request.start", "request.field.host"],
        told: "A request in HTTP/1.0 goes upstream in HTTP/1.1",
        why: "an upstream that is asked in 1.0 may not chunk, and buffers its stream",
    },
    Exception {
        name: "order",
        keys: &["answer.order", "request.order"],
        told: "The order of headers of different names",
        why: "the header map groups fields of one name at the first",
    },
];

/// How an exchange came out.
#[derive(Debug)]
pub(crate) enum Verdict {
    Same,
    /// As the page says.
    Documented(String),
    Differs(Vec<String>),
}

/// The upstream must know so soon that its client has gone: 100 ms are promised, and a busy
/// machine may be this much later.
const KNOWN_WITHIN: Duration = Duration::from_secs(2);

/// Judges what came of an entry.
pub(crate) fn judge(came: &Came) -> Verdict {
    let mut wrong = Vec::new();
    let mut told = Vec::new();
    let mut left: Vec<_> = came.differences.iter().collect();
    for (on, name) in &came.entry.except {
        if on.is_some_and(|on: Protocol| on != came.protocol) {
            continue;
        }
        let Some(exception) = EXCEPTIONS.iter().find(|known| known.name == name) else {
            wrong.push(format!("no exception has the name {name}"));
            continue;
        };
        let before = left.len();
        left.retain(|difference| !exception.keys.contains(&difference.key.as_str()));
        if left.len() == before {
            wrong.push(format!(
                "docs/record.md says \"{}\", which did not happen",
                exception.told
            ));
        }
        told.push(exception.told.to_owned());
    }
    let line = |difference: &&crate::compare::Difference| {
        format!("{}: {}", difference.key, difference.text)
    };
    wrong.extend(left.iter().map(line));
    if let Some((_, proxied)) = came.gone
        && proxied > KNOWN_WITHIN
    {
        wrong.push(format!("the upstream knew only after {proxied:?}"));
    }
    match (wrong.is_empty(), told.is_empty()) {
        (true, true) => Verdict::Same,
        (true, false) => Verdict::Documented(told.join("; ")),
        (false, _) => Verdict::Differs(wrong),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus;

    #[test]
    fn the_page_tells_every_exception_and_the_corpus_shows_it() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/record.md");
        let page = std::fs::read_to_string(page).unwrap();
        let entries = corpus::all();
        for exception in EXCEPTIONS {
            assert!(page.contains(exception.told), "{}", exception.told);
            assert!(!exception.why.is_empty());
            let shown =
                |entry: &corpus::Entry| entry.except.iter().any(|(_, name)| name == exception.name);
            assert!(
                entries.iter().any(shown),
                "{} is never shown",
                exception.name
            );
        }
    }
}
