//! Logs go to standard error.

use std::io::{IsTerminal, stderr};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::config::{LogFormat, LogSettings};

/// Starts logging; `RUST_LOG` overrides the level. Libraries speak from `warn` on. Only a terminal gets colours.
pub(super) fn start(settings: LogSettings) {
    let ours = settings.level;
    let theirs = ours.min(LevelFilter::WARN);
    let default = format!(
        "{theirs},understudy={ours},understudy_actors={ours},understudy_providers={ours},understudy_messages={ours}"
    );
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        // a log that cannot be written must not end whoever writes it
        .log_internal_errors(false)
        .with_ansi(stderr().is_terminal())
        .with_writer(stderr);
    let _already_started = match settings.format {
        LogFormat::Pretty => logs.try_init(),
        LogFormat::Json => logs.json().try_init(),
    };
}
