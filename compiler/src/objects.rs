//! Object stores by URL: folders, S3, Google Cloud Storage, Azure.
//!
//! Credentials and endpoints come from the environment only, under the names that the clouds' own
//! tools use (`AWS_*`, `GOOGLE_*`, `AZURE_*`): a URL ends up in logs and manifests, a secret must not.

use crate::error::Error;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, S3CopyIfNotExists};
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::local::LocalFileSystem;
use object_store::multipart::MultipartStore;
use object_store::path::Path as Key;
use object_store::{ObjectStore, RetryConfig};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use url::Url;

mod fault;
pub(crate) mod fetch;

pub(crate) use fault::Fault;

/// The stores that a URL can name, for messages.
const SCHEMES: &str =
    "file:///folder, s3://bucket/prefix, gs://bucket/prefix, az://container/prefix";

/// Retries of one request inside the client: a hiccup ends here, an outage is its caller's to wait out.
const REQUEST_RETRIES_MAX: usize = 3;

/// Longest time that a request and its retries take before the caller is told.
const REQUEST_RETRY_WITHIN: Duration = Duration::from_secs(20);

/// Longest time for one request. A part of 8 MiB in two minutes is 70 KB/s: slower is an outage.
const REQUEST_WITHIN: &str = "120 seconds";

/// Whether a path or reference is the URL of a store.
pub(crate) fn is_url(text: &str) -> bool {
    text.contains("://")
}

/// A store, and the prefix in it that a URL names.
pub(crate) struct Objects {
    /// What reads and writes.
    pub(crate) store: Arc<dyn ObjectStore>,
    /// What writes in parts; a folder needs none.
    pub(crate) parts: Option<Arc<dyn MultipartStore>>,
    /// Keys begin with it.
    pub(crate) prefix: Key,
    /// What the user wrote.
    pub(crate) url: String,
}

impl std::fmt::Debug for Objects {
    // The store's own form may hold what was read from the environment.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Objects").field(&self.url).finish()
    }
}

impl Objects {
    /// Opens the store that a URL names. Nothing is sent yet.
    pub(crate) fn open(text: &str) -> Result<Self, Error> {
        let url = parse(text)?;
        let built = match url.scheme() {
            "file" => return Self::folder(text, &url),
            "s3" | "s3a" => s3(text).map(|store| both(Arc::new(store))),
            "gs" => gcs(text).map(|store| both(Arc::new(store))),
            _ => azure(text).map(|store| both(Arc::new(store))),
        };
        let (store, parts) = built.map_err(|cause| {
            Error::config(
                text,
                format!("{}; check the environment", fault::brief(&cause)),
            )
        })?;
        let prefix = Key::from_url_path(url.path()).map_err(|cause| bad_path(text, &cause))?;
        Ok(Self {
            store,
            parts: Some(parts),
            prefix,
            url: text.trim_end_matches('/').to_owned(),
        })
    }

    /// A folder must be there: a mount that is missing would otherwise be filled on the wrong disk.
    fn folder(text: &str, url: &Url) -> Result<Self, Error> {
        let path = url
            .to_file_path()
            .map_err(|()| Error::config(text, "is no absolute path; wanted file:///folder"))?;
        let prefix = Key::from_absolute_path(&path).map_err(|cause| bad_path(text, &cause))?;
        Ok(Self {
            store: Arc::new(LocalFileSystem::new()),
            parts: None,
            prefix,
            url: text.trim_end_matches('/').to_owned(),
        })
    }

    /// The path of an object, where the store is a folder of this machine.
    pub(crate) fn path_of(&self, key: &Key) -> Option<PathBuf> {
        // `Key` percent-encodes what a URL cannot hold; the file system gets it as it is.
        let local = || LocalFileSystem::new().path_to_filesystem(key).ok();
        self.parts.is_none().then(local).flatten()
    }

    /// Says what went wrong with the store.
    pub(crate) fn error(&self, cause: &object_store::Error) -> Error {
        Fault::of(cause).error(&self.url, cause)
    }
}

type Both = (Arc<dyn ObjectStore>, Arc<dyn MultipartStore>);

fn both<S: ObjectStore + MultipartStore>(store: Arc<S>) -> Both {
    (Arc::clone(&store) as _, store)
}

fn bad_path(text: &str, cause: &object_store::path::Error) -> Error {
    Error::config(text, format!("its path cannot be used: {cause}"))
}

fn parse(text: &str) -> Result<Url, Error> {
    let wanted = |found: String| Error::config(text, format!("{found}; wanted {SCHEMES}"));
    let url = Url::parse(text).map_err(|cause| wanted(format!("is no URL: {cause}")))?;
    let known = ["file", "s3", "s3a", "gs", "az", "azure", "abfs", "abfss"];
    if !known.contains(&url.scheme()) {
        return Err(wanted(format!("{}:// is no store", url.scheme())));
    }
    if url.password().is_some() || url.query().is_some() || url.fragment().is_some() {
        // The URL is not repeated: what it holds may be a secret.
        let problem =
            "holds a password, a query or a fragment; credentials come from the environment";
        return Err(Error::config("URL of a store", problem));
    }
    let host = url.host_str().unwrap_or_default();
    if url.scheme() != "file" && host.is_empty() {
        return Err(wanted("names no bucket".to_owned()));
    }
    if url.scheme() == "file" && !host.is_empty() {
        return Err(wanted(format!("names a host, {host}")));
    }
    Ok(url)
}

fn retry() -> RetryConfig {
    RetryConfig {
        max_retries: REQUEST_RETRIES_MAX,
        retry_timeout: REQUEST_RETRY_WITHIN,
        ..RetryConfig::default()
    }
}

fn unset(variable: &str) -> bool {
    std::env::var_os(variable).is_none()
}

fn s3(url: &str) -> object_store::Result<object_store::aws::AmazonS3> {
    let mut builder = AmazonS3Builder::from_env()
        .with_url(url)
        .with_retry(retry());
    // A copy that must not overwrite: S3 has no header for it, and completes an upload on condition.
    if builder
        .get_config_value(&AmazonS3ConfigKey::CopyIfNotExists)
        .is_none()
    {
        builder = builder.with_copy_if_not_exists(S3CopyIfNotExists::Multipart);
    }
    if unset("AWS_TIMEOUT") {
        builder = builder.with_config(AmazonS3ConfigKey::Client(timeout()), REQUEST_WITHIN);
    }
    builder.build()
}

fn gcs(url: &str) -> object_store::Result<object_store::gcp::GoogleCloudStorage> {
    use object_store::gcp::GoogleConfigKey as Setting;
    let mut builder = GoogleCloudStorageBuilder::from_env()
        .with_url(url)
        .with_retry(retry());
    if unset("GOOGLE_TIMEOUT") {
        builder = builder.with_config(Setting::Client(timeout()), REQUEST_WITHIN);
    }
    builder.build()
}

fn azure(url: &str) -> object_store::Result<object_store::azure::MicrosoftAzure> {
    use object_store::azure::AzureConfigKey as Setting;
    let mut builder = MicrosoftAzureBuilder::from_env()
        .with_url(url)
        .with_retry(retry());
    if unset("AZURE_TIMEOUT") {
        builder = builder.with_config(Setting::Client(timeout()), REQUEST_WITHIN);
    }
    builder.build()
}

fn timeout() -> object_store::ClientConfigKey {
    object_store::ClientConfigKey::Timeout
}

/// The path of a `file://` URL that must be a folder of this machine.
pub(crate) fn existing_folder(url: &str, path: &Path) -> Result<(), Error> {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => Err(Error::config(url, "is a file; wanted a folder")),
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => {
            let problem = "is not there; make the folder, or mount it, first";
            Err(Error::config(url, problem))
        }
        Err(cause) => Err(Error::io(path, cause)),
    }
}

#[cfg(test)]
mod tests {
    use super::Objects;

    #[track_caller]
    fn refused(url: &str) -> String {
        Objects::open(url).map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn a_url_names_a_store_or_is_refused_by_name() {
        assert!(refused("ftp://host/x").contains("ftp:// is no store; wanted file:///"));
        assert!(refused("s3:///x").contains("names no bucket"));
        assert!(refused("file://host/x").contains("names a host, host"));
        assert!(refused("://").contains("is no URL"));
    }

    #[test]
    fn a_secret_in_a_url_is_refused_and_not_repeated() {
        for url in [
            "s3://key:hunter2@bucket/x",
            "s3://bucket/x?sig=hunter2",
            "gs://b/#hunter2",
        ] {
            let said = refused(url);
            assert!(
                said.contains("credentials come from the environment"),
                "{said}"
            );
            assert!(!said.contains("hunter2"), "{said}");
        }
    }

    #[test]
    fn a_prefix_is_read_from_the_url() {
        let prefix = |url: &str| Objects::open(url).unwrap().prefix.to_string();
        assert_eq!(prefix("s3://bucket/a/b/"), "a/b");
        assert_eq!(prefix("s3://bucket"), "");
        assert_eq!(prefix("file:///a/b"), "a/b");
    }

    #[test]
    fn a_folder_keeps_characters_that_a_url_cannot_hold() {
        let objects = Objects::open("file:///a%20b").unwrap();
        let path = objects.path_of(&objects.prefix).unwrap();
        assert_eq!(path, std::path::Path::new("/a b"));
    }
}
