//! How a command that goes on and on is told to end.

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What a running gateway is asked to do.
pub(super) enum Asked {
    /// Read the configuration again.
    Reload,
    /// End.
    Stop,
}

/// The signals that a running gateway listens to. None is missed from its making on.
pub(super) struct Signals {
    hangup: Signal,
    interrupt: Signal,
    terminate: Signal,
    /// A file that may grow no further is an error of whoever writes it, and not the end of the process.
    _full: Option<Signal>,
}

/// SIGXFSZ, which has no name among those that can be waited for.
#[cfg(target_os = "linux")]
const FILE_IS_FULL: i32 = 25;

#[cfg(target_os = "linux")]
fn full() -> Option<Signal> {
    signal(SignalKind::from_raw(FILE_IS_FULL)).ok()
}

#[cfg(not(target_os = "linux"))]
fn full() -> Option<Signal> {
    None
}

impl Signals {
    /// # Errors
    /// The system lets nobody listen for them.
    pub(super) fn new() -> anyhow::Result<Self> {
        Ok(Self {
            hangup: signal(SignalKind::hangup()).context("cannot wait for SIGHUP")?,
            interrupt: signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?,
            terminate: signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?,
            _full: full(),
        })
    }

    /// Waits for SIGINT (Ctrl-C) or SIGTERM.
    pub(super) async fn stop(&mut self) {
        while let Asked::Reload = self.next().await {}
    }

    /// Waits for SIGHUP, SIGINT (Ctrl-C) or SIGTERM.
    pub(super) async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.hangup.recv() => Asked::Reload,
            _ = self.interrupt.recv() => Asked::Stop,
            _ = self.terminate.recv() => Asked::Stop,
        }
    }
}

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
