//! What of a session a candidate is told, by the context engine that the operator chose.

use std::sync::Arc;
use std::time::Duration;

use understudy_messages::context::{EngineWork, assembled};
use understudy_messages::hooks::Snapshot;
use understudy_messages::request::Endpoint;
use understudy_messages::session::{Edited, Prompt};
use understudy_messages::turn::Candidate;
use understudy_providers::native::assembled::{Parts, assemble, parts};

use super::Conductor;
use crate::engine::ask;
use crate::session::told;

/// How long an engine may take.
const DEADLINE: Duration = Duration::from_secs(15);

impl Conductor {
    /// The prompt as the engine of the turn's own generation puts it together; where it cannot, the prompt as it was.
    pub(super) async fn assembled(&self, candidate: &Candidate, prompt: Prompt) -> Prompt {
        let turn = &self.turn;
        let Some(engine) = turn
            .engine
            .as_ref()
            .filter(|_| turn.request.endpoint == Endpoint::Native)
        else {
            return prompt;
        };
        let (facts, clock) = (prompt.facts(&turn.request), &self.context.clock);
        let own = parts(&prompt.body, facts, self.asked_items());
        let work = EngineWork::Assemble {
            messages: own.remembered.clone(),
            asked: own.asked.clone(),
            window: candidate.settings.context,
        };
        let deadline = turn.deadline.min(clock.now() + DEADLINE);
        let asking = ask(engine, work, turn.scene.context_for(candidate), clock, deadline);
        let answer = tokio::select! {
            biased;
            _ended = turn.cancel.cancelled() => return prompt,
            answer = self.kept_alive(asking) => answer,
        };
        let remembered = answer.and_then(assembled).map_err(|error| error.to_string());
        let made = remembered.and_then(|remembered| {
            let parts = Parts { remembered, ..own };
            assemble(&prompt.body, facts, &parts).map_err(|error| error.to_string())
        });
        let (body, facts) = match made {
            Ok(made) => made,
            Err(error) => {
                tracing::warn!(turn = %turn.request.id, plugin = %engine.plugin, error,
                    "the context engine did not put the conversation together: the built-in way holds");
                return prompt;
            }
        };
        let read = body.clone();
        let marks = prompt.edited.as_ref().map(|edited| edited.marks.clone());
        let edited = Edited {
            facts,
            conversation: Snapshot::new(move || told::body(Endpoint::Native, &read)),
            marks: marks.unwrap_or_default(),
        };
        Prompt {
            body,
            edited: Some(Arc::new(edited)),
            ..prompt
        }
    }

    /// How many items at the end of the input are asked now.
    pub(super) fn asked_items(&self) -> usize {
        let facts = self.turn.request.facts.responses.as_ref();
        facts.and_then(|facts| facts.asked).unwrap_or_default().items
    }
}
