//! What whoever asked for a reload is told of its end.

use understudy_messages::registry::{Phase, Receipt, ReloadError, ReloadOutcome};

use super::Operation;
use crate::registry::reload::machine::State;

/// How many lines a receipt warns, and how long each may be.
const WARNINGS: (usize, usize) = (8, 240);

impl Operation {
    pub(super) fn conclude(self, phase: Phase) -> Result<Receipt, Box<ReloadError>> {
        let State::Done(outcome) = self.machine.state() else {
            self.context.published.show(None);
            return Err(Box::new(self.error(ReloadOutcome::Failed, phase)));
        };
        let took = self.context.clock.now().duration_since(self.began);
        let at = self.context.clock.wall();
        self.context.telemetry.reloaded(self.ask.trigger, outcome, took, at);
        let failed = outcome == ReloadOutcome::Failed;
        self.context.published.show(None);
        if matches!(
            outcome,
            ReloadOutcome::Applied | ReloadOutcome::Degraded | ReloadOutcome::Restored
        ) {
            self.context.published.barrier().lift(&self.targets);
            self.context.published.barrier().raise(&self.lost, &[]);
        }
        self.publish_step(if failed { "failed" } else { "reloading" }, None, Some(outcome));
        match outcome {
            ReloadOutcome::Applied | ReloadOutcome::Unchanged => Ok(self.receipt(outcome)),
            ReloadOutcome::Degraded
            | ReloadOutcome::Rejected
            | ReloadOutcome::DrainTimeout
            | ReloadOutcome::RolledBack
            | ReloadOutcome::Restored
            | ReloadOutcome::Deferred
            | ReloadOutcome::Cancelled
            | ReloadOutcome::Failed => Err(Box::new(self.error(outcome, phase))),
        }
    }

    fn receipt(self, outcome: ReloadOutcome) -> Receipt {
        let built = self.built;
        let warned = built
            .as_ref()
            .map(|built| built.inventory.warnings(&self.targets))
            .unwrap_or_default();
        let short = |line: String| line.chars().take(WARNINGS.1).collect();
        let restart_required = built
            .as_ref()
            .is_some_and(|built| built.inventory.has_native(&self.targets));
        tracing::info!(operation = %self.id, outcome = outcome.as_label(), generation = self.generation.0,
            plugins = ?self.targets, "reload");
        Receipt {
            operation_id: self.id,
            outcome,
            generation: Some(self.generation),
            plugin_ids: self.targets,
            source_digests: built
                .map(|built| built.digests.into_iter().collect())
                .unwrap_or_default(),
            warnings: self
                .notices
                .into_iter()
                .chain(warned)
                .take(WARNINGS.0)
                .map(short)
                .collect(),
            restart_required,
        }
    }

    fn error(self, outcome: ReloadOutcome, phase: Phase) -> ReloadError {
        let message = self.message.unwrap_or_else(|| usual(outcome).to_owned());
        tracing::warn!(operation = %self.id, outcome = outcome.as_label(), plugins = ?self.targets, message, "reload");
        ReloadError {
            operation_id: Some(self.id),
            outcome,
            phase,
            committed: self.machine.is_committed(),
            generation: Some(self.generation),
            plugin_ids: self.targets,
            message,
            retry_after_ms: self.busy.then_some(1_000),
            holders: self.holders.0,
            omitted: self.holders.1,
        }
    }
}

const fn usual(outcome: ReloadOutcome) -> &'static str {
    match outcome {
        ReloadOutcome::Applied | ReloadOutcome::Unchanged => "Done.",
        ReloadOutcome::Degraded => "The new generation serves, and something that follows a publication failed.",
        ReloadOutcome::Rejected => "The candidate was refused; nothing was touched.",
        ReloadOutcome::DrainTimeout => "Turns still use what is to be replaced. The old generation serves on.",
        ReloadOutcome::RolledBack => "The old generation serves on.",
        ReloadOutcome::Restored => "The old code was put back.",
        ReloadOutcome::Deferred => "It will be applied once the turns that use what is to be replaced have ended.",
        ReloadOutcome::Cancelled => "Whoever asked is gone, or the gateway stops. The old generation serves on.",
        ReloadOutcome::Failed => "Neither the new nor the old code serves.",
    }
}
