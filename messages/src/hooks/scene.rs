//! What the hooks of one turn are told again and again.

use std::fmt;
use std::sync::{Arc, OnceLock};

use super::{HookContext, Parsed, SessionSlots, Snapshot};
use crate::ids::{Name, SessionKey};
use crate::origin::Origin;
use crate::settings::AgentSettings;
use crate::turn::{Candidate, TurnRequest};

/// Takes a request apart for hooks.
pub type Reader = fn(&TurnRequest) -> Parsed;

/// Who is at work in a turn, and its conversation. Each is made when the first hook needs it, and shared from then on.
pub struct Scene {
    request: Arc<TurnRequest>,
    agent: Arc<AgentSettings>,
    reader: Reader,
    slots: Option<SessionSlots>,
    origin: Option<Origin>,
    context: OnceLock<Arc<HookContext>>,
    conversation: OnceLock<Arc<Snapshot>>,
}

impl Scene {
    /// Of a turn in which `agent` speaks, and which its plugins may name; nothing is made yet.
    pub const fn new(
        request: Arc<TurnRequest>,
        agent: Arc<AgentSettings>,
        reader: Reader,
        origin: Option<Origin>,
    ) -> Self {
        Self {
            request,
            agent,
            reader,
            slots: None,
            origin,
            context: OnceLock::new(),
            conversation: OnceLock::new(),
        }
    }

    /// With what plugins keep with the session.
    #[must_use]
    pub fn with_slots(self, slots: Option<SessionSlots>) -> Self {
        Self { slots, ..self }
    }

    /// Who is at work, as long as no model is about to answer.
    pub fn context(&self) -> &Arc<HookContext> {
        self.context.get_or_init(|| {
            Arc::new(HookContext {
                run_id: Some(self.request.id.to_string()),
                agent_id: Some(self.agent.name.clone()),
                session_key: self.request.session.key().cloned(),
                session_id: Some(self.session_id()),
                workspace_dir: self.workspace(),
                trigger: Some("user"),
                session_slots: self.slots.clone(),
                origin: self.origin.clone(),
                ..HookContext::default()
            })
        })
    }

    /// Who is at work while `candidate` is about to answer.
    pub fn context_for(&self, candidate: &Candidate) -> Arc<HookContext> {
        Arc::new(HookContext {
            model_provider_id: Some(candidate.model.provider.clone()),
            model_id: Some(candidate.model.model.clone()),
            context_token_budget: candidate.settings.context,
            ..HookContext::clone(self.context())
        })
    }

    /// The conversation as the client sent it. Nothing is read before somebody looks.
    pub fn conversation(&self) -> &Arc<Snapshot> {
        self.conversation.get_or_init(|| {
            let (request, reader) = (self.request.clone(), self.reader);
            Snapshot::new(move || reader(&request))
        })
    }

    /// Whether anything has been made of the conversation.
    pub fn was_shown(&self) -> bool {
        self.conversation.get().is_some()
    }

    /// `None` also for a folder whose name is no text: half a name would be another folder.
    fn workspace(&self) -> Option<String> {
        let folder = self.agent.workspace.as_deref()?;
        folder.to_str().map(str::to_owned)
    }

    /// Sessions of different client keys are different ones, though their keys be the same. One without a key is its turn.
    fn session_id(&self) -> String {
        match &self.request.session {
            SessionKey::Ephemeral => self.request.id.to_string(),
            SessionKey::Keyed { owner: None, key } => Name::to_string(key),
            SessionKey::Keyed {
                owner: Some(owner),
                key,
            } => format!("{owner}:{key}"),
        }
    }
}

impl fmt::Debug for Scene {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scene(withheld)")
    }
}
