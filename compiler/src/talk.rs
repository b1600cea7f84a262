//! Data on stdout, talk on stderr.

use crate::error::Error;
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;

/// How a verb prints its data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum OutputFormat {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}

/// Writes data to stdout. A reader that went away is not an error of ours.
pub(crate) fn data(text: &str) -> Result<(), Error> {
    let mut stdout = std::io::stdout().lock();
    let written = stdout
        .write_all(text.as_bytes())
        .and_then(|()| {
            if text.ends_with('\n') {
                Ok(())
            } else {
                stdout.write_all(b"\n")
            }
        })
        .and_then(|()| stdout.flush());
    match written {
        Err(cause) if cause.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        Err(cause) => Err(Error::io(Path::new("stdout"), cause)),
        Ok(()) => Ok(()),
    }
}

/// Whether data goes to a terminal, and nobody asked for it without color.
pub(crate) fn in_color() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

/// Writes a value to stdout as indented JSON.
pub(crate) fn json<T: serde::Serialize>(value: &T) -> Result<(), Error> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|cause| Error::bug("stdout", format!("could not encode JSON: {cause}")))?;
    data(&text)
}

/// Says something on stderr. A closed stderr loses talk, never data.
pub(crate) fn say(text: &str) {
    let mut stderr = std::io::stderr().lock();
    if writeln!(stderr, "{text}").is_err() {
        tracing::debug!(text, "stderr is closed");
    }
}

/// One line on a terminal that is overwritten as work goes on; silent elsewhere.
#[derive(Debug)]
pub(crate) struct Progress {
    terminal: bool,
    shown: bool,
}

impl Progress {
    /// Starts a silent line.
    pub(crate) fn new() -> Self {
        Self {
            terminal: std::io::stderr().is_terminal(),
            shown: false,
        }
    }

    /// Shows where the work is.
    pub(crate) fn show(&mut self, text: &str) {
        if self.terminal {
            let mut stderr = std::io::stderr().lock();
            self.shown = write!(stderr, "\r\x1b[K{text}")
                .and_then(|()| stderr.flush())
                .is_ok();
        }
    }

    /// Clears the line.
    pub(crate) fn clear(&mut self) {
        if self.shown {
            let mut stderr = std::io::stderr().lock();
            self.shown = write!(stderr, "\r\x1b[K")
                .and_then(|()| stderr.flush())
                .is_err();
        }
    }
}
