//! Which hosts of plugins this build has, and which plugins are compiled in.

use std::path::PathBuf;
use std::sync::Arc;

use understudy_actors::inventory::Loader;
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

/// What makes the plugins of an app: of `hosts`, and what every app has compiled in. One that `hosts` has under the same id
/// stands in its place.
pub(crate) fn loader(hosts: &Hosts, supervision: &Supervision) -> Loader {
    let mut hosts = hosts.clone();
    if !hosts.native.iter().any(|plugin| plugin.id() == canon::ID) {
        hosts.native.push(Arc::new(canon::plugin(CanonOptions {
            clock: supervision.clock.clone(),
            observer: supervision.telemetry.clone(),
        })));
    }
    Loader {
        hosts,
        captures: Arc::new(Captures::below(captures())),
        supervision: supervision.clone(),
        runtime: crate::shared_runtime,
    }
}

/// Captures of this process lie apart from those of others.
fn captures() -> PathBuf {
    std::env::temp_dir().join(format!("understudy-{}", std::process::id()))
}

#[cfg(test)]
mod tests;
