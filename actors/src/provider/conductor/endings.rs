//! How a turn ends: what the client is told last, and what the session is.

use std::time::Duration;

use understudy_messages::client::ClientFrame;
use understudy_messages::failure::{CancelCause, Cut, Nuance, Reason};
use understudy_messages::ids::ModelRef;
use understudy_messages::provider::Answered;
use understudy_messages::terminal::{TurnFailure, conclude};
use understudy_messages::turn::{Performance, TurnOutcome};

use super::path::Tried;
use super::rounds::MOST_ROUNDS;
use super::{Conductor, ENDING_GRACE};
use crate::telemetry::StreamEnd;

/// When it is worth coming back to a gateway that has met a limit of its own.
const OWN_LIMIT: Duration = Duration::from_secs(1);

impl Conductor {
    /// The client has the whole answer, but for its end.
    pub(super) async fn answered(mut self, model: ModelRef, mut answered: Answered) -> Performance {
        let text = answered.text.take().map(|text| self.whole_text(&text));
        let said = self.whole_said(std::mem::take(&mut answered.said));
        let noted = self.tell_removed().await && self.tell_left_out().await;
        let whole = noted && self.tell(ClientFrame::End { last: answered.last }).await;
        if !whole {
            return self.cancelled().await;
        }
        self.stream_ended(StreamEnd::Ok);
        let served_by = Some((self.here.position, model));
        Performance {
            served_by,
            usage: self.whole_usage(answered.usage),
            text,
            said,
            ..self.performance(TurnOutcome::Completed, None)
        }
    }

    pub(super) async fn cancelled(self) -> Performance {
        let cause = self.turn.cancel.cause().unwrap_or(CancelCause::Client);
        let failure = TurnFailure::cancelled(cause, self.attempts.len());
        if cause != CancelCause::Client {
            self.tell(ClientFrame::Failed(failure.clone())).await;
        }
        self.stream_ended(StreamEnd::Cancelled);
        let outcome = match cause {
            CancelCause::RunBudget => TurnOutcome::Failed {
                reason: Reason::Timeout,
                after_content: self.turn.client.progress().is_answer(),
            },
            CancelCause::Client | CancelCause::CallerDeadline | CancelCause::Shutdown => {
                TurnOutcome::Cancelled { cause }
            }
        };
        self.performance(outcome, Some(failure))
    }

    /// The model calls tools and never says anything.
    pub(super) async fn too_many_rounds(self) -> Performance {
        let hint = format!("The model called tools in {MOST_ROUNDS} rounds and did not come to an answer.");
        self.ours(TurnFailure::ours(500, "tool_rounds_exceeded", &hint)).await
    }

    /// The turn fails by no fault of a provider.
    async fn ours(self, failure: TurnFailure) -> Performance {
        let failure = TurnFailure {
            attempts: u32::try_from(self.attempts.len()).unwrap_or(u32::MAX),
            ..failure
        };
        self.tell(ClientFrame::Failed(failure.clone())).await;
        self.stream_ended(StreamEnd::ErrorAfterContent);
        let after_content = self.turn.client.progress().is_answer();
        let reason = Reason::Unknown;
        self.performance(TurnOutcome::Failed { reason, after_content }, Some(failure))
    }

    /// Nobody could answer: tells the client why, and when to come back.
    pub(super) async fn surface(mut self, retry_after: Option<Duration>) -> Performance {
        self.told_passed_over(None);
        let own = self.tried.last().and_then(Tried::failure);
        let own = own
            .filter(|failure| failure.nuance == Some(Nuance::OwnLimit))
            .map(|_| OWN_LIMIT);
        let soonest = self.soonest().into_iter().chain(retry_after).chain(own).min();
        let failure = self.outgrown().or_else(|| self.unsupported());
        let failure = TurnFailure {
            attempts: u32::try_from(self.attempts.len()).unwrap_or(u32::MAX),
            ..failure.unwrap_or_else(|| conclude(&self.concluding(), soonest))
        };
        let last = self.tried.iter().rev().find_map(Tried::failure);
        let last = self.broken.cause.as_ref().map(|(_, failure)| failure).or(last);
        let reason = failure
            .cause
            .or(last.map(|last| last.reason))
            .unwrap_or(Reason::Unknown);
        let cut = last.map_or(Cut::Refused, |last| last.cut);
        self.tell(ClientFrame::Failed(failure.clone())).await;
        self.stream_ended(StreamEnd::from(cut));
        let after_content = self.turn.client.progress().is_answer();
        self.performance(TurnOutcome::Failed { reason, after_content }, Some(failure))
    }

    /// Writes the ending. `false` when the client left or does not read.
    pub(super) async fn tell(&self, frame: ClientFrame) -> bool {
        let grace = self.context.clock.now() + ENDING_GRACE;
        let told = self.context.clock.timeout_at(grace, self.turn.client.send(frame)).await;
        matches!(told, Ok(Ok(())))
    }

    pub(super) fn performance(self, outcome: TurnOutcome, failure: Option<TurnFailure>) -> Performance {
        Performance {
            outcome,
            attempts: self.attempts,
            served_by: None,
            usage: None,
            upstream: self.upstream,
            failure,
            tried: self.tried.iter().map(Tried::told).collect(),
            text: None,
            removed: self.rounds.removed,
            said: Vec::new(),
        }
    }
}
