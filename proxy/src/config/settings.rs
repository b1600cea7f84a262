//! Settings as text, by name, with where each comes from.

use super::routes::{List, RouteText};
use crate::cli::RecordArgs;
use crate::error::Error;
use crate::limits;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use truetape_schemas::ids::{content_id, new_exchange_id};

/// Where a value was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    FlagOrEnvironment,
    File,
    Default,
}

impl Source {
    fn name(self) -> &'static str {
        match self {
            Self::FlagOrEnvironment => "flag or environment",
            Self::File => "file",
            Self::Default => "default",
        }
    }
}

/// The keys of the file. An unknown one is an error: a typo must not silently mean the default.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    listen: Option<String>,
    upstream: Option<String>,
    upstream_protocol: Option<String>,
    out: Option<String>,
    admin: Option<String>,
    admin_writes: Option<bool>,
    memory_budget: Option<String>,
    body_bytes_max: Option<String>,
    content: Option<String>,
    digest_key_file: Option<String>,
    blobs: Option<String>,
    sample: Option<f64>,
    sample_salt: Option<String>,
    #[serde(default)]
    keep_model: List,
    #[serde(default)]
    keep_header: List,
    rotate_bytes: Option<String>,
    rotate_rows: Option<u64>,
    rotate_every: Option<String>,
    fsync_every: Option<String>,
    encrypt_key_file: Option<String>,
    disk_quota: Option<String>,
    on_quota: Option<String>,
    disk_free_min: Option<String>,
    flight_recorder: Option<String>,
    drain_timeout: Option<String>,
    workers: Option<u64>,
    #[serde(default)]
    session_header: Vec<String>,
    proxy_id: Option<String>,
    transparent: Option<bool>,
    so_mark: Option<u32>,
    #[serde(default)]
    tls_cert: List,
    #[serde(default)]
    tls_key: List,
    tls_client_ca: Option<String>,
    tls_client_auth: Option<String>,
    upstream_ca: Option<String>,
    upstream_cert: Option<String>,
    upstream_key: Option<String>,
    upstream_server_name: Option<String>,
    #[serde(default)]
    route: Vec<RouteText>,
}

/// All settings, merged but not yet understood.
#[derive(Debug)]
pub(super) struct Settings {
    values: BTreeMap<&'static str, (String, Source)>,
    session_headers: Vec<String>,
    session_source: Source,
    lists: BTreeMap<&'static str, (Vec<String>, Source)>,
    typed_routes: Vec<String>,
    file_routes: Vec<RouteText>,
}

impl Settings {
    /// Merges flags and variables over the file over defaults.
    pub(super) fn merge(args: &RecordArgs) -> Result<Self, Error> {
        let file = args
            .config
            .as_deref()
            .map(read)
            .transpose()?
            .unwrap_or_default();
        let rows = file.rotate_rows.map(|rows| rows.to_string());
        let workers = file.workers.map(|workers| workers.to_string());
        let mut settings = Self {
            values: BTreeMap::new(),
            session_headers: Vec::new(),
            session_source: Source::Default,
            lists: BTreeMap::new(),
            typed_routes: args.route.clone(),
            file_routes: file.route,
        };
        settings.put("listen", &args.listen, file.listen, None);
        settings.put("upstream", &args.upstream, file.upstream, None);
        settings.put(
            "upstream_protocol",
            &args.upstream_protocol,
            file.upstream_protocol,
            Some("mirror"),
        );
        settings.put("out", &args.out, file.out, None);
        settings.put("admin", &args.admin, file.admin, Some(limits::ADMIN));
        settings.put(
            "admin_writes",
            &args.admin_writes.then(|| true.to_string()),
            file.admin_writes.map(|on| on.to_string()),
            Some("false"),
        );
        settings.put(
            "memory_budget",
            &args.memory_budget,
            file.memory_budget,
            Some("64MiB"),
        );
        settings.put(
            "body_bytes_max",
            &args.body_bytes_max,
            file.body_bytes_max,
            Some("16MiB"),
        );
        settings.put("content", &args.content, file.content, Some("full"));
        settings.put(
            "digest_key_file",
            &args.digest_key_file,
            file.digest_key_file,
            None,
        );
        settings.put("blobs", &args.blobs, file.blobs, Some("refer"));
        let rate = file.sample.map(|rate| rate.to_string());
        settings.put("sample", &args.sample, rate, Some("1"));
        // Made here, so that what is printed is what is used.
        let salt = args.default_salt.clone().unwrap_or_else(new_salt);
        settings.put(
            "sample_salt",
            &args.sample_salt,
            file.sample_salt,
            (settings.text("sample") != "1").then_some(salt.as_str()),
        );
        settings.put_list("keep_model", &args.keep_model, file.keep_model.0);
        settings.put_list("keep_header", &args.keep_header, file.keep_header.0);
        settings.put(
            "rotate_bytes",
            &args.rotate_bytes,
            file.rotate_bytes,
            Some("64MiB"),
        );
        settings.put("rotate_rows", &args.rotate_rows, rows, Some("50000"));
        settings.put(
            "rotate_every",
            &args.rotate_every,
            file.rotate_every,
            Some("5m"),
        );
        settings.put(
            "fsync_every",
            &args.fsync_every,
            file.fsync_every,
            Some("1s"),
        );
        settings.put(
            "encrypt_key_file",
            &args.encrypt_key_file,
            file.encrypt_key_file,
            None,
        );
        settings.put("disk_quota", &args.disk_quota, file.disk_quota, None);
        settings.put("on_quota", &args.on_quota, file.on_quota, Some("pause"));
        settings.put(
            "disk_free_min",
            &args.disk_free_min,
            file.disk_free_min,
            None,
        );
        settings.put(
            "flight_recorder",
            &args.flight_recorder,
            file.flight_recorder,
            None,
        );
        settings.put(
            "drain_timeout",
            &args.drain_timeout,
            file.drain_timeout,
            Some("10m"),
        );
        settings.put(
            "workers",
            &args.workers,
            workers,
            Some(&super::parse::default_workers().to_string()),
        );
        settings.put(
            "proxy_id",
            &args.proxy_id,
            file.proxy_id,
            Some(&super::parse::host_name()),
        );
        let transparent = args.transparent.then(|| true.to_string());
        let in_file = file.transparent.map(|on| on.to_string());
        settings.put("transparent", &transparent, in_file, None);
        let mark = file.so_mark.map(|mark| mark.to_string());
        settings.put("so_mark", &args.so_mark, mark, None);
        settings.put_list("tls_cert", &args.tls_cert, file.tls_cert.0);
        settings.put_list("tls_key", &args.tls_key, file.tls_key.0);
        for (name, typed, file) in [
            ("tls_client_ca", &args.tls_client_ca, file.tls_client_ca),
            (
                "tls_client_auth",
                &args.tls_client_auth,
                file.tls_client_auth,
            ),
            ("upstream_ca", &args.upstream_ca, file.upstream_ca),
            ("upstream_cert", &args.upstream_cert, file.upstream_cert),
            ("upstream_key", &args.upstream_key, file.upstream_key),
            (
                "upstream_server_name",
                &args.upstream_server_name,
                file.upstream_server_name,
            ),
        ] {
            settings.put(name, typed, file, None);
        }
        if !args.session_header.is_empty() {
            settings.session_headers.clone_from(&args.session_header);
            settings.session_source = Source::FlagOrEnvironment;
        } else if !file.session_header.is_empty() {
            settings.session_headers = file.session_header;
            settings.session_source = Source::File;
        }
        Ok(settings)
    }

    fn put(
        &mut self,
        name: &'static str,
        typed: &Option<String>,
        file: Option<String>,
        default: Option<&str>,
    ) {
        let typed = typed.clone().map(|text| (text, Source::FlagOrEnvironment));
        let file = file.map(|text| (text, Source::File));
        let default = default.map(|text| (text.to_owned(), Source::Default));
        if let Some(value) = typed.or(file).or(default) {
            self.values.insert(name, value);
        }
    }

    fn put_list(&mut self, name: &'static str, typed: &[String], file: Vec<String>) {
        let value = match (typed, file) {
            ([], file) if file.is_empty() => return,
            ([], file) => (file, Source::File),
            (typed, _) => (typed.to_vec(), Source::FlagOrEnvironment),
        };
        self.lists.insert(name, value);
    }

    /// A setting that is a list; empty when it is not set.
    pub(super) fn list(&self, name: &str) -> &[String] {
        self.lists.get(name).map_or(&[], |(list, _)| list)
    }

    /// The routes: those that were typed, or else those of the file.
    pub(super) fn routes(&self) -> Result<Vec<RouteText>, Error> {
        if self.typed_routes.is_empty() {
            return Ok(self.file_routes.clone());
        }
        self.typed_routes
            .iter()
            .map(|text| RouteText::of(text))
            .collect()
    }

    /// A setting as text; empty when it is not set and has no default.
    pub(super) fn text(&self, name: &str) -> &str {
        self.values.get(name).map_or("", |(text, _)| text.as_str())
    }

    /// A setting that has no default.
    pub(super) fn required(&self, name: &str) -> Result<&str, Error> {
        match self.text(name) {
            "" => Err(Error::config(
                name,
                format!(
                    "not set; pass --{name} or set TRUETAPE_{}",
                    name.to_uppercase()
                ),
            )),
            text => Ok(text),
        }
    }

    /// The headers that name sessions.
    pub(super) fn session_headers(&self) -> &[String] {
        &self.session_headers
    }

    /// All settings as TOML, each with where it comes from.
    pub(super) fn print(&self) -> String {
        let line = |name: &str, value: toml::Value, source: Source| {
            format!("{name} = {value} # {}\n", source.name())
        };
        let mut text = String::new();
        for (name, (value, source)) in &self.values {
            let number = ["rotate_rows", "so_mark", "workers"].contains(name);
            let value = match super::parse::number(value) {
                Some(value) if number => toml::Value::Integer(value.into()),
                _ if *name == "sample" => value
                    .parse()
                    .map_or_else(|_| toml::Value::String(value.clone()), toml::Value::Float),
                _ if ["transparent", "admin_writes"].contains(name) => {
                    toml::Value::Boolean(value == "true")
                }
                _ => toml::Value::String(value.clone()),
            };
            text.push_str(&line(name, value, *source));
        }
        let names = self
            .session_headers
            .iter()
            .cloned()
            .map(toml::Value::String)
            .collect();
        text.push_str(&line(
            "session_header",
            toml::Value::Array(names),
            self.session_source,
        ));
        for (name, (list, source)) in &self.lists {
            let list = list.iter().cloned().map(toml::Value::String).collect();
            text.push_str(&line(name, toml::Value::Array(list), *source));
        }
        let source = match self.typed_routes.as_slice() {
            [] => Source::File,
            _ => Source::FlagOrEnvironment,
        };
        // What cannot be read is refused before anything is printed.
        let routes = self.routes().unwrap_or_default();
        if !routes.is_empty()
            && let Ok(routes) = toml::Value::try_from(routes)
        {
            text.push_str(&line("route", routes, source));
        }
        text
    }
}

/// A salt that nobody chose.
pub(crate) fn new_salt() -> String {
    content_id(new_exchange_id().as_bytes())
}

fn read(path: &Path) -> Result<File, Error> {
    let subject = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|cause| Error::config(&subject, cause.to_string()))?;
    toml::from_str(&text).map_err(|cause| {
        let lines: Vec<&str> = cause.message().lines().collect();
        Error::config(subject, lines.join("; "))
    })
}
