//! PEM files, read whole, with errors that never quote what is in them.

use crate::error::Error;
use crate::limits;
use rustls::RootCertStore;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// What tells one version of a file from the next without reading it. A link is followed: what
/// Kubernetes replaces is the link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stamp(Option<(u64, u64, u64, i64, i64)>);

impl Stamp {
    pub(super) fn of(path: &Path) -> Self {
        Self(std::fs::metadata(path).ok().map(|file| {
            let (device, inode, bytes) = (file.dev(), file.ino(), file.len());
            (device, inode, bytes, file.mtime(), file.mtime_nsec())
        }))
    }
}

/// A certificate chain with its key, which must belong together.
pub(super) fn identity(
    setting: &str,
    chain: &Path,
    key_setting: &str,
    key: &Path,
) -> Result<CertifiedKey, Error> {
    let certificates = certificates(setting, chain)?;
    let secret = private_key(key_setting, key)?;
    CertifiedKey::from_der(certificates, secret, &super::provider()).map_err(|cause| {
        let problem = match cause {
            rustls::Error::InconsistentKeys(_) => {
                format!(
                    "is not the key of the first certificate in {}",
                    chain.display()
                )
            }
            // Of the certificate or of the kind of key; rustls quotes neither.
            cause => format!("cannot be used with {}: {cause}", chain.display()),
        };
        Error::config(named(key_setting, key), problem)
    })
}

/// The authorities that a peer's certificate must come from.
pub(super) fn authorities(setting: &str, path: &Path) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(setting, path)? {
        roots.add(certificate).map_err(|_| {
            Error::config(
                named(setting, path),
                "holds a certificate that cannot be an authority; expected X.509",
            )
        })?;
    }
    Ok(roots)
}

fn certificates(setting: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let text = read(setting, path)?;
    let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match parsed {
        Ok(certificates) if certificates.is_empty() => Err(Error::config(
            named(setting, path),
            "holds no certificate; expected PEM, -----BEGIN CERTIFICATE-----",
        )),
        Ok(certificates) => Ok(certificates),
        Err(cause) => Err(unsound(setting, path, &cause)),
    }
}

fn private_key(setting: &str, path: &Path) -> Result<PrivateKeyDer<'static>, Error> {
    let text = read(setting, path)?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|cause| match cause {
        pem::Error::NoItemsFound => Error::config(
            named(setting, path),
            "holds no private key; expected PEM, unencrypted: PKCS#8, PKCS#1 or SEC1",
        ),
        cause => unsound(setting, path, &cause),
    })
}

/// Says what is wrong without what is in the file: it may be a key.
fn unsound(setting: &str, path: &Path, cause: &pem::Error) -> Error {
    let problem = match cause {
        pem::Error::MissingSectionEnd { .. } => "is cut short: a PEM section has no end",
        pem::Error::SectionTooLarge => "holds a PEM section that is too large",
        _ => "is not sound PEM",
    };
    Error::config(named(setting, path), problem)
}

fn read(setting: &str, path: &Path) -> Result<Vec<u8>, Error> {
    let mut text = Vec::new();
    File::open(path)
        .and_then(|file| file.take(limits::TLS_FILE_BYTES_MAX).read_to_end(&mut text))
        .map_err(|cause| Error::config(named(setting, path), cause.to_string()))?;
    Ok(text)
}

fn named(setting: &str, path: &Path) -> String {
    format!("{setting} {}", path.display())
}

/// A certificate chain and the file of its key.
pub(super) type Pair = (PathBuf, PathBuf);
