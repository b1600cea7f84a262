//! Logs: text for a person, JSON lines for a machine, always on stderr.

use std::io::IsTerminal as _;
use tracing_subscriber::EnvFilter;

/// Names the variable that sets what is logged, as in `info,truetape_proxy=debug`.
pub const LOG_ENV: &str = "TRUETAPE_LOG";

/// Starts logging for this process; a second call does nothing.
///
/// No event ever carries prompt or completion text: events name counts, paths and ids.
pub fn init() {
    init_at("info");
}

/// The same, with another level where the variable names none.
pub fn init_at(level: &str) {
    let filter = EnvFilter::try_from_env(LOG_ENV).unwrap_or_else(|_| EnvFilter::new(level));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    let started = if std::io::stderr().is_terminal() {
        builder.try_init()
    } else {
        builder
            .json()
            .flatten_event(true)
            .with_ansi(false)
            .try_init()
    };
    // Somebody logs already: an embedding program, or another test of this process.
    drop(started);
}
