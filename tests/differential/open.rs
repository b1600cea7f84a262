//! The acceptance cases beside the repository as entries: what their upstream writes, and when,
//! with the pauses cut short where nothing depends on them.

use crate::case::{Case, Kind};
use crate::corpus::Entry;
use crate::folders;
use crate::stream::{Variant, variants};
use std::time::Duration;
use truetape_testkit::http1::Head;
use truetape_testkit::shared;
use truetape_testkit::talk::server::Part;
use truetape_testkit::talk::{Act, Awaited, Protocol};
use truetape_testkit::upstream::{Action, Framing, Step};

/// Longest pause between two writes: long enough that they do not become one.
const PAUSE_MAX: Duration = Duration::from_millis(30);

/// Every exchange of the cases that are about the proxy; none where they are not at hand.
pub(crate) fn all() -> Vec<Entry> {
    let Some(dir) = shared::path("cases") else {
        return Vec::new();
    };
    let mut cases: Vec<Case> = std::fs::read_dir(dir)
        .unwrap()
        .filter_map(|entry| Case::read(&entry.unwrap().path())?.ok())
        .filter(|case| case.is_about("proxy"))
        .collect();
    cases.sort_by(|a, b| a.id.cmp(&b.id));
    cases.iter().flat_map(of).collect()
}

/// The entries of a case. There is none that has nothing to play.
fn of(case: &Case) -> Vec<Entry> {
    let entries: Vec<Entry> = if case.kind() == Some(Kind::Stream) {
        let variants = variants(case).unwrap();
        variants
            .iter()
            .map(|variant| entry(case, variant))
            .collect()
    } else {
        let entries = folders::entries(case);
        entries.unwrap_or_else(|wrong| panic!("{}: {wrong}", case.id))
    };
    assert!(!entries.is_empty(), "{} has nothing to play", case.id);
    entries
}

fn entry(case: &Case, variant: &Variant) -> Entry {
    let request = &variant.request;
    let mut fields = vec![("Host".to_owned(), "model.test".to_owned())];
    fields.extend(request.headers.iter().cloned());
    let length = request.body.len().to_string();
    fields.push(("Content-Length".to_owned(), length));
    let mut client = vec![
        Act::Request {
            method: request.method.clone(),
            target: request.path.clone(),
            fields,
        },
        Act::Data(request.body.clone().into()),
        Act::End,
    ];
    if let Some(after) = variant.abort_after {
        let bytes = writes(&variant.script.steps, after).map(<[u8]>::len).sum();
        client.extend([Act::Await(Awaited::Bytes(bytes)), Act::Leave]);
    }
    let name = match variant.name.as_str() {
        "" => case.id.clone(),
        name => format!("{} {name}", case.id),
    };
    Entry {
        name,
        protocols: vec![Protocol::Http1, Protocol::Http2],
        client,
        server: vec![Part {
            at_head: false,
            acts: answer(variant),
        }],
        ..Entry::default()
    }
}

fn answer(variant: &Variant) -> Vec<Act> {
    let script = &variant.script;
    let (head, _) = Head::split(&script.head).unwrap();
    let reason = head.start.splitn(3, ' ').nth(2).unwrap_or_default();
    let mut acts = vec![Act::Response {
        status: head.status(),
        reason: reason.to_owned(),
        fields: head.headers.clone(),
    }];
    if let Some(after) = variant.abort_after {
        // What comes before the client leaves, whatever the machine does meanwhile.
        let written = writes(&script.steps, after);
        acts.extend(written.map(|bytes| Act::Data(bytes.to_vec().into())));
        acts.push(Act::Await(Awaited::Gone));
        return acts;
    }
    let mut at = Duration::ZERO;
    for step in &script.steps {
        let pause = step.at.saturating_sub(at).min(PAUSE_MAX);
        at = step.at;
        if !pause.is_zero() {
            acts.push(Act::Pause(pause));
        }
        acts.push(match &step.action {
            Action::Write(bytes) => Act::Data(bytes.clone().into()),
            Action::End => Act::End,
            Action::Close if script.framing == Framing::Close => Act::End,
            Action::Close => Act::Leave,
            Action::Reset => Act::Reset(INTERNAL_ERROR),
            Action::Hold(time) => Act::Pause((*time).min(PAUSE_MAX)),
        });
    }
    acts
}

/// What is written up to a time.
fn writes(steps: &[Step], until: Duration) -> impl Iterator<Item = &[u8]> {
    let before = steps.iter().filter(move |step| step.at <= until);
    before.filter_map(|step| match &step.action {
        Action::Write(bytes) => Some(&bytes[..]),
        _ => None,
    })
}

/// What the stream's end is in HTTP/2 where HTTP/1.1 has a reset.
const INTERNAL_ERROR: u32 = 2;
