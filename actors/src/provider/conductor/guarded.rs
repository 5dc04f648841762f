//! A guard that lets a candidate, or the whole turn, not be asked.

use understudy_messages::client::ClientFrame;
use understudy_messages::failure::{Cut, Failure, Reason};
use understudy_messages::hooks::{BlockScope, RunBlock};
use understudy_messages::terminal::TurnFailure;
use understudy_messages::turn::{Candidate, Performance, TurnOutcome};
use understudy_providers::classify::reason_of_status;

use super::Conductor;
use crate::provider::failover::Step;
use crate::provider::ledger::Ticket;
use crate::telemetry::StreamEnd;

impl Conductor {
    /// Takes leave of the next candidate where only this one is blocked: one decision, without an attempt or a mark.
    pub(super) fn step_past(&mut self, from: &Candidate, block: &RunBlock) -> Option<Ticket> {
        if block.scope == BlockScope::Turn {
            return None;
        }
        // whatever the status stands for, the next one need not suit it
        let aside = Failure::observed(Reason::Unclassified, Cut::Refused);
        let ticket = self.advance(Some(&aside)).or_else(|| self.late(Some(&aside)))?;
        let failure = Failure {
            reason: block.status.map_or(Reason::Unclassified, reason_of_status),
            status: block.status,
            ..aside
        };
        let to = self.here.position;
        let model = self.cast.candidates.get(to).map(|next| next.model.clone());
        self.decided(from, &failure, Step::FallbackModel { to }, model);
        Some(ticket)
    }

    /// Nobody may be asked: the client is told what the guard wants it to be told.
    pub(super) async fn blocked(mut self, block: RunBlock) -> Performance {
        self.told_passed_over(None);
        tracing::info!(request = %self.turn.request.request_id, turn = %self.turn.request.id, plugin = %block.plugin,
            "turn blocked");
        let failure = TurnFailure::blocked(block.status, block.message.as_deref(), self.attempts.len());
        self.tell(ClientFrame::Failed(failure.clone())).await;
        self.stream_ended(StreamEnd::ErrorAfterContent);
        self.performance(TurnOutcome::Blocked, Some(failure))
    }
}
