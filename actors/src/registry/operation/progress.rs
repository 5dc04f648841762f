//! A reload under way, as those see it who look, and those hear of it who listen.

use std::time::Duration;

use understudy_messages::clock::Instant;
use understudy_messages::events::{Event, ReloadProgress};
use understudy_messages::ids::Name;
use understudy_messages::registry::ReloadOutcome;

use super::{DRAIN, Operation, RECOVERY, WAIT};
use crate::registry::held::Agents;

/// What the registry and its readers see of a reload.
#[derive(Clone, Debug)]
pub(in crate::registry) struct Progress {
    pub(in crate::registry) phase: &'static str,
    pub(in crate::registry) plugins: Vec<Name>,
    pub(in crate::registry) until: Option<Instant>,
    pub(in crate::registry) reason: Option<String>,
    /// Whom it waits for.
    pub(in crate::registry) waits_for: Option<Agents>,
    /// How much time it had when it began to wait.
    pub(in crate::registry) budget: Option<Duration>,
}

impl Operation {
    pub(super) fn show(&self, phase: &'static str, until: Option<Instant>, reason: Option<&str>) {
        self.tell(Progress {
            phase,
            plugins: self.targets.clone(),
            until,
            reason: reason.map(str::to_owned),
            waits_for: None,
            budget: until.map(|_| RECOVERY),
        });
    }

    pub(super) fn show_waiting(&self, until: Instant, agents: &Agents) {
        self.tell(Progress {
            phase: "reloading",
            plugins: self.targets.clone(),
            until: Some(until),
            reason: None,
            waits_for: Some(agents.clone()),
            budget: Some(self.budget()),
        });
    }

    /// How long those who use a target may take to finish.
    pub(super) fn budget(&self) -> Duration {
        if self.ask.wait { WAIT } else { DRAIN }
    }

    /// Shows a step to those who look, and tells it to those who listen.
    fn tell(&self, progress: Progress) {
        let left = progress
            .until
            .map(|until| until.saturating_duration_since(self.context.clock.now()));
        let left = left.map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
        self.publish_step(progress.phase, left, None);
        self.context.published.show(Some(progress));
    }

    pub(super) fn publish_step(
        &self,
        phase: &'static str,
        deadline_in_ms: Option<u64>,
        outcome: Option<ReloadOutcome>,
    ) {
        self.context.tap.publish(|| {
            Event::ReloadProgress(ReloadProgress {
                operation: self.id.clone(),
                phase,
                plugins: self.targets.clone(),
                deadline_in_ms,
                outcome,
            })
        });
    }
}
