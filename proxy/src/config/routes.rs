//! Which listener leads to which upstream, and what TLS each side has.

use super::parse::upstream;
use super::settings::Settings;
use super::{RouteConfig, Target};
use crate::error::Error;
use crate::limits;
use crate::tls::{ClientAuth, InboundFiles, OutboundFiles};
use rustls::pki_types::ServerName;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::path::PathBuf;

/// One route as text: a `[[route]]` of the file, or the settings outside of any.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RouteText {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) listen: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) upstream: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) transparent: bool,
    #[serde(skip_serializing_if = "List::is_empty")]
    pub(super) tls_cert: List,
    #[serde(skip_serializing_if = "List::is_empty")]
    pub(super) tls_key: List,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) tls_client_ca: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) tls_client_auth: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) upstream_ca: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) upstream_cert: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) upstream_key: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) upstream_server_name: String,
}

/// A list, or one value that stands for a list of one.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(from = "OneOrMore")]
pub(super) struct List(pub(super) Vec<String>);

impl List {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl From<OneOrMore> for List {
    fn from(text: OneOrMore) -> Self {
        match text {
            OneOrMore::One(one) => Self(vec![one]),
            OneOrMore::More(more) => Self(more),
        }
    }
}

impl RouteText {
    /// `LISTEN=UPSTREAM`, as on the command line.
    pub(super) fn of(text: &str) -> Result<Self, Error> {
        let (listen, upstream) = text.split_once('=').ok_or_else(|| {
            Error::config(
                "route",
                format!(
                    "found {:?}, expected LISTEN=UPSTREAM, as in 0.0.0.0:8001=http://127.0.0.1:8000",
                    without_password(text)
                ),
            )
        })?;
        Ok(Self {
            listen: listen.to_owned(),
            upstream: upstream.to_owned(),
            ..Self::default()
        })
    }

    /// Takes over what is set outside of any route. A side that has any setting of its own has all
    /// of it: nothing is mixed.
    fn complete(&mut self, outside: &Self) {
        if self.inbound() == Self::default().inbound() {
            self.tls_cert.clone_from(&outside.tls_cert);
            self.tls_key.clone_from(&outside.tls_key);
            self.tls_client_ca.clone_from(&outside.tls_client_ca);
            self.tls_client_auth.clone_from(&outside.tls_client_auth);
        }
        if self.outbound() == Self::default().outbound() {
            self.upstream_ca.clone_from(&outside.upstream_ca);
            self.upstream_cert.clone_from(&outside.upstream_cert);
            self.upstream_key.clone_from(&outside.upstream_key);
            self.upstream_server_name
                .clone_from(&outside.upstream_server_name);
        }
    }

    fn inbound(&self) -> (&List, &List, [&str; 2]) {
        let others = [self.tls_client_ca.as_str(), self.tls_client_auth.as_str()];
        (&self.tls_cert, &self.tls_key, others)
    }

    fn outbound(&self) -> [&str; 4] {
        [
            self.upstream_ca.as_str(),
            self.upstream_cert.as_str(),
            self.upstream_key.as_str(),
            self.upstream_server_name.as_str(),
        ]
    }
}

/// All routes; there is at least one.
pub(super) fn routes(settings: &Settings) -> Result<Vec<RouteConfig>, Error> {
    let outside = outside(settings);
    let mut texts = settings.routes()?;
    let alone = texts.is_empty();
    if alone || !outside.listen.is_empty() || !outside.upstream.is_empty() || outside.transparent {
        settings.required("listen")?;
        if !outside.transparent {
            settings.required("upstream")?;
        }
        texts.insert(0, outside.clone());
    }
    if texts.len() > limits::ROUTES_MAX {
        return Err(Error::config(
            "route",
            format!(
                "found {}, expected at most {}",
                texts.len(),
                limits::ROUTES_MAX
            ),
        ));
    }
    for text in &mut texts {
        text.complete(&outside);
    }
    let routes = texts.iter().map(route).collect::<Result<Vec<_>, _>>()?;
    once_each(&routes)?;
    if routes.iter().all(|route| route.outbound.is_none())
        && let Some(setting) = idle_outbound(&outside)
    {
        return Err(Error::config(
            setting,
            "is set, but no upstream is https; requests would go in clear",
        ));
    }
    Ok(routes)
}

fn outside(settings: &Settings) -> RouteText {
    let text = |name| settings.text(name).to_owned();
    RouteText {
        listen: text("listen"),
        upstream: text("upstream"),
        transparent: settings.text("transparent") == "true",
        tls_cert: List(settings.list("tls_cert").to_vec()),
        tls_key: List(settings.list("tls_key").to_vec()),
        tls_client_ca: text("tls_client_ca"),
        tls_client_auth: text("tls_client_auth"),
        upstream_ca: text("upstream_ca"),
        upstream_cert: text("upstream_cert"),
        upstream_key: text("upstream_key"),
        upstream_server_name: text("upstream_server_name"),
    }
}

fn idle_outbound(outside: &RouteText) -> Option<&'static str> {
    let names = [
        "upstream_ca",
        "upstream_cert",
        "upstream_key",
        "upstream_server_name",
    ];
    let set = names.into_iter().zip(outside.outbound());
    set.into_iter()
        .find_map(|(name, text)| (!text.is_empty()).then_some(name))
}

fn route(text: &RouteText) -> Result<RouteConfig, Error> {
    let inbound = inbound(text)?;
    let target = match (text.transparent, text.upstream.is_empty()) {
        (false, _) => Target::Server(upstream(&text.upstream)?),
        (true, true) => Target::OriginalDestination,
        (true, false) => {
            return Err(Error::config(
                "transparent",
                "cannot be combined with an upstream: each connection goes where it was sent",
            ));
        }
    };
    // Where both ends are the client's choice, TLS that is opened here is closed again behind us.
    let outbound = match &target {
        Target::Server(server) => server.tls,
        Target::OriginalDestination => inbound.is_some(),
    };
    Ok(RouteConfig {
        listen: listen(&text.listen)?,
        target,
        inbound,
        outbound: outbound.then(|| outbound_files(text)).transpose()?,
    })
}

fn listen(address: &str) -> Result<String, Error> {
    let port = address
        .rsplit_once(':')
        .map(|(_, port)| port.parse::<u16>());
    match port {
        Some(Ok(_)) => Ok(address.to_owned()),
        _ => Err(Error::config(
            "listen",
            format!("found {address:?}, expected an address and a port, as in 0.0.0.0:8001"),
        )),
    }
}

fn once_each(routes: &[RouteConfig]) -> Result<(), Error> {
    let mut known = HashSet::new();
    for route in routes {
        let any_port = route.listen.ends_with(":0");
        if !known.insert(&route.listen) && !any_port {
            return Err(Error::config(
                "route",
                format!(
                    "found {} twice; a listener leads to one upstream",
                    route.listen
                ),
            ));
        }
    }
    Ok(())
}

fn inbound(text: &RouteText) -> Result<Option<InboundFiles>, Error> {
    let (certificates, keys) = (&text.tls_cert.0, &text.tls_key.0);
    if certificates.len() != keys.len() {
        return Err(Error::config(
            "tls_cert",
            format!(
                "found {} with {} of tls_key; expected a key for each, in the same order",
                certificates.len(),
                keys.len()
            ),
        ));
    }
    if certificates.is_empty() {
        for (setting, text) in [
            ("tls_client_ca", &text.tls_client_ca),
            ("tls_client_auth", &text.tls_client_auth),
        ] {
            if !text.is_empty() {
                return Err(Error::config(setting, "needs tls_cert and tls_key"));
            }
        }
        return Ok(None);
    }
    let identities = certificates.iter().zip(keys);
    Ok(Some(InboundFiles {
        identities: identities
            .map(|(certificate, key)| (PathBuf::from(certificate), PathBuf::from(key)))
            .collect(),
        client_ca: path(&text.tls_client_ca),
        client_auth: client_auth(text)?,
    }))
}

fn client_auth(text: &RouteText) -> Result<ClientAuth, Error> {
    let auth = text.tls_client_auth.as_str();
    if !auth.is_empty() && text.tls_client_ca.is_empty() {
        return Err(Error::config("tls_client_auth", "needs tls_client_ca"));
    }
    match auth {
        "" | "require" => Ok(ClientAuth::Require),
        "request" => Ok(ClientAuth::Request),
        other => Err(Error::config(
            "tls_client_auth",
            format!("found {other:?}, expected require or request"),
        )),
    }
}

fn outbound_files(text: &RouteText) -> Result<OutboundFiles, Error> {
    let identity = match (path(&text.upstream_cert), path(&text.upstream_key)) {
        (None, None) => None,
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (Some(_), None) => return Err(Error::config("upstream_cert", "needs upstream_key")),
        (None, Some(_)) => return Err(Error::config("upstream_key", "needs upstream_cert")),
    };
    Ok(OutboundFiles {
        ca: path(&text.upstream_ca),
        identity,
        server_name: server_name(&text.upstream_server_name)?,
    })
}

fn server_name(text: &str) -> Result<Option<ServerName<'static>>, Error> {
    if text.is_empty() {
        return Ok(None);
    }
    ServerName::try_from(text.to_owned())
        .map(Some)
        .map_err(|_| {
            Error::config(
                "upstream_server_name",
                format!("found {text:?}, expected a host name or an IP address"),
            )
        })
}

fn path(text: &str) -> Option<PathBuf> {
    (!text.is_empty()).then(|| PathBuf::from(text))
}

/// What stands before an at sign may be a password.
pub(super) fn without_password(text: &str) -> String {
    match text.rsplit_once('@') {
        Some((_, host)) => format!("...@{host}"),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
