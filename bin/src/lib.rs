//! Where it runs: configuration, HTTP, command line.

pub mod app;
mod arbiter;
pub mod cli;
pub mod config;
mod configuration;
mod http;
mod load;
mod open_files;
pub mod plugins;
pub mod scrape;
mod sessions;

use std::sync::OnceLock;
use std::time::UNIX_EPOCH;

use tokio::runtime::{Builder, Runtime};
use understudy_messages::clock::Clock;

pub use app::{App, AppOptions};

/// The runtime that the system, the registry and blocking work share; it lives as long as the process.
///
/// # Panics
/// Never returns an error: a process whose first runtime cannot be built cannot go on and ends here.
pub fn shared_runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(
        || match Builder::new_multi_thread().worker_threads(1).enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => {
                tracing::error!(%error, "no runtime");
                std::process::abort()
            }
        },
    )
}

/// Names ring as the process's TLS provider; calling it again changes nothing.
pub fn install_tls() {
    let _already_installed = rustls::crypto::ring::default_provider().install_default();
}

pub(crate) fn unix_seconds(clock: &Clock) -> u64 {
    clock
        .wall()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}
