//! How a command that goes on and on is told to end.

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};

/// Waits for SIGINT (Ctrl-C) or SIGTERM.
///
/// # Errors
/// The system lets nobody listen for them.
pub(super) async fn stop_asked() -> anyhow::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}
