//! Who may be told what: typed handles, one struct per role, given at construction.

use std::sync::Arc;

use actix::Recipient;
use arc_swap::ArcSwapOption;

use crate::provider::{Attempt, Perform};
use crate::registry::{CloseAdmission, GetRegistryStatus, RegisterShard, Reload};
use crate::session::{ForgetSession, InspectSession, ListSessions, PinModel, RunTurn};

/// The place of a port whose actor may be started again: readers always find the newest one.
#[derive(Debug)]
pub struct Slot<P>(ArcSwapOption<P>);

impl<P> Default for Slot<P> {
    fn default() -> Self {
        Self(ArcSwapOption::empty())
    }
}

impl<P> Slot<P> {
    /// Puts a port in the place of the one before.
    pub fn set(&self, port: P) {
        self.0.store(Some(Arc::new(port)));
    }

    /// The newest port; `None` before the first.
    pub fn get(&self) -> Option<Arc<P>> {
        self.0.load_full()
    }
}

/// A session shard, as the HTTP side sees it.
#[derive(Clone, Debug)]
pub struct ShardPort {
    /// Runs a turn.
    pub run: Recipient<RunTurn>,
    /// Tells of a session.
    pub inspect: Recipient<InspectSession>,
    /// Tells of all sessions of a client key.
    pub list: Recipient<ListSessions>,
    /// Chooses a session's model.
    pub pin: Recipient<PinModel>,
    /// Forgets a session.
    pub forget: Recipient<ForgetSession>,
}

/// A provider on one arbiter.
#[derive(Clone, Debug)]
pub struct ProviderPort {
    /// Conducts a turn.
    pub perform: Recipient<Perform>,
    /// Makes one attempt.
    pub attempt: Recipient<Attempt>,
}

/// The provider actors of one arbiter, by provider index. Whoever holds a slot keeps the actor behind it.
pub type ProviderPorts = Arc<[Arc<Slot<ProviderPort>>]>;

/// The registry.
#[derive(Clone, Debug)]
pub struct RegistryPort {
    /// Lists a session arbiter.
    pub register: Recipient<RegisterShard>,
    /// Closes the gate for good.
    pub close: Recipient<CloseAdmission>,
    /// Replaces plugins, or all that differs in new settings.
    pub reload: Recipient<Reload>,
    /// Tells what the registry is doing.
    pub status: Recipient<GetRegistryStatus>,
}
