//! What is published when a turn ends: metrics, log, events. Exactly one end event for each admitted turn, whatever the
//! path that led there.

use std::sync::Arc;
use std::time::Duration;

use understudy_messages::clock::Instant;
use understudy_messages::events::{Event, TerminalFailure, TerminalKind, TurnEnded};
use understudy_messages::failure::Reason;
use understudy_messages::hooks::{Hook, HookEvent, ModelFailureTerminalEvent, RunIds, TriedModel};
use understudy_messages::ids::{GenerationId, Name};
use understudy_messages::registry::AdmitError;
use understudy_messages::terminal::{Source, TurnFailure};
use understudy_messages::turn::{Performance, TurnContext, TurnOutcome, TurnRequest};

use crate::registry::Generation;
use crate::session::SessionContext;
use crate::telemetry::{InFlight, ServedBy, TurnResult};

/// The one who publishes the end of a turn.
pub(in crate::session) struct Closing {
    request: Arc<TurnRequest>,
    received: Instant,
    context: Arc<SessionContext>,
}

impl Closing {
    pub(super) fn new(request: Arc<TurnRequest>, received: Instant, context: Arc<SessionContext>) -> Self {
        Self {
            request,
            received,
            context,
        }
    }

    /// Counts the turn as in flight until the guard drops.
    pub(super) fn enter(&self) -> InFlight {
        self.context
            .telemetry
            .turns()
            .agent(self.request.agent.as_ref())
            .enter()
    }

    /// The turn was refused before it was admitted: counted, and told of where it failed at the gate.
    pub(super) fn refused(&self, result: TurnResult, at_gate: Option<AdmitError>) {
        self.count(self.request.agent.as_ref(), result, None, 0);
        let Some(why) = at_gate else { return };
        let reason = match why {
            AdmitError::NestedTooDeep => Reason::Format,
            AdmitError::Starting | AdmitError::ShuttingDown | AdmitError::HeldTooLong | AdmitError::QueueFull => {
                Reason::Overloaded
            }
        };
        let agent = self.request.agent.clone().unwrap_or_else(|| "".into());
        self.publish(&agent, GenerationId::default(), &failed(reason, false));
    }

    /// The turn was admitted, and nobody is there who could be asked.
    pub(super) fn uncast(&self, result: TurnResult, generation: &Generation) {
        self.count(self.request.agent.as_ref(), result, None, 0);
        let settings = generation.roster.settings();
        let default = settings
            .agents
            .get(settings.default_agent)
            .map(|agent| agent.name.clone());
        let nobody = failed(Reason::ModelNotFound, false);
        self.publish(&default.unwrap_or_else(|| "".into()), generation.id, &nobody);
    }

    /// The turn was performed.
    pub(super) fn ended(
        &self,
        turn: &TurnContext,
        generation: GenerationId,
        performance: &Performance,
        waited: Duration,
    ) {
        let agent = &turn.agent.name;
        let place = performance.served_by.as_ref().map(|(place, _)| *place);
        let result = TurnResult::from(&performance.outcome);
        let duration = self.count(Some(agent), result, place, performance.attempts.len());
        let own = duration.saturating_sub(performance.upstream + waited);
        self.context.telemetry.turns().overhead(own);
        self.terminal(turn, performance);
        self.publish(agent, generation, performance);
    }

    /// The turn's task panicked: the client sees its channel close, and the end is told here.
    pub(in crate::session) fn lost(&self) {
        let agent = self.request.agent.clone().unwrap_or_else(|| "".into());
        tracing::error!(request = %self.request.request_id, turn = %self.request.id, "turn lost");
        self.count(Some(&agent), TurnResult::Error, None, 0);
        self.publish(&agent, GenerationId::default(), &failed(Reason::Unknown, false));
    }

    /// Books the end; tells how long the turn took.
    fn count(&self, agent: Option<&Name>, result: TurnResult, place: Option<usize>, attempts: usize) -> Duration {
        let duration = self.context.clock.now().duration_since(self.received);
        let served_by = ServedBy::from_place(place);
        let turns = self.context.telemetry.turns();
        turns.agent(agent).ended(result, served_by);
        turns.ended(result, served_by, duration, attempts);
        tracing::debug!(request = %self.request.request_id, turn = %self.request.id,
            result = result.as_label(), attempts, "turn ended");
        duration
    }

    /// A turn that failed before a byte of an answer is told of as such.
    fn terminal(&self, turn: &TurnContext, performance: &Performance) {
        let before_answer = matches!(
            performance.outcome,
            TurnOutcome::Failed {
                after_content: false,
                ..
            }
        );
        let Some(failure) = performance.failure.as_ref().filter(|_| before_answer) else {
            return;
        };
        let kind = match failure.source {
            Source::Chain => TerminalKind::AllModelsFailed,
            Source::Cancelled(_) | Source::Gateway | Source::Guard => TerminalKind::RunFailedBeforeReply,
        };
        self.context.telemetry.terminal(kind, failure.cause);
        self.log_terminal(kind, failure, performance.attempts.len());
        self.context.tap.publish(|| {
            Event::TerminalFailure(TerminalFailure {
                turn: self.request.id,
                agent: turn.agent.name.clone(),
                kind,
                reason: failure.cause,
                final_message: failure.sentence.clone(),
                attempts: performance.attempts.clone(),
            })
        });
        self.tell_terminal(turn, kind, failure, &performance.tried);
    }

    /// What the client was told is what plugins are told.
    fn tell_terminal(&self, turn: &TurnContext, kind: TerminalKind, failure: &TurnFailure, tried: &[TriedModel]) {
        if !turn.hooks.fires(Hook::ModelFailureTerminal) {
            return;
        }
        let context = turn.scene.context();
        let event = ModelFailureTerminalEvent {
            run: RunIds::from(&**context),
            final_message: failure.client_message().to_owned(),
            kind: kind.as_label(),
            attempts: (kind == TerminalKind::AllModelsFailed).then(|| tried.to_vec()),
        };
        turn.hooks.fire(
            HookEvent::ModelFailureTerminal(event),
            context.clone(),
            turn.lease.clone(),
        );
    }

    /// Where nobody was asked the rests have told why already: in an outage a line for each turn would bury them.
    fn log_terminal(&self, kind: TerminalKind, failure: &TurnFailure, attempts: usize) {
        let (request, turn) = (&self.request.request_id, self.request.id);
        let (kind, reason) = (kind.as_label(), failure.reason_label());
        match attempts {
            0 => tracing::debug!(%request, %turn, kind, reason, attempts, "terminal failure"),
            _ => tracing::warn!(%request, %turn, kind, reason, attempts, "terminal failure"),
        }
    }

    fn publish(&self, agent: &Name, generation: GenerationId, performance: &Performance) {
        self.context.tap.publish(|| {
            Event::TurnEnded(TurnEnded {
                turn: self.request.id,
                request: self.request.request_id.clone(),
                session: self.request.session.clone(),
                agent: agent.clone(),
                generation,
                outcome: performance.outcome,
                served_by: performance.served_by.as_ref().map(|(_, model)| model.clone()),
                attempts: performance.attempts.clone(),
                usage: performance.usage,
                removed_calls: performance.removed.clone(),
                duration: self.context.clock.now().duration_since(self.received),
            })
        });
    }
}

/// A turn in which nobody was asked.
fn failed(reason: Reason, after_content: bool) -> Performance {
    Performance::nothing(TurnOutcome::Failed { reason, after_content }, None)
}
