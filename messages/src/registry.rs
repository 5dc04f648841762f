//! What is said to the registry.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actix::{Message, Recipient};

use tokio_util::sync::CancellationToken;

use crate::ids::{GenerationId, Name, ShardIndex};
use crate::origin::OriginToken;
use crate::ports::{ProviderPorts, ShardPort, Slot};
use crate::settings::Settings;

/// A session arbiter is up. The reply tells its place; a restarted arbiter takes the place of the one that is gone.
#[derive(Debug, Message)]
#[rtype(result = "Result<ShardIndex, RegisterShardError>")]
pub struct RegisterShard {
    /// Its shard.
    pub shard: Arc<Slot<ShardPort>>,
    /// What starts provider actors on it.
    pub pool: Arc<Slot<Recipient<StartProviders>>>,
    /// Its provider actors.
    pub providers: ProviderPorts,
    /// What they were started for.
    pub settings: Arc<Settings>,
}

/// Let every provider of some settings have its actor on this arbiter; one that is unchanged keeps the one it has.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Result<ProviderPorts, StartProvidersError>")]
pub struct StartProviders {
    /// What is to serve.
    pub settings: Arc<Settings>,
}

/// An arbiter that cannot reach providers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no HTTP client: {0}")]
pub struct StartProvidersError(pub String);

/// A shard that finds no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegisterShardError {
    /// As many arbiters as were announced are up already.
    #[error("all shards are listed already")]
    Complete,
    /// Other settings serve by now: its providers have to be started for those.
    #[error("other settings serve meanwhile")]
    Outdated,
}

/// A turn that was not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdmitError {
    /// Nothing has been published yet.
    #[error("the gateway is starting")]
    Starting,
    /// The gateway is going away.
    #[error("the gateway is shutting down")]
    ShuttingDown,
    /// The gate did not open in time.
    #[error("admission was held for too long")]
    HeldTooLong,
    /// Too many turns wait at the gate.
    #[error("too many turns wait for admission")]
    QueueFull,
    /// It was asked from inside of a turn that was asked from inside of a turn, and so on.
    #[error("turns ask each other too deep")]
    NestedTooDeep,
}

/// Open the gate again: those who waited come first.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct ReopenAdmission;

/// Close the gate for good: those who wait and those who come are refused.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct CloseAdmission;

/// What the registry is doing.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "RegistryStatus")]
pub struct GetRegistryStatus;

/// The answer to [`GetRegistryStatus`].
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct RegistryStatus {
    /// The serving generation; `None` before the first.
    pub generation: Option<GenerationId>,
    /// Turns that hold it.
    pub leases: u64,
    /// The gate.
    pub admission: AdmissionState,
    /// Turns that wait at the gate.
    pub waiting: usize,
    /// Session arbiters that are listed.
    pub shards: usize,
    /// Session arbiters that are expected.
    pub shards_expected: usize,
}

/// The gate's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AdmissionState {
    /// No generation yet.
    Starting,
    /// Turns pass.
    Open,
    /// Turns wait.
    Held,
    /// Turns are refused.
    Closed,
}

/// How a reload ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReloadOutcome {
    /// The new generation serves.
    Applied,
    /// It serves, and something that follows a publication failed.
    Degraded,
    /// There was nothing to change.
    Unchanged,
    /// It was refused before anything was touched.
    Rejected,
    /// Those who used a target did not finish in time; the old generation serves.
    DrainTimeout,
    /// It was given up before anything was stopped; the old generation serves.
    RolledBack,
    /// The old code was put back.
    Restored,
    /// It will be tried again by itself.
    Deferred,
    /// Whoever asked is gone, or the gateway stops.
    Cancelled,
    /// Neither the new nor the old code serves.
    Failed,
}

impl ReloadOutcome {
    /// Every outcome.
    pub const ALL: [Self; 10] = [
        Self::Applied,
        Self::Degraded,
        Self::Unchanged,
        Self::Rejected,
        Self::DrainTimeout,
        Self::RolledBack,
        Self::Restored,
        Self::Deferred,
        Self::Cancelled,
        Self::Failed,
    ];

    /// The label's spelling. A degraded one was applied: its failure is told apart.
    pub const fn as_label(self) -> &'static str {
        match self {
            Self::Applied | Self::Degraded => "applied",
            Self::Unchanged => "unchanged",
            Self::Rejected => "rejected",
            Self::DrainTimeout => "drain_timeout",
            Self::RolledBack => "rolled_back",
            Self::Restored => "restored",
            Self::Deferred => "deferred",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
        }
    }
}

/// How far a reload had got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Nothing had been touched.
    Prepare,
    /// Those who used a target were waited for.
    Drain,
    /// The old instances were stopped and let go.
    Dispose,
    /// The new ones were started or published.
    Activate,
}

/// Somebody that a reload waits for, or that keeps an instance.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Holder {
    /// What it is: `turn`, a `call` that belongs to none, or a `service` that runs.
    pub kind: &'static str,
    /// The turn, or what is called.
    pub id: String,
    /// The session, by its client's name for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<Name>,
    /// The agent that speaks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<Name>,
    /// The plugin that is held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin: Option<Name>,
    /// The turn that it was asked from, where it was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// For how long.
    #[serde(rename = "age_ms", serialize_with = "as_millis")]
    pub age: Duration,
}

fn as_millis<S: serde::Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

/// Replace what is published: the plugins that are named, or all that differs in new settings.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Result<Receipt, ReloadError>")]
pub struct Reload {
    /// Plugins that are taken anew, whether or not anything of them has changed.
    pub plugins: Vec<Name>,
    /// What the sources of some of them have to be: else nothing is changed.
    pub digests: BTreeMap<Name, String>,
    /// What the new generation is to be made from; `None`: the settings that serve.
    pub settings: Option<Arc<Settings>>,
    /// Whether those who use a target may take ten minutes to finish, instead of one.
    pub wait: bool,
    /// Who asks.
    pub trigger: Trigger,
    /// The turn or call that whoever asks says it asks from.
    pub origin: Option<OriginToken>,
    /// Ends the reload as long as nothing was stopped: whoever asked is gone.
    pub requester: CancellationToken,
    /// Ends the reload as long as nothing was stopped: a newer one takes its place.
    pub superseded: CancellationToken,
}

/// Who asks for a reload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// The gateway starts: the first generation.
    Startup,
    /// An operator, by the admin API.
    Api,
    /// The configuration has changed on disk.
    ConfigWatch,
    /// A signal.
    Signal,
    /// An operator who wants the folders of all plugins looked at anew.
    Refresh,
}

impl Trigger {
    /// Every trigger.
    pub const ALL: [Self; 5] = [Self::Startup, Self::Api, Self::ConfigWatch, Self::Signal, Self::Refresh];

    /// Whether the folders of all plugins are looked at anew: what is not found there any more goes.
    pub const fn looks_anew(self) -> bool {
        match self {
            Self::Signal | Self::Refresh => true,
            Self::Startup | Self::Api | Self::ConfigWatch => false,
        }
    }

    /// Whether somebody waits for the answer, who can try again.
    pub const fn is_answered(self) -> bool {
        match self {
            Self::Api | Self::Refresh => true,
            Self::Startup | Self::ConfigWatch | Self::Signal => false,
        }
    }

    /// The label's spelling.
    pub const fn as_label(self) -> &'static str {
        match self {
            Self::Startup => "startup",
            Self::Api => "api",
            Self::ConfigWatch => "config_watch",
            Self::Signal => "signal",
            Self::Refresh => "refresh",
        }
    }
}

/// What a reload that was carried out tells.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Receipt {
    /// The reload.
    pub operation_id: String,
    /// How it ended: applied or unchanged.
    pub outcome: ReloadOutcome,
    /// The generation that serves now.
    pub generation: Option<GenerationId>,
    /// The plugins that were replaced.
    pub plugin_ids: Vec<Name>,
    /// What was captured of them.
    pub source_digests: BTreeMap<Name, String>,
    /// What people should know: at most eight lines of at most 240 characters.
    pub warnings: Vec<String>,
    /// Whether one of them is compiled in: its settings were read anew, its code only comes with another binary.
    pub restart_required: bool,
}

/// A reload that was not carried out, or not without a failure.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, thiserror::Error)]
#[serde(rename_all = "camelCase")]
#[error("{message}")]
pub struct ReloadError {
    /// The reload; `None` where another one was under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation_id: Option<String>,
    /// How it ended.
    pub outcome: ReloadOutcome,
    /// How far it had got.
    pub phase: Phase,
    /// Whether the new generation serves.
    pub committed: bool,
    /// The generation that serves now.
    pub generation: Option<GenerationId>,
    /// The plugins that were to be replaced.
    pub plugin_ids: Vec<Name>,
    /// What is wrong, and what to do.
    pub message: String,
    /// When it may be tried again.
    #[serde(rename = "retryAfterMs", skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// Who still held a target.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<Holder>,
    /// How many more did.
    pub omitted: usize,
}

/// A reload under way, or one that failed and left something that does not serve.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReloadStatus {
    /// `reloading`, `recovering` or `failed`.
    pub phase: &'static str,
    /// The plugins that it is about.
    pub plugin_ids: Vec<Name>,
    /// Milliseconds until it gives up, when this was asked.
    #[serde(rename = "deadlineInMs", skip_serializing_if = "Option::is_none")]
    pub deadline_in_ms: Option<u64>,
    /// What it waits for, or what is wrong and what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Who still holds a target, the oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<Holder>,
    /// How many more do.
    pub omitted: usize,
    /// Of how much time it gives up at the end, when it waits for somebody.
    #[serde(skip)]
    pub budget: Option<Duration>,
}

/// What a generation is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GenerationState {
    /// It is being made.
    Preparing,
    /// Turns are admitted to it.
    Serving,
    /// It serves, and a reload waits for turns in it.
    Draining,
    /// Another one serves, and somebody still holds it.
    Retiring,
    /// It serves, and a reload has left something in it that does not.
    Failed,
}

impl GenerationState {
    /// Every state.
    pub const ALL: [Self; 5] = [
        Self::Preparing,
        Self::Serving,
        Self::Draining,
        Self::Retiring,
        Self::Failed,
    ];

    /// The wire and label spelling.
    pub const fn as_label(self) -> &'static str {
        match self {
            Self::Preparing => "preparing",
            Self::Serving => "serving",
            Self::Draining => "draining",
            Self::Retiring => "retiring",
            Self::Failed => "failed",
        }
    }
}

/// A generation that is there, and who holds it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GenerationStatus {
    /// Its number.
    pub generation: GenerationId,
    /// What it is there for.
    pub state: GenerationState,
    /// Turns that hold it.
    pub turns: u64,
    /// Calls in instances that no newer generation has.
    pub calls: u64,
    /// Those turns, the oldest first.
    pub holders: Vec<Holder>,
    /// How many more there are.
    pub omitted: usize,
}

impl ReloadStatus {
    /// Whether turns may wait for it, or be refused: a reload that starts the new beside the old holds nobody.
    pub fn holds_turns(&self) -> bool {
        self.phase != "reloading" || self.deadline_in_ms.is_some()
    }
}
