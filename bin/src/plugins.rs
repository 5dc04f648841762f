//! The plugins of the app: which there are, which serve, and what people should know about them.

mod candidates;
mod load;
mod names;
mod policies;
mod report;
mod required;
mod start;
mod tools;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use actix::Arbiter;
use serde::Serialize;
use understudy_actors::hooks::{Access, Hooks, LoadedPlugin};
use understudy_actors::plugin::{InstanceState, Served};
use understudy_actors::supervision::Supervision;
use understudy_actors::telemetry::Telemetry;
use understudy_actors::tools::Tools;
use understudy_messages::clock::Clock;
use understudy_messages::ids::Name;
use understudy_plugins::canon::{self, CanonOptions};
use understudy_plugins::enablement::{Cause, Origin};
use understudy_plugins::hosts::Hosts;
use understudy_plugins::manifest::{HostKind, Manifest};

pub(crate) use load::load;

/// How long one instance may take to let go of what it holds.
const DISPOSE: Duration = Duration::from_secs(5);

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
    }
}

/// `hosts`, and the plugins that every app has compiled in. One that `hosts` has under the same id stands in its place.
pub(crate) fn with_built_ins(hosts: &Hosts, supervision: &Supervision) -> Hosts {
    let mut hosts = hosts.clone();
    if !hosts.native.iter().any(|plugin| plugin.id() == canon::ID) {
        hosts.native.push(Arc::new(canon::plugin(CanonOptions {
            clock: supervision.clock.clone(),
            observer: supervision.telemetry.clone(),
        })));
    }
    hosts
}

/// All plugins that were found, loaded or not.
pub(crate) struct Plugins {
    plugins: Vec<Plugin>,
    diagnostics: Vec<Diagnostic>,
    hooks: Arc<Hooks>,
    tools: Arc<Tools>,
}

/// One plugin.
struct Plugin {
    id: Name,
    origin: Origin,
    source: Option<PathBuf>,
    host: Option<HostKind>,
    manifest: Option<Arc<Manifest>>,
    cause: Cause,
    required: bool,
    access: Access,
    status: Status,
}

/// What has become of a plugin.
enum Status {
    /// It is off.
    Disabled,
    /// It could not be loaded.
    Failed(Failure),
    /// It has registered.
    Loaded(Working),
}

/// Why a plugin could not be loaded.
struct Failure {
    phase: Phase,
    error: String,
}

/// A plugin that has registered.
struct Working {
    served: Arc<Served>,
    loaded: LoadedPlugin,
    /// The thread of its instance, where it needs one.
    arbiter: Option<Arbiter>,
}

/// When something was noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Phase {
    /// While folders were looked at.
    Discovery,
    /// While settings were read.
    Config,
    /// While it registered.
    Register,
}

/// How bad something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    /// Good to know.
    Info,
    /// Probably not meant.
    Warn,
    /// Something does not work.
    Error,
}

/// Something that people should know.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Diagnostic {
    level: Level,
    #[serde(skip_serializing_if = "Option::is_none")]
    plugin_id: Option<Name>,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<PathBuf>,
    phase: Phase,
}

impl Diagnostic {
    fn new(level: Level, phase: Phase, plugin: Option<&Name>, message: impl Into<String>) -> Self {
        Self {
            level,
            plugin_id: plugin.cloned(),
            message: message.into(),
            source: None,
            phase,
        }
    }

    /// Says it once, in the log.
    fn log(&self) {
        let (plugin, message) = (self.plugin_id.as_deref().unwrap_or("-"), &*self.message);
        match self.level {
            Level::Info => tracing::info!(plugin, "{message}"),
            Level::Warn => tracing::warn!(plugin, "{message}"),
            Level::Error => tracing::error!(plugin, "{message}"),
        }
    }
}

impl Plugin {
    fn working(&self) -> Option<&Working> {
        match &self.status {
            Status::Loaded(working) => Some(working),
            Status::Disabled | Status::Failed(_) => None,
        }
    }

    /// The state of its instance; `None` for one that is off.
    fn state(&self) -> Option<InstanceState> {
        match &self.status {
            Status::Disabled => None,
            Status::Failed(_) => Some(InstanceState::Failed),
            Status::Loaded(working) => Some(working.served.state()),
        }
    }
}

impl Plugins {
    /// The hooks of what is loaded.
    pub(crate) fn hooks(&self) -> &Arc<Hooks> {
        &self.hooks
    }

    /// The tools of what is loaded.
    pub(crate) fn tools(&self) -> &Arc<Tools> {
        &self.tools
    }

    /// Plugins that have to serve and do not: what they would judge is refused.
    pub(crate) fn missing(&self) -> impl Iterator<Item = &Name> {
        let lacks = |plugin: &&Plugin| plugin.required && plugin.state() != Some(InstanceState::Running);
        self.plugins.iter().filter(lacks).map(|plugin| &plugin.id)
    }

    /// Brings the metrics up to date.
    pub(crate) fn show(&self, telemetry: &Telemetry) {
        for plugin in &self.plugins {
            if let Some(state) = plugin.state() {
                telemetry.plugin_state(&plugin.id, state);
            }
        }
    }

    /// Stops every instance, each within its time.
    pub(crate) async fn stop(&self, clock: &Clock) {
        let deadline = clock.now() + DISPOSE;
        let working = self.plugins.iter().filter_map(Plugin::working);
        let stopping = working.map(|working| async move {
            if clock.timeout_at(deadline, working.served.stop()).await.is_err() {
                tracing::warn!(plugin = %working.served.id, "the plugin did not stop in time");
            }
            if let Some(arbiter) = &working.arbiter {
                arbiter.stop();
            }
        });
        futures::future::join_all(stopping).await;
    }
}

#[cfg(test)]
mod tests;
