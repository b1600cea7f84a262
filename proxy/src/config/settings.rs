//! Settings as text, by name, with where each comes from.

use crate::cli::RecordArgs;
use crate::error::Error;
use crate::limits;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

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
    out: Option<String>,
    admin: Option<String>,
    memory_budget: Option<String>,
    body_bytes_max: Option<String>,
    content: Option<String>,
    rotate_bytes: Option<String>,
    rotate_rows: Option<u64>,
    rotate_every: Option<String>,
    fsync_every: Option<String>,
    drain_timeout: Option<String>,
    #[serde(default)]
    session_header: Vec<String>,
    proxy_id: Option<String>,
}

/// All settings, merged but not yet understood.
#[derive(Debug)]
pub(super) struct Settings {
    values: BTreeMap<&'static str, (String, Source)>,
    session_headers: Vec<String>,
    session_source: Source,
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
        let mut settings = Self {
            values: BTreeMap::new(),
            session_headers: Vec::new(),
            session_source: Source::Default,
        };
        settings.put("listen", &args.listen, file.listen, None);
        settings.put("upstream", &args.upstream, file.upstream, None);
        settings.put("out", &args.out, file.out, None);
        settings.put("admin", &args.admin, file.admin, Some(limits::ADMIN));
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
            "drain_timeout",
            &args.drain_timeout,
            file.drain_timeout,
            Some("10m"),
        );
        settings.put(
            "proxy_id",
            &args.proxy_id,
            file.proxy_id,
            Some(&super::parse::host_name()),
        );
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
            let value = match value.parse::<i64>() {
                Ok(number) if *name == "rotate_rows" => toml::Value::Integer(number),
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
        text
    }
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
