//! Certificates that are made when a test runs: checked-in ones expire.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::{Path, PathBuf};

/// An authority of one test; nobody else trusts it.
#[derive(Debug)]
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, as PEM.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// Its key.
    pub key: String,
}

impl Authority {
    /// Makes one.
    pub fn new(name: &str) -> Self {
        let mut params = params(&[name], name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("a certificate"))
    }

    /// Its own certificate, as PEM.
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// Its own certificate.
    pub fn der(&self) -> CertificateDer<'static> {
        self.0.der().clone()
    }

    /// Itself as a server: what `openssl req -x509` makes.
    pub fn itself(&self) -> Identity {
        Identity {
            certificate: self.pem(),
            key: self.0.key().serialize_pem(),
        }
    }

    /// Writes its certificate to a file.
    pub fn write(&self, directory: &Path, name: &str) -> PathBuf {
        let path = directory.join(name);
        std::fs::write(&path, self.pem()).expect("a file");
        path
    }

    /// A certificate for names and addresses, valid for long.
    pub fn issue(&self, names: &[&str]) -> Identity {
        self.sign(&params(names, names.first().copied().unwrap_or("client")))
    }

    /// One that was valid, and is no more.
    pub fn issue_expired(&self, names: &[&str]) -> Identity {
        let mut params = params(names, "expired");
        params.not_before = rcgen::date_time_ymd(2001, 1, 1);
        params.not_after = rcgen::date_time_ymd(2002, 1, 1);
        self.sign(&params)
    }

    fn sign(&self, params: &CertificateParams) -> Identity {
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.0).expect("a certificate");
        Identity {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        }
    }
}

impl Identity {
    /// Writes `NAME.pem` and `NAME.key`, each whole before it has its name.
    pub fn write(&self, directory: &Path, name: &str) -> (PathBuf, PathBuf) {
        let write = |extension: &str, text: &str| {
            let path = directory.join(format!("{name}.{extension}"));
            let aside = directory.join(format!("{name}.{extension}.new"));
            std::fs::write(&aside, text).expect("a file");
            std::fs::rename(&aside, &path).expect("a file of its name");
            path
        };
        (write("pem", &self.certificate), write("key", &self.key))
    }

    /// The certificate, parsed.
    pub fn der(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(self.certificate.as_bytes()).expect("a certificate")
    }

    /// The key, parsed.
    pub fn key_der(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::from_pem_slice(self.key.as_bytes()).expect("a key")
    }
}

fn params(names: &[&str], common_name: &str) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).expect("names of servers");
    params
        .distinguished_name
        .push(DnType::CommonName, common_name);
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    params
}
