//! The server that is sent to.

use crate::error::Error;
use std::net::{SocketAddr, ToSocketAddrs};

/// The port of `http` URLs that name none.
const HTTP_PORT: u16 = 80;

/// The port of `https` URLs that name none.
const HTTPS_PORT: u16 = 443;

/// A server, by URL, resolved once: name lookups do not belong between a deadline and its request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// As it was given.
    pub url: String,
    /// Whether TLS is spoken.
    pub is_tls: bool,
    /// The host alone, as a certificate names it.
    pub host: String,
    /// `host:port`, as the `host` header carries it.
    pub authority: String,
    /// Put before each path; no slash at its end.
    pub base: String,
    /// Where it is, in the order the resolver gave.
    pub addresses: Vec<SocketAddr>,
}

impl Target {
    /// Reads and resolves an `http://host[:port][/base]` or `https://…` URL.
    pub fn resolve(url: &str) -> Result<Self, Error> {
        let refuse = |problem: String| Error::config("--target", format!("{url}: {problem}"));
        let uri: http::Uri = url
            .parse()
            .map_err(|cause| refuse(format!("not a URL: {cause}")))?;
        let is_tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(refuse("no scheme, as in http://host:port".to_owned())),
        };
        let host = uri.host().ok_or_else(|| refuse("no host".to_owned()))?;
        let port = uri.port_u16().unwrap_or(port_of(is_tls));
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let addresses: Vec<SocketAddr> = (bare, port)
            .to_socket_addrs()
            .map_err(|cause| Error::Target {
                target: url.to_owned(),
                problem: format!("{bare} cannot be resolved: {cause}"),
                hint: "check the name".to_owned(),
            })?
            .collect();
        Ok(Self {
            url: url.to_owned(),
            is_tls,
            host: bare.to_owned(),
            authority: format!("{host}:{port}"),
            base: uri.path().trim_end_matches('/').to_owned(),
            addresses,
        })
    }

    /// Scheme, host and port.
    pub fn origin(&self) -> String {
        let scheme = if self.is_tls { "https" } else { "http" };
        format!("{scheme}://{}", self.authority)
    }

    /// Whether it can only be this machine.
    pub fn is_loopback(&self) -> bool {
        !self.addresses.is_empty() && self.addresses.iter().all(|a| a.ip().is_loopback())
    }

    /// Whether some other way to write an address, as in a capture, means this server.
    pub fn is(&self, other: &str) -> bool {
        let bare = other.split_once("://").map_or(other, |(_, rest)| rest);
        let bare = bare.split('/').next().unwrap_or_default();
        let with_port = match bare.parse::<http::uri::Authority>() {
            Ok(authority) if authority.port().is_none() => {
                let is_tls = other.starts_with("https://");
                format!("{bare}:{}", port_of(is_tls))
            }
            _ => bare.to_owned(),
        };
        if with_port.eq_ignore_ascii_case(&self.authority) {
            return true;
        }
        // Only this machine and literal addresses are resolved: a capture may name hosts of a
        // network that is not there, and a lookup of them could take long.
        let local = with_port.to_ascii_lowercase().starts_with("localhost:");
        if local || with_port.parse::<SocketAddr>().is_ok() {
            let resolved = with_port.to_socket_addrs().into_iter().flatten();
            return resolved
                .into_iter()
                .any(|address| self.addresses.contains(&address));
        }
        false
    }

    /// The path of something that servers keep beside `/v1`.
    pub fn beside(&self, path: &str) -> String {
        format!(
            "{}{path}",
            self.base.strip_suffix("/v1").unwrap_or(&self.base)
        )
    }

    /// The path to ask for, given a recorded one. `http://host/v1` and `/v1/chat/completions` make
    /// one `/v1`, since that is how OpenAI's clients write their base.
    pub fn path(&self, recorded: &str) -> String {
        let path = match recorded.split_once("://") {
            Some((_, rest)) => rest.find('/').and_then(|at| rest.get(at..)).unwrap_or("/"),
            None => recorded,
        };
        let base = match self.base.strip_suffix("/v1") {
            Some(shorter) if path.starts_with("/v1/") => shorter,
            _ => &self.base,
        };
        format!("{base}{path}")
    }
}

fn port_of(is_tls: bool) -> u16 {
    if is_tls { HTTPS_PORT } else { HTTP_PORT }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str) -> Target {
        Target::resolve(url).unwrap()
    }

    #[test]
    fn a_base_path_is_put_before_the_recorded_path() {
        let cases = [
            (
                "http://127.0.0.1:8000",
                "/v1/completions",
                "/v1/completions",
            ),
            (
                "http://127.0.0.1:8000/",
                "/v1/completions",
                "/v1/completions",
            ),
            (
                "http://127.0.0.1:8000/v1",
                "/v1/completions",
                "/v1/completions",
            ),
            (
                "http://127.0.0.1:8000/pool/v1/",
                "/v1/x?a=b",
                "/pool/v1/x?a=b",
            ),
            (
                "http://127.0.0.1:8000/pool",
                "/openai/v1/x",
                "/pool/openai/v1/x",
            ),
            ("http://127.0.0.1:8000", "http://other:1/v1/x", "/v1/x"),
        ];
        for (url, recorded, expected) in cases {
            assert_eq!(target(url).path(recorded), expected, "{url} {recorded}");
        }
        assert_eq!(
            target("http://127.0.0.1:8000/pool/v1").beside("/version"),
            "/pool/version"
        );
    }

    #[test]
    fn the_captured_origin_is_known_however_it_is_written() {
        let here = target("http://127.0.0.1:8000/v1");
        for same in [
            "127.0.0.1:8000",
            "http://127.0.0.1:8000",
            "http://localhost:8000/v1",
        ] {
            assert!(here.is(same), "{same}");
        }
        for other in [
            "127.0.0.1:8001",
            "http://127.0.0.1",
            "10.0.0.1:8000",
            "",
            "replica-3",
        ] {
            assert!(!here.is(other), "{other}");
        }
    }

    #[test]
    fn a_scheme_has_its_port() {
        let tls = target("https://127.0.0.1/v1");
        assert_eq!(
            (tls.is_tls, tls.authority.as_str()),
            (true, "127.0.0.1:443")
        );
        assert_eq!(tls.origin(), "https://127.0.0.1:443");
        assert!(tls.is("https://127.0.0.1") && !tls.is("http://127.0.0.1"));
    }

    #[test]
    fn only_loopback_is_local() {
        assert!(target("http://127.0.0.1:8000").is_loopback());
        assert!(target("http://[::1]:8000").is_loopback());
        assert!(!target("http://192.0.2.1:8000").is_loopback());
    }

    #[test]
    fn what_cannot_be_sent_to_is_refused_by_name() {
        for (url, part) in [
            ("ftp://127.0.0.1", "no scheme"),
            ("127.0.0.1:8000", "no scheme"),
            ("http//x", "not a URL"),
        ] {
            let error = Target::resolve(url).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
