//! TLS towards the upstream: whom it is trusted to be, and what it is shown of us.

use super::files::{self, Pair};
use super::{Offer, provider};
use crate::error::Error;
use crate::swap::Swap;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The files of one upstream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutboundFiles {
    /// The authorities that its certificate must come from; those of the machine without.
    pub ca: Option<PathBuf>,
    /// The certificate chain and the key that it is shown.
    pub identity: Option<Pair>,
    /// The name that it must have, when it is not the host of its URL.
    pub server_name: Option<ServerName<'static>>,
}

/// TLS towards one upstream.
#[derive(Debug)]
pub struct Outbound {
    files: OutboundFiles,
    configs: Swap<Configs>,
}

/// The same settings with each offer. The peers of one offer never resume sessions of another.
#[derive(Debug)]
pub(super) struct Configs {
    http1: Arc<ClientConfig>,
    http2: Arc<ClientConfig>,
    both: Arc<ClientConfig>,
}

impl Outbound {
    /// Reads the files.
    pub fn load(files: OutboundFiles) -> Result<Self, Error> {
        let configs = Swap::new(Arc::new(configs(&files)?));
        Ok(Self { files, configs })
    }

    /// Shakes hands with an upstream that must have the name, with what is in force now.
    pub async fn shake_hands<I>(
        &self,
        io: I,
        name: ServerName<'static>,
        offer: Offer,
        within: Duration,
    ) -> io::Result<TlsStream<I>>
    where
        I: AsyncRead + AsyncWrite + Unpin,
    {
        let configs = self.configs.get();
        let connector = TlsConnector::from(Arc::clone(match offer {
            Offer::Http1 => &configs.http1,
            Offer::Http2 => &configs.http2,
            Offer::Both => &configs.both,
        }));
        super::within(within, connector.connect(name, io)).await
    }

    /// The name that the upstream must have, when one was set.
    pub fn server_name(&self) -> Option<&ServerName<'static>> {
        self.files.server_name.as_ref()
    }

    /// Reads the files again; what comes of them is not in force yet.
    pub(super) fn renewed(&self) -> Result<Arc<Configs>, Error> {
        configs(&self.files).map(Arc::new)
    }

    /// Puts it in force, for handshakes to come.
    pub(super) fn set(&self, configs: Arc<Configs>) {
        self.configs.set(configs);
    }

    /// Every file it is made of, but those of the machine.
    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        let identity = self.files.identity.iter();
        let pair = identity.flat_map(|(chain, key)| [chain.as_path(), key.as_path()]);
        pair.chain(self.files.ca.as_deref())
    }
}

fn configs(files: &OutboundFiles) -> Result<Configs, Error> {
    let roots = match &files.ca {
        Some(path) => files::authorities("upstream_ca", path)?,
        None => of_the_machine()?,
    };
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|cause| Error::config("upstream", cause.to_string()))?
        .with_root_certificates(roots);
    let config = match &files.identity {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => {
            let identity = files::identity("upstream_cert", chain, "upstream_key", key)?;
            let resolver = rustls::sign::SingleCertAndKey::from(identity);
            builder.with_client_cert_resolver(Arc::new(resolver))
        }
    };
    let with = |offer: Offer| {
        let mut config = config.clone();
        config.alpn_protocols = offer.names();
        config.resumption = Resumption::default();
        Arc::new(config)
    };
    Ok(Configs {
        http1: with(Offer::Http1),
        http2: with(Offer::Http2),
        both: with(Offer::Both),
    })
}

/// The machine's authorities. Single ones that cannot be read are no reason to trust none.
fn of_the_machine() -> Result<RootCertStore, Error> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if !roots.is_empty() {
        return Ok(roots);
    }
    let cause = found.errors.first().map(ToString::to_string);
    Err(Error::config(
        "upstream",
        format!(
            "https needs authorities, and this machine has none ({}); install ca-certificates, set \
             SSL_CERT_FILE, or pass --upstream-ca",
            cause.unwrap_or_else(|| "no file was found".to_owned())
        ),
    ))
}
