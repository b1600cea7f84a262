//! TLS towards the target: whom it is trusted to be.

use super::Http;
use crate::error::Error;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Whom a target is trusted to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    /// The authorities that its certificate must come from; those of the machine without.
    pub ca_file: Option<PathBuf>,
    /// Any certificate will do.
    pub anybody: bool,
}

/// The ALPN name of HTTP/2.
const H2: &[u8] = b"h2";

/// TLS towards one target.
#[derive(Clone)]
pub(super) struct Tls {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl Tls {
    /// Reads the authorities.
    pub(super) fn load(host: &str, trust: &Trust, http: Http) -> Result<Self, Error> {
        let name = ServerName::try_from(host.to_owned()).map_err(|cause| {
            Error::config(
                "--target",
                format!("{host} can have no certificate: {cause}"),
            )
        })?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|cause| Error::config("--target", cause.to_string()))?;
        let mut config = if trust.anybody {
            let anybody = Arc::new(Anybody(provider));
            let builder = builder
                .dangerous()
                .with_custom_certificate_verifier(anybody);
            builder.with_no_client_auth()
        } else {
            let roots = roots(trust.ca_file.as_deref())?;
            builder.with_root_certificates(roots).with_no_client_auth()
        };
        config.alpn_protocols = http.offers().iter().map(|name| name.to_vec()).collect();
        Ok(Self {
            connector: TlsConnector::from(Arc::new(config)),
            name,
        })
    }

    /// Shakes hands, and says whether HTTP/2 was agreed on.
    pub(super) async fn shake_hands(
        &self,
        stream: TcpStream,
    ) -> Result<(TlsStream<TcpStream>, bool), String> {
        let shaking = self.connector.connect(self.name.clone(), stream);
        let stream = shaking.await.map_err(|cause| format!("TLS: {cause}"))?;
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(H2);
        Ok((stream, is_http2))
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

fn roots(ca_file: Option<&Path>) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    let Some(path) = ca_file else {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            let problem = "https needs authorities, and this machine has none; install ca-certificates, set SSL_CERT_FILE, or pass --ca-file";
            return Err(Error::config("--target", problem));
        }
        return Ok(roots);
    };
    let refuse =
        |problem: String| Error::config("--ca-file", format!("{}: {problem}", path.display()));
    let found = CertificateDer::pem_file_iter(path).map_err(|cause| refuse(cause.to_string()))?;
    for certificate in found {
        let certificate = certificate.map_err(|cause| refuse(cause.to_string()))?;
        let added = roots.add(certificate);
        added.map_err(|cause| refuse(cause.to_string()))?;
    }
    if roots.is_empty() {
        return Err(refuse("no certificate in it".to_owned()));
    }
    Ok(roots)
}

/// Takes any certificate, and still checks that its owner signed.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, dss, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, dss, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
