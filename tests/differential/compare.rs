//! What differs between an exchange without the proxy and one through it.

use std::collections::BTreeMap;
use truetape_testkit::talk::{ClientSeen, End, Fields, Message, Protocol, ServerSeen};

/// Both sides of one play.
pub(crate) struct Played {
    pub(crate) client: ClientSeen,
    pub(crate) server: ServerSeen,
    /// What did not end in time.
    pub(crate) hung: Option<String>,
}

/// One thing that is not the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    /// What, in the words of `exceptions.rs`.
    pub(crate) key: String,
    /// A line for people.
    pub(crate) text: String,
}

/// Fields that belong to one connection; the framing of bodies is compared.
const HOP: &[&str] = &[
    "connection",
    "keep-alive",
    "proxy-connection",
    "te",
    "upgrade",
];

/// Everything that is not the same.
pub(crate) fn compare(direct: &Played, proxied: &Played) -> Vec<Difference> {
    let mut found = Found::default();
    let (client, other) = (&direct.client, &proxied.client);
    found.messages("answer", &client.answers, &other.answers);
    found.same(
        "client.connections",
        &client.connections,
        &other.connections,
    );
    found.same("client.kept", &client.kept, &other.kept);
    found.bytes("client.tunnelled", &client.tunnelled, &other.tunnelled);
    let (server, other) = (&direct.server, &proxied.server);
    found.messages("request", &server.requests, &other.requests);
    found.same(
        "server.connections",
        &server.connections,
        &other.connections,
    );
    found.same("server.protocols", &server.protocols, &other.protocols);
    found.bytes("server.tunnelled", &server.tunnelled, &other.tunnelled);
    let knew = |server: &ServerSeen| server.gone_at.is_some();
    found.same("server.knew", &knew(server), &knew(other));
    // An upstream that had to wait for a slow client must wait for it through the proxy too.
    let waited = |played: &Played| played.server.sent_at.zip(played.client.resumed_at);
    let waited = |played: &Played| waited(played).is_some_and(|(sent, resumed)| sent >= resumed);
    // Over HTTP/1.1 the sockets on the way may hold all of it.
    let windows = direct.server.protocols.contains(&Protocol::Http2);
    if windows && waited(direct) && !waited(proxied) {
        found.add(
            "held-back",
            "a slow client did not hold the upstream back".to_owned(),
        );
    }
    for (hung, who) in [(&direct.hung, "direct"), (&proxied.hung, "proxied")] {
        if let Some(hung) = hung {
            found.add("hung", format!("{who}: {hung}"));
        }
    }
    found.0
}

#[derive(Default)]
struct Found(Vec<Difference>);

impl Found {
    fn add(&mut self, key: &str, text: String) {
        let key = key.to_owned();
        self.0.push(Difference { key, text });
    }

    fn same<T: PartialEq + std::fmt::Debug>(&mut self, key: &str, direct: &T, proxied: &T) {
        if direct != proxied {
            self.add(key, format!("{direct:?} became {proxied:?}"));
        }
    }

    fn bytes(&mut self, key: &str, direct: &[u8], proxied: &[u8]) {
        if direct != proxied {
            let same = direct.iter().zip(proxied).take_while(|(a, b)| a == b);
            let (at, lengths) = (same.count(), (direct.len(), proxied.len()));
            self.add(
                key,
                format!(
                    "{} bytes became {}; the same up to {at}",
                    lengths.0, lengths.1
                ),
            );
        }
    }

    fn messages(&mut self, what: &str, direct: &[Message], proxied: &[Message]) {
        self.same(&format!("{what}s"), &direct.len(), &proxied.len());
        for (direct, proxied) in direct.iter().zip(proxied) {
            self.message(what, direct, proxied);
        }
    }

    fn message(&mut self, what: &str, direct: &Message, proxied: &Message) {
        let key = |part: &str| format!("{what}.{part}");
        self.same(&key("start"), &direct.start, &proxied.start);
        self.interim(what, &direct.interim, &proxied.interim);
        self.fields(what, &direct.fields, &proxied.fields);
        // How far a request got that broke off depends on buffers.
        let broke_off = |message: &Message| what == "request" && message.end != End::Whole;
        let prefix =
            direct.body.starts_with(&proxied.body) || proxied.body.starts_with(&direct.body);
        if !(prefix && broke_off(direct) && broke_off(proxied)) {
            self.bytes(&key("body"), &direct.body, &proxied.body);
        }
        if lower(&direct.trailers) != lower(&proxied.trailers) {
            self.same(&key("trailers"), &direct.trailers, &proxied.trailers);
        } else {
            self.same(&key("trailer-case"), &direct.trailers, &proxied.trailers);
        }
        self.end(&key("end"), &direct.end, &proxied.end);
    }

    fn interim(&mut self, what: &str, direct: &[(String, Fields)], proxied: &[(String, Fields)]) {
        let bare = |(start, fields): &(String, Fields)| {
            let status = start.split(' ').nth(1).unwrap_or_default().to_owned();
            (status, lower(fields))
        };
        let bare = |all: &[(String, Fields)]| all.iter().map(bare).collect::<Vec<_>>();
        let key = if bare(direct) == bare(proxied) {
            "interim-form"
        } else {
            "interim"
        };
        self.same(&format!("{what}.{key}"), &direct, &proxied);
    }

    fn end(&mut self, key: &str, direct: &End, proxied: &End) {
        match (direct, proxied) {
            // The same cut, by other means.
            (End::Cut(_), End::Cut(_)) if direct != proxied => {
                self.same(&format!("{key}.how"), direct, proxied);
            }
            _ => self.same(key, direct, proxied),
        }
    }

    fn fields(&mut self, what: &str, direct: &Fields, proxied: &Fields) {
        let (direct, proxied) = (passing(direct), passing(proxied));
        let (ours, theirs) = (by_name(&direct), by_name(&proxied));
        let names: std::collections::BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
        for name in names {
            let (ours, theirs) = (ours.get(name), theirs.get(name));
            if ours != theirs {
                self.same(&format!("{what}.field.{name}"), &ours, &theirs);
            }
        }
        let order = |fields: &Fields| -> Vec<String> {
            fields.iter().map(|(name, _)| name.to_lowercase()).collect()
        };
        if ours == theirs {
            self.same(&format!("{what}.order"), &order(&direct), &order(&proxied));
        }
    }
}

fn lower(fields: &Fields) -> Fields {
    let lower = |(name, value): &(String, String)| (name.to_lowercase(), value.clone());
    fields.iter().map(lower).collect()
}

/// Fields that are for the other end: not those of a hop, nor those that `Connection` nominates.
fn passing(fields: &Fields) -> Fields {
    let pairs = lower(fields);
    let values = |wanted: &str| -> Vec<String> {
        let of = pairs.iter().filter(|(name, _)| name == wanted);
        let tokens = of.flat_map(|(_, value)| value.split(','));
        tokens.map(|token| token.trim().to_lowercase()).collect()
    };
    let nominated = values("connection");
    let upgrades = nominated.iter().any(|name| name == "upgrade") && !values("upgrade").is_empty();
    let trailers = values("te") == ["trailers"];
    let framing = ["host", "content-length", "transfer-encoding", "trailer"];
    let passes = |(name, _): &&(String, String)| {
        let name = name.to_lowercase();
        match name.as_str() {
            "connection" | "upgrade" => upgrades,
            "te" => trailers,
            _ if framing.contains(&name.as_str()) => true,
            _ => !HOP.contains(&name.as_str()) && !nominated.contains(&name),
        }
    };
    fields.iter().filter(passes).cloned().collect()
}

fn by_name(fields: &Fields) -> BTreeMap<String, Vec<String>> {
    let mut map: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in fields {
        let values = map.entry(name.to_lowercase()).or_default();
        values.push(shorten(&format!("{name}: {value}")));
    }
    map
}

/// Values are compared whole and shown in part.
fn shorten(text: &str) -> String {
    const SHOWN: usize = 80;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => {
            let digest = text.bytes().fold(0_u64, |sum, byte| {
                sum.wrapping_mul(31).wrapping_add(u64::from(byte))
            });
            format!(
                "{}… ({} bytes, {digest:x})",
                text.split_at(end).0,
                text.len()
            )
        }
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(list: &[(&str, &str)]) -> Fields {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        list.iter().map(owned).collect()
    }

    fn keys(direct: &[(&str, &str)], proxied: &[(&str, &str)]) -> Vec<String> {
        let mut found = Found::default();
        found.fields("request", &fields(direct), &fields(proxied));
        found.0.into_iter().map(|one| one.key).collect()
    }

    #[test]
    fn fields_of_a_hop_may_go_and_others_may_not() {
        let sent = [("Connection", "X-Hop"), ("x-hop", "1"), ("A", "1")];
        assert!(keys(&sent, &[("A", "1")]).is_empty());
        assert_eq!(
            keys(&sent, &[("x-hop", "1"), ("A", "1")]),
            ["request.field.x-hop"]
        );
        assert_eq!(keys(&sent, &[("a", "1")]), ["request.field.a"]);
        assert_eq!(keys(&sent, &[]), ["request.field.a"]);
    }

    #[test]
    fn the_order_of_fields_is_seen() {
        let (a, b) = (("a", "1"), ("b", "2"));
        assert_eq!(keys(&[a, b], &[b, a]), ["request.order"]);
        assert_eq!(
            keys(&[("a", "1"), ("a", "2")], &[("a", "2"), ("a", "1")]),
            ["request.field.a"]
        );
    }

    #[test]
    fn a_cut_is_not_an_end() {
        let message = |end: End| Message {
            end,
            ..Message::default()
        };
        let mut found = Found::default();
        found.message(
            "answer",
            &message(End::Cut("closed".to_owned())),
            &message(End::Whole),
        );
        assert_eq!(found.0[0].key, "answer.end");
        let mut found = Found::default();
        found.message("answer", &message(End::Reset(8)), &message(End::Reset(2)));
        assert_eq!(found.0[0].key, "answer.end");
    }
}
