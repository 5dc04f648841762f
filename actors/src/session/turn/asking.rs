//! What plugins say about a turn as a whole: which models may answer it, and whether one of them answers itself.

use std::sync::Arc;
use std::time::Duration;

use understudy_messages::answer::{Finish, Piece, Progress};
use understudy_messages::client::{AnswerHead, ClientFrame};
use understudy_messages::clock::Instant;
use understudy_messages::conversation::{Message, Part, Speaker};
use understudy_messages::hooks::{Hook, HookContext, HookEvent, HookResult, ModelChoice, ReplyClaim, Scene, Snapshot};
use understudy_messages::ids::{ModelRef, Name};
use understudy_messages::request::{Demand, Endpoint, RequestFacts};
use understudy_messages::terminal::TurnFailure;
use understudy_messages::turn::{Cast, Performance, TurnContext, TurnOutcome};

use super::Turn;
use crate::hooks::{Hooks, merge};
use crate::registry::{CastError, Held, Roster};
use crate::session::told;

/// What a client is told whose request lets a provider run tools, or call some whose input is no JSON, where a plugin guards
/// calls of tools.
const UNGUARDED: &str = "A plugin of the gateway guards tool calls. Tools that the provider runs itself, prompts that it \
    keeps and tools whose input is not JSON cannot be laid before it: requests with them are refused.";
/// The provider under which a plugin that answers itself is named.
const PLUGIN: &str = "plugin";

impl Turn {
    /// The chain that the request asks for, or that a plugin chooses for it.
    pub(super) async fn cast(
        &self,
        held: &Held,
        hooks: &Hooks,
        scene: &Scene,
        deadline: Instant,
    ) -> Result<Cast, CastError> {
        let (roster, facts) = (&held.generation().roster, &self.run.request.facts);
        let own = || roster.cast(&facts.model, facts.fallbacks.as_deref());
        if !hooks.fires(Hook::BeforeModelResolve) || self.run.request.endpoint == Endpoint::Embeddings {
            return own();
        }
        let event = HookEvent::BeforeModelResolve {
            conversation: scene.conversation().clone(),
        };
        let context = own().ok().and_then(|cast| lead(scene, &cast));
        let take = |result| match result {
            HookResult::Model(choice) => Some(choice),
            _ => None,
        };
        let asked = hooks.modify(event, context.as_ref().unwrap_or(scene.context()), take, |_| false);
        match merge::model(self.in_time(deadline, asked).await.unwrap_or_default()) {
            Some((plugin, choice)) => self.chosen(roster, &plugin, &choice),
            None => own(),
        }
    }

    /// The chain of a plugin's choice: as if the client had asked for it. A model that nobody knows is passed over; the
    /// fallbacks bind all the same.
    fn chosen(&self, roster: &Roster, plugin: &Name, choice: &ModelChoice) -> Result<Cast, CastError> {
        let facts = &self.run.request.facts;
        let fallbacks = choice.fallbacks.as_deref().or(facts.fallbacks.as_deref());
        let model = match (&choice.provider_override, &choice.model_override) {
            (Some(provider), Some(model)) => Some(format!("{provider}/{model}")),
            (Some(provider), None) => Some(format!("{provider}/{}", bare(&facts.model))),
            (None, Some(model)) => Some(model.clone()),
            (None, None) => None,
        };
        if let Some(model) = model {
            match roster.cast(&model, fallbacks) {
                Ok(cast) => return Ok(cast),
                Err(_) => {
                    tracing::warn!(%plugin, turn = %self.run.request.id, "a plugin chose a model that nobody knows")
                }
            }
        }
        roster.cast(&facts.model, fallbacks)
    }

    /// Refuses a request whose calls of tools would pass a guard unseen: a guard that is not asked would be an open gate.
    pub(super) async fn unguarded(&self, turn: &TurnContext) -> Option<Performance> {
        if !calls_unseen(&turn.request.facts) || !turn.hooks.fires(Hook::BeforeToolCall) {
            return None;
        }
        let failure = TurnFailure::blocked(Some(501), Some(UNGUARDED), 0);
        self.tell(failure.clone()).await;
        Some(Performance::nothing(TurnOutcome::Blocked, Some(failure)))
    }

    /// Lets a plugin answer in a model's place, if one wants to.
    pub(super) async fn claimed(&self, turn: &TurnContext, cast: &Cast, hooks: &Hooks) -> Option<Performance> {
        if !hooks.fires(Hook::BeforeAgentReply) || !turn.request.endpoint.is_conversation() {
            return None;
        }
        let conversation = turn.scene.conversation().clone();
        let event = HookEvent::BeforeAgentReply { conversation };
        let take = |result| match result {
            HookResult::Reply(claim) => Some(claim),
            _ => None,
        };
        let context = lead(&turn.scene, cast);
        let context = context.as_ref().unwrap_or(turn.scene.context());
        let asked = hooks.modify(event, context, take, |claim| claim.handled);
        let answers = self.in_time(turn.deadline, asked).await?;
        let (plugin, claim) = merge::reply(answers)?;
        Some(self.reply(turn, plugin, claim).await)
    }

    /// The claim as the whole answer; one without a reply is an answer without text.
    async fn reply(&self, turn: &TurnContext, plugin: Name, claim: ReplyClaim) -> Performance {
        let served_by = ModelRef::new(PLUGIN, plugin);
        let text = claim.reply.unwrap_or_default();
        let head = AnswerHead {
            served_by: served_by.clone(),
            attempts: 0,
            streaming: turn.request.facts.stream,
            headers: Vec::new(),
            dropped: Vec::new(),
        };
        turn.client.note(match text.is_empty() {
            true => Progress::Head,
            false => Progress::Content,
        });
        for frame in [
            ClientFrame::Head(head),
            ClientFrame::Pieces(pieces(&served_by, &text)),
            ClientFrame::End { last: None },
        ] {
            let _client_gone = turn.client.send(frame).await;
        }
        let said = Message {
            speaker: Speaker::Assistant,
            parts: vec![Part::Text(text.clone())],
        };
        let is_kept = turn.request.endpoint == Endpoint::Native && !text.is_empty();
        Performance {
            said: is_kept.then_some(said).into_iter().collect(),
            text: Some(text),
            ..Performance::nothing(TurnOutcome::Completed, None)
        }
    }

    /// Tells that the turn has ended, and nobody waits but for quick handlers.
    pub(super) fn told_end(&self, turn: &TurnContext, performance: &Performance) {
        if !turn.hooks.fires(Hook::AgentEnd) || !turn.request.endpoint.is_conversation() {
            return;
        }
        let (conversation, said) = (turn.scene.conversation().clone(), performance.said.clone());
        let text = performance.text.clone().filter(|_| said.is_empty());
        let duration = self.context.clock.now().duration_since(self.run.received);
        let event = HookEvent::AgentEnd {
            run_id: turn.scene.context().run_id.clone(),
            conversation: Snapshot::new(move || match &*said {
                [] => told::with_answer(conversation.look(), text.as_deref()),
                said => told::with_messages(conversation.look(), said),
            }),
            success: performance.outcome == TurnOutcome::Completed,
            error: error(&performance.outcome).map(str::to_owned),
            duration_ms: millis(duration),
        };
        let context = HookContext {
            model_provider_id: performance.served_by.as_ref().map(|(_, model)| model.provider.clone()),
            model_id: performance.served_by.as_ref().map(|(_, model)| model.model.clone()),
            ..HookContext::clone(turn.scene.context())
        };
        turn.hooks.fire(event, Arc::new(context), turn.lease.clone());
    }

    /// Waits for plugins as long as the turn may take; what ends it meanwhile is set on its token.
    async fn in_time<T>(&self, deadline: Instant, asked: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            _ = self.run.cancel.cancelled() => None,
            answers = asked => Some(answers),
            cause = self.out_of_time(deadline) => {
                self.run.cancel.cancel(cause);
                None
            }
        }
    }
}

fn pieces(served_by: &ModelRef, text: &str) -> Vec<Piece> {
    let begin = Piece::Begin {
        id: None,
        model: Some(served_by.to_string()),
    };
    let said = (!text.is_empty()).then(|| Piece::Text {
        choice: 0,
        text: text.to_owned(),
    });
    let finish = Piece::Finish {
        choice: 0,
        finish: Finish::Stop,
        stop_sequence: None,
    };
    [Some(begin), said, Some(finish)].into_iter().flatten().collect()
}

/// Whether calls of tools may be made that never stand before a guard: the provider runs the tool itself, or brings some with
/// a prompt that it keeps; or the input is no JSON object that could be judged.
fn calls_unseen(facts: &RequestFacts) -> bool {
    let unseen = [Demand::HostedTool, Demand::CustomTool, Demand::ProviderPrompt];
    unseen.into_iter().any(|demand| facts.demands.contains(demand))
}

/// Who is at work while the first of a chain is about to be asked.
fn lead(scene: &Scene, cast: &Cast) -> Option<Arc<HookContext>> {
    cast.candidates.first().map(|candidate| scene.context_for(candidate))
}

/// A model's name without its provider.
fn bare(model: &str) -> &str {
    model.split_once('/').map_or(model, |(_, model)| model)
}

/// What went wrong, as a word.
const fn error(outcome: &TurnOutcome) -> Option<&'static str> {
    match outcome {
        TurnOutcome::Completed => None,
        TurnOutcome::Failed { reason, .. } => Some(reason.as_label()),
        TurnOutcome::Cancelled { .. } => Some("cancelled"),
        TurnOutcome::Blocked => Some("blocked"),
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
