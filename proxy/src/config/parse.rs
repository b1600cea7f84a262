//! From text to values, with what was allowed in each error.

use super::Upstream;
use super::routes::without_password;
use super::settings::Settings;
use crate::error::Error;
use crate::limits;
use bytesize::ByteSize;
use rustls::pki_types::ServerName;
use std::num::NonZero;
use std::time::Duration;

/// A size of at least `least`.
pub(super) fn bytes(settings: &Settings, name: &str, least: usize) -> Result<usize, Error> {
    let text = settings.text(name);
    let size: ByteSize = text.parse().map_err(|_| {
        Error::config(
            name,
            format!("found {text:?}, expected a size, as in 64MiB"),
        )
    })?;
    let size = usize::try_from(size.as_u64()).map_err(|_| {
        Error::config(
            name,
            format!("found {text:?}, more than this machine holds"),
        )
    })?;
    if size < least {
        return Err(Error::config(
            name,
            format!(
                "found {text:?}, expected at least {}",
                ByteSize(least as u64)
            ),
        ));
    }
    Ok(size)
}

/// A duration of at least `least`, and at most what can be added to any instant.
pub(super) fn duration(
    settings: &Settings,
    name: &str,
    least: Duration,
) -> Result<Duration, Error> {
    let text = settings.text(name);
    let duration = humantime::parse_duration(text).map_err(|_| {
        Error::config(
            name,
            format!("found {text:?}, expected a duration, as in 30s"),
        )
    })?;
    if duration < least {
        return Err(Error::config(
            name,
            format!(
                "found {text:?}, expected at least {}",
                humantime::format_duration(least)
            ),
        ));
    }
    if duration > limits::DURATION_MAX {
        return Err(Error::config(
            name,
            format!(
                "found {text:?}, expected at most {}",
                humantime::format_duration(limits::DURATION_MAX)
            ),
        ));
    }
    Ok(duration)
}

/// A number of rows, at least one.
pub(super) fn rows(settings: &Settings, name: &str) -> Result<u64, Error> {
    let text = settings.text(name);
    match text.parse::<u64>() {
        Ok(rows) if rows > 0 => Ok(rows),
        _ => Err(Error::config(
            name,
            format!("found {text:?}, expected a number, at least 1"),
        )),
    }
}

/// A number of threads.
pub(super) fn workers(settings: &Settings) -> Result<usize, Error> {
    let text = settings.text("workers");
    let most = limits::WORKERS_MAX;
    match text.parse() {
        Ok(workers) if (1..=most).contains(&workers) => Ok(workers),
        _ => Err(Error::config(
            "workers",
            format!("found {text:?}, expected a number of threads, 1 to {most}"),
        )),
    }
}

/// The processors that this process may use, up to what recording ever needs.
pub(super) fn default_workers() -> usize {
    let usable = std::thread::available_parallelism().map_or(1, NonZero::get);
    usable.min(limits::WORKERS_DEFAULT_MAX)
}

/// `http://host[:port]` or `https://host[:port]`. Other schemes are refused by name, never guessed.
pub(super) fn upstream(text: &str) -> Result<Upstream, Error> {
    let shown = without_password(text);
    let refuse = |problem: &str| Error::config("upstream", format!("found {shown:?}, {problem}"));
    let uri: http::Uri = text
        .parse()
        .map_err(|_| refuse("expected a URL, as in http://127.0.0.1:8000"))?;
    let tls = match uri.scheme_str() {
        Some("http") => false,
        Some("https") => true,
        _ => return Err(refuse("expected a URL, as in http://127.0.0.1:8000")),
    };
    if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
        return Err(refuse(
            "a path is not supported: requests keep the path they were sent with",
        ));
    }
    if uri
        .authority()
        .is_some_and(|authority| authority.as_str().contains('@'))
    {
        return Err(refuse(
            "credentials are not supported: requests keep their own",
        ));
    }
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    if host.is_empty() {
        return Err(refuse("expected a host"));
    }
    if tls && ServerName::try_from(host).is_err() {
        return Err(refuse("expected a host name or an IP address"));
    }
    let port = if tls {
        limits::HTTPS_PORT
    } else {
        limits::HTTP_PORT
    };
    Ok(Upstream {
        host: host.to_owned(),
        port: uri.port_u16().unwrap_or(port),
        tls,
    })
}

/// A firewall mark; none when it is not set.
pub(super) fn mark(text: &str) -> Result<Option<u32>, Error> {
    if text.is_empty() {
        return Ok(None);
    }
    match number(text) {
        // Zero is what unmarked connections have.
        Some(mark @ 1..) => Ok(Some(mark)),
        _ => Err(Error::config(
            "so_mark",
            format!(
                "found {text:?}, expected a number of 32 bits, at least 1, as in 4780 or 0x12ac"
            ),
        )),
    }
}

/// A number, decimal or hexadecimal, as in a TOML file.
pub(super) fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(hexadecimal) => u32::from_str_radix(hexadecimal, 16).ok(),
        None => text.parse().ok(),
    }
}

/// A name that is safe in a file name and in a column.
pub(super) fn proxy_id(text: &str) -> Result<String, Error> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let sound = !text.starts_with('.') && text.chars().all(fits);
    if (1..=limits::PROXY_ID_CHARS_MAX).contains(&text.len()) && sound {
        return Ok(text.to_owned());
    }
    Err(Error::config(
        "proxy_id",
        format!("found {text:?}, expected up to 64 letters, digits, dots, dashes, underscores"),
    ))
}

/// The host's name, made to fit; a pod's name is what an operator looks for.
pub(super) fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let fits = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let name: String = name
        .trim()
        .trim_start_matches('.')
        .chars()
        .filter(fits)
        .collect();
    let name: String = name.chars().take(limits::PROXY_ID_CHARS_MAX).collect();
    if name.is_empty() {
        "proxy".to_owned()
    } else {
        name
    }
}
