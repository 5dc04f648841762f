//! Which hosts of plugins this build has, and which plugins are compiled in.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use understudy_actors::inventory::Loader;
use understudy_actors::state::State;
use understudy_actors::supervision::Supervision;
use understudy_plugins::canon::{self, CanonOptions};
use understudy_plugins::capture::Captures;
use understudy_plugins::hosts::Hosts;
use understudy_plugins::listeners::Listeners;

/// Every host that this build has.
pub fn standard_hosts() -> Hosts {
    Hosts {
        native: Vec::new(),
        #[cfg(feature = "js")]
        js: Some(understudy_plugins::js::constructor()),
        #[cfg(not(feature = "js"))]
        js: None,
        process: Some(understudy_plugins::process::constructor()),
        webhook: Some(understudy_plugins::webhook::constructor()),
        listeners: Listeners::default(),
    }
}

/// How old a capture is that nobody holds and that an hourly sweep removes.
const ORPHANED: Duration = Duration::from_secs(3_600);

/// What makes the plugins of an app: of `hosts`, and what every app has compiled in. One that `hosts` has under the same id
/// stands in its place.
pub(crate) fn loader(hosts: &Hosts, supervision: &Supervision, state: State) -> Loader {
    let mut hosts = hosts.clone();
    if !hosts.native.iter().any(|plugin| plugin.id() == canon::ID) {
        hosts.native.push(Arc::new(canon::plugin(CanonOptions {
            clock: supervision.clock.clone(),
            observer: supervision.telemetry.clone(),
        })));
    }
    Loader {
        hosts,
        captures: Arc::new(captures(&state)),
        state,
        supervision: supervision.clone(),
        runtime: crate::shared_runtime,
    }
}

/// Captures lie with the state; without a folder for that, apart from those of other processes.
fn captures(state: &State) -> Captures {
    let spare = std::env::temp_dir().join(format!("understudy-{}", std::process::id()));
    match state.dir() {
        Some(dir) => Captures::below_or(dir.captures(), spare),
        None => Captures::below(spare),
    }
}

/// Removes what earlier processes left, and from then on each hour what nobody holds any more: only where the folder is ours.
pub(crate) async fn keep_swept(loader: &Loader) {
    if loader.state.dir().is_none() {
        return;
    }
    let (clock, captures) = (loader.supervision.clock.clone(), loader.captures.clone());
    sweep(captures.clone(), Duration::ZERO, clock.wall()).await;
    loader.supervision.tasks.spawn_until_stop("capture sweep", async move {
        loop {
            clock.sleep(ORPHANED).await;
            sweep(captures.clone(), ORPHANED, clock.wall()).await;
        }
    });
}

async fn sweep(captures: Arc<Captures>, age: Duration, now: SystemTime) {
    let swept = tokio::task::spawn_blocking(move || captures.sweep(age, now)).await;
    let swept = swept.unwrap_or_default();
    if swept.removed > 0 {
        tracing::info!(removed = swept.removed, "captures that nobody holds were removed");
    }
    if !swept.failures.is_empty() {
        tracing::warn!(failures = ?swept.failures, "captures that nobody holds could not be removed");
    }
}

#[cfg(test)]
mod tests;
