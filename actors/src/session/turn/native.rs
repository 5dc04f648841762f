//! A turn of the native API: what its session remembers stands before it, and what it says is remembered after it.

use std::sync::Arc;
use std::time::Duration;

use understudy_messages::client::ClientFrame;
use understudy_messages::context::EngineWork;
use understudy_messages::events::Event;
use understudy_messages::failure::Reason;
use understudy_messages::ids::{ModelRef, Name};
use understudy_messages::request::{Asked, Endpoint};
use understudy_messages::session::SessionFault;
use understudy_messages::terminal::TurnFailure;
use understudy_messages::tools::{FallbackNotice, TurnNote, TurnTools};
use understudy_messages::turn::{Performance, TurnContext, TurnOutcome, TurnRequest};
use understudy_providers::native::{self, Setting};
use understudy_providers::wire::{self, RequestError};

use super::{Refusal, Turn};
use crate::engine;
use crate::registry::{Generation, Roster};
use crate::session::memory::{Recalled, Taken};
use crate::session::{failure, notice};

/// How long a context engine may take to take note of a turn; the session's next one waits for it.
const COMMIT: Duration = Duration::from_secs(5);

/// Who speaks in a turn, and which model it asks for.
#[derive(Debug, PartialEq, Eq)]
struct Casting {
    agent: Option<Name>,
    /// Instead of the one in the request.
    model: Option<Name>,
    /// Whether the model was chosen for the session: then nobody else answers.
    strict: bool,
}

impl Casting {
    /// The model that is asked for.
    fn asks<'a>(&'a self, request: &'a TurnRequest) -> &'a str {
        self.model.as_deref().unwrap_or(&request.facts.model)
    }
}

impl Turn {
    /// Makes sure that the session has room for what the user says.
    pub(super) fn find_room(&mut self) -> Result<(), Refusal> {
        let request = &self.run.request;
        let Some(memory) = self.memory().filter(|_| is_native(request)) else {
            return Ok(());
        };
        let asked = native::own_items(&request.body, &request.facts);
        memory.admits(&asked).map_err(Refusal::Room)?;
        self.asked = asked;
        Ok(())
    }

    /// Puts into the request what the session remembers and which tools run here.
    pub(super) fn recall(&mut self, generation: &Generation) -> Result<(), Refusal> {
        let request = &self.run.request;
        let Some(memory) = self.memory().filter(|_| is_native(request)) else {
            return Ok(());
        };
        let recalled = memory.recall();
        let casting = casting(request, self.run.names_model, &recalled, &generation.roster);
        let agent = generation.roster.agent(casting.agent.as_deref(), casting.asks(request));
        let tools = agent.ok().map(|agent| generation.tools_of(agent));
        let setting = Setting {
            transcript: &recalled.transcript,
            tools: tools.map_or(&[], |tools| tools.all()),
            model: casting.model.as_deref(),
            strict: casting.strict,
        };
        let told = told(request, casting.agent.clone(), &setting, self.asked.len()).map_err(Refusal::Unreadable)?;
        self.run.request = Arc::new(told);
        Ok(())
    }

    /// Keeps what of the turn is to be kept; tells of a change of who answers, where `selected` was chosen. To be called before
    /// the session's place is free: its next turn finds all of it. A turn that cannot be kept has failed, and its client is
    /// told so in the place of an end.
    pub(super) async fn kept(
        &mut self,
        turn: &TurnContext,
        selected: Option<&ModelRef>,
        performance: Performance,
    ) -> (Performance, Option<FallbackNotice>) {
        match self.remember(turn, selected, &performance).await {
            Ok(change) => {
                turn.client.note_kept();
                (performance, change)
            }
            Err(fault) => {
                self.committed.clear();
                let failure = failure(&fault, &turn.request.session);
                self.tell(failure.clone()).await;
                (not_kept(turn, performance, failure), None)
            }
        }
    }

    async fn remember(
        &mut self,
        turn: &TurnContext,
        selected: Option<&ModelRef>,
        performance: &Performance,
    ) -> Result<Option<FallbackNotice>, SessionFault> {
        let Some(memory) = self.session.as_ref().map(|session| session.memory.clone()) else {
            return Ok(None);
        };
        let active = performance.served_by.as_ref().map(|(_, model)| model);
        let native = is_native(&self.run.request);
        let notice = selected.zip(active).filter(|_| native).and_then(|(selected, active)| {
            notice::change(memory.fallback().as_ref(), selected, active, &performance.tried)
        });
        let asked = std::mem::take(&mut self.asked);
        let said = if native { kept(asked, performance) } else { asked };
        if turn.engine.is_some() && native {
            self.committed = said.clone();
        }
        let taken = Taken {
            agent: turn.agent.name.clone(),
            served_by: active.cloned(),
            said,
            notice: notice.clone(),
        };
        let forgotten = memory.take(taken, self.context.clock.wall()).await?;
        if forgotten > 0 {
            tracing::info!(turn = %turn.request.id, forgotten, "a session remembers as much as it may: its oldest is forgotten");
            let turn = turn.request.id;
            self.context.tap.publish(|| Event::TranscriptCut { turn, forgotten });
        }
        Ok(notice)
    }

    /// Tells the engine that the turn began with what was kept of it. The turn holds its generation until then.
    pub(super) async fn commit(&mut self, turn: &TurnContext) {
        let said = std::mem::take(&mut self.committed);
        let Some(engine) = turn.engine.as_ref().filter(|_| !said.is_empty()) else {
            return;
        };
        let messages = said.iter().filter_map(|item| serde_json::from_str(item).ok());
        let work = EngineWork::Commit {
            messages: messages.collect(),
        };
        let (context, clock) = (turn.scene.context().clone(), &self.context.clock);
        if let Err(error) = engine::ask(engine, work, context, clock, clock.now() + COMMIT).await {
            tracing::warn!(turn = %turn.request.id, plugin = %engine.plugin, error = error.as_label(),
                "the context engine did not take what was said");
        }
    }

    /// Tells the client that somebody else answers, or the chosen one again.
    pub(super) async fn tell_change(&self, notice: FallbackNotice) {
        self.send(ClientFrame::Note(TurnNote::Fallback(notice))).await;
    }
}

fn is_native(request: &TurnRequest) -> bool {
    request.endpoint == Endpoint::Native
}

/// A turn that its session could not keep: its client got no end.
fn not_kept(turn: &TurnContext, performance: Performance, failure: TurnFailure) -> Performance {
    match performance.outcome {
        TurnOutcome::Completed => Performance {
            outcome: TurnOutcome::Failed {
                reason: Reason::Unknown,
                after_content: turn.client.progress().is_answer(),
            },
            failure: Some(failure),
            ..performance
        },
        TurnOutcome::Failed { .. } | TurnOutcome::Cancelled { .. } | TurnOutcome::Blocked => performance,
    }
}

/// The agent that is named, or whose name the model is, else the one that spoke last. Without a model of its own the
/// request is for the one that was chosen for the session, else for the agent's.
fn casting(request: &TurnRequest, names_model: bool, recalled: &Recalled, roster: &Roster) -> Casting {
    let is_agent = |name: &str| roster.settings().agents.iter().any(|agent| &*agent.name == name);
    let pinned = recalled.pinned.clone().filter(|_| !names_model);
    let named = match (&pinned, names_model) {
        (Some(pinned), _) => Some(pinned),
        (None, true) => Some(&request.facts.model),
        (None, false) => None,
    };
    let by_model = named.is_some_and(|name| is_agent(name));
    let spoke = || recalled.agent.clone().filter(|name| !by_model && is_agent(name));
    let agent = request.agent.clone().or_else(spoke);
    Casting {
        model: pinned.clone().or(agent.clone().filter(|_| !names_model)),
        strict: pinned.is_some(),
        agent,
    }
}

/// The request as models are asked; the client asks `items` items of it.
fn told(
    request: &TurnRequest,
    agent: Option<Name>,
    setting: &Setting<'_>,
    items: usize,
) -> Result<TurnRequest, RequestError> {
    let body = native::compose(&request.body, &request.facts, setting);
    let mut facts = wire::scan(request.endpoint, &body)?;
    if let Some(responses) = &mut facts.responses {
        let text_bytes = request.facts.messages.text_bytes;
        responses.asked = Some(Asked { items, text_bytes });
    }
    Ok(TurnRequest {
        id: request.id,
        request_id: request.request_id.clone(),
        session: request.session.clone(),
        agent,
        endpoint: request.endpoint,
        facts,
        body,
        headers: request.headers.clone(),
    })
}

/// What the user said, once, whatever came of it; and all that was said in return where that is whole. What a guard blocked
/// is as if it had not been said.
fn kept(asked: Vec<String>, performance: &Performance) -> Vec<String> {
    match performance.outcome {
        TurnOutcome::Completed => {
            let answered = performance.said.iter().flat_map(native::items);
            asked.into_iter().chain(answered).collect()
        }
        TurnOutcome::Failed { .. } | TurnOutcome::Cancelled { .. } => asked,
        TurnOutcome::Blocked => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
