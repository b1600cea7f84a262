//! TLS towards clients: which certificate they are shown, and which of theirs is asked for.

use super::files::{self, Pair};
use super::{Offer, provider};
use crate::error::Error;
use crate::swap::Swap;
use rustls::client::verify_server_name;
use rustls::pki_types::{DnsName, ServerName};
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, SignatureScheme};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Whether a client must show a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientAuth {
    /// One without is refused.
    #[default]
    Require,
    /// One without passes; a certificate that does not hold is refused.
    Request,
}

/// The files of one listener.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InboundFiles {
    /// Certificate chains and their keys; the first is shown to clients that name none of them.
    pub identities: Vec<Pair>,
    /// The authorities of clients' certificates; none are asked for without.
    pub client_ca: Option<PathBuf>,
    /// Whether a client must show one.
    pub client_auth: ClientAuth,
}

/// TLS of one listener.
#[derive(Debug)]
pub struct Inbound {
    files: InboundFiles,
    offer: Offer,
    config: Swap<ServerConfig>,
}

impl Inbound {
    /// Reads the files.
    pub fn load(files: InboundFiles, offer: Offer) -> Result<Self, Error> {
        let config = Swap::new(Arc::new(config(&files, offer)?));
        Ok(Self {
            files,
            offer,
            config,
        })
    }

    /// Shakes hands with a client, with what is in force now.
    pub async fn shake_hands<I>(&self, io: I, within: Duration) -> io::Result<TlsStream<I>>
    where
        I: AsyncRead + AsyncWrite + Unpin,
    {
        let acceptor = TlsAcceptor::from(self.config.get());
        super::within(within, acceptor.accept(io)).await
    }

    /// Reads the files again; what comes of them is not in force yet.
    pub(super) fn renewed(&self) -> Result<Arc<ServerConfig>, Error> {
        config(&self.files, self.offer).map(Arc::new)
    }

    /// Puts it in force, for handshakes to come.
    pub(super) fn set(&self, config: Arc<ServerConfig>) {
        self.config.set(config);
    }

    /// Every file it is made of.
    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        let identities = self.files.identities.iter();
        let pairs = identities.flat_map(|(chain, key)| [chain.as_path(), key.as_path()]);
        pairs.chain(self.files.client_ca.as_deref())
    }
}

fn config(files: &InboundFiles, offer: Offer) -> Result<ServerConfig, Error> {
    let identities = files
        .identities
        .iter()
        .map(|(chain, key)| files::identity("tls_cert", chain, "tls_key", key).map(Arc::new))
        .collect::<Result<Vec<_>, _>>()?;
    let builder = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|cause| Error::config("tls", cause.to_string()))?;
    let builder = match &files.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let roots = Arc::new(files::authorities("tls_client_ca", path)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider());
            let verifier = match files.client_auth {
                ClientAuth::Require => verifier,
                ClientAuth::Request => verifier.allow_unauthenticated(),
            };
            let verifier = verifier
                .build()
                .map_err(|cause| Error::config("tls_client_ca", cause.to_string()))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder.with_cert_resolver(Arc::new(ByName(identities)));
    config.alpn_protocols = offer.names();
    Ok(config)
}

/// Chooses by the names in the certificates.
#[derive(Debug)]
struct ByName(Vec<Arc<CertifiedKey>>);

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        choose(&self.0, hello.server_name(), hello.signature_schemes())
    }
}

/// The first certificate that has the name and that the client can check; else the first that has
/// the name; else the first.
fn choose(
    identities: &[Arc<CertifiedKey>],
    name: Option<&str>,
    schemes: &[SignatureScheme],
) -> Option<Arc<CertifiedKey>> {
    let name = name.and_then(|name| DnsName::try_from(name).ok());
    let name = name.map(ServerName::DnsName);
    let has_name =
        |identity: &&Arc<CertifiedKey>| name.as_ref().is_some_and(|name| covers(identity, name));
    let usable = |identity: &&Arc<CertifiedKey>| identity.key.choose_scheme(schemes).is_some();
    identities
        .iter()
        .find(|identity| has_name(identity) && usable(identity))
        .or_else(|| identities.iter().find(has_name))
        .or_else(|| identities.first())
        .cloned()
}

fn covers(identity: &CertifiedKey, name: &ServerName<'_>) -> bool {
    identity
        .end_entity_cert()
        .and_then(ParsedCertificate::try_from)
        .and_then(|parsed| verify_server_name(&parsed, name))
        .is_ok()
}
