//! What one candidate is told: the client's body and what plugins add to it, if they let it be asked.
//!
//! Once for each candidate: `agent_turn_prepare` and `before_prompt_build`, then, as the tools are settled, those handlers that
//! need to know which are left; their texts are written into the body. Then `before_agent_run` on the result.

use std::sync::Arc;

use understudy_messages::hooks::{Hook, HookContext, HookEvent, RunBlock, SettledTools, Snapshot};
use understudy_messages::ids::Name;
use understudy_messages::request::Endpoint;
use understudy_messages::session::{Edited, Prompt};
use understudy_messages::turn::{Candidate, TurnContext};
use understudy_providers::inject::{Segments, inject};
use understudy_providers::wire;

use super::fence::fenced;
use super::told;
use crate::hooks::merge::{self, PromptAdditions};

/// The most text that plugins may add to one request.
const MOST_ADDED: usize = 4 << 20;

/// Whether any hook has a say in what a candidate is told.
pub(crate) fn is_shaped(turn: &TurnContext) -> bool {
    let shaping = [Hook::AgentTurnPrepare, Hook::BeforePromptBuild, Hook::BeforeAgentRun];
    shaping.into_iter().any(|hook| turn.hooks.fires(hook))
}

/// The client's body as it came.
pub(crate) fn plain(turn: &TurnContext) -> Prompt {
    Prompt {
        body: turn.request.body.clone(),
        edited: None,
        rounds: Arc::default(),
        continuation: None,
    }
}

/// Asks the hooks. A turn that has ended meanwhile gets its plain body: nobody sends it any longer.
///
/// # Errors
/// The block of a guard.
pub(crate) async fn shaped(turn: &TurnContext, candidate: &Candidate) -> Result<Prompt, RunBlock> {
    tokio::select! {
        biased;
        _ended = turn.cancel.cancelled() => Ok(plain(turn)),
        prompt = ask_hooks(turn, candidate) => prompt,
    }
}

async fn ask_hooks(turn: &TurnContext, candidate: &Candidate) -> Result<Prompt, RunBlock> {
    let context = turn.scene.context_for(candidate);
    let prompt = with(turn, additions(turn, &context).await);
    if turn.hooks.fires(Hook::BeforeAgentRun) {
        let conversation = prompt.conversation(&turn.scene).clone();
        let event = HookEvent::BeforeAgentRun { conversation };
        turn.hooks.permit(event, context).await?;
    }
    Ok(prompt)
}

/// What all plugins add.
async fn additions(turn: &TurnContext, context: &Arc<HookContext>) -> PromptAdditions {
    let mut answers = Vec::new();
    if turn.request.endpoint.is_conversation() {
        let conversation = || turn.scene.conversation().clone();
        if turn.hooks.fires(Hook::AgentTurnPrepare) {
            let conversation = conversation();
            let event = HookEvent::AgentTurnPrepare { conversation };
            answers = turn.hooks.contributions(event, context.clone()).await;
            for (_, answer) in &mut answers {
                // preparing a turn adds context and nothing else
                (answer.system_prompt, answer.tools_allow) = (None, None);
                (answer.prepend_system_context, answer.append_system_context) = (None, None);
            }
        }
        if turn.hooks.fires(Hook::BeforePromptBuild) {
            let conversation = conversation();
            let event = HookEvent::BeforePromptBuild { conversation };
            answers.extend(turn.hooks.contributions(event, context.clone()).await);
        }
    }
    let mut additions = merge::prompt(answers);
    if turn.request.endpoint.is_conversation() && turn.hooks.fires(Hook::BeforePromptBuild) {
        let conversation = turn.scene.conversation().clone();
        let event = HookEvent::BeforePromptBuild { conversation };
        let tools = || settled(turn, &additions);
        let enrichments = turn.hooks.enrichments(event, context.clone(), &tools).await;
        additions.join(merge::prompt(enrichments));
    }
    additions
}

/// The tools that are left; `None` where they cannot be read.
fn settled(turn: &TurnContext, additions: &PromptAdditions) -> Option<SettledTools> {
    let offered = turn.scene.conversation().look().tools.as_ref()?;
    let mut names: Vec<Name> = Vec::with_capacity(offered.len());
    for tool in offered.iter() {
        names.push(tool["name"].as_str()?.into());
    }
    if turn.request.endpoint == Endpoint::Native {
        names.extend(turn.tools.all().iter().map(|tool| tool.name.clone()));
    }
    names.retain(|name| additions.allows(name));
    Some(SettledTools::new(names))
}

/// The body with the additions in it. What cannot be added is left out, and said so.
fn with(turn: &TurnContext, additions: PromptAdditions) -> Prompt {
    if additions.is_empty() {
        return plain(turn);
    }
    if additions.len() > MOST_ADDED {
        tracing::warn!(turn = %turn.request.id, bytes = additions.len(), "plugins add too much to a prompt: left out");
        return plain(turn);
    }
    let stays = |tool: &str| additions.allows(tool);
    let narrows = !additions.tools_allow.is_empty();
    let [before, after] =
        [&additions.prepend_system_context, &additions.append_system_context].map(|text| text.as_deref().map(fenced));
    let segments = Segments {
        system_prompt: additions.system_prompt.as_deref(),
        before_system: before.as_deref(),
        after_system: after.as_deref(),
        before_user: additions.prepend_context.as_deref(),
        after_user: additions.append_context.as_deref(),
        tools: narrows.then_some(&stays),
    };
    let endpoint = turn.request.endpoint;
    let edited = inject(endpoint, &turn.request.body, &segments).and_then(|body| {
        let facts = wire::scan(endpoint, &body)?;
        Ok((body, facts))
    });
    match edited {
        Ok((body, facts)) => {
            let read = body.clone();
            let conversation = Snapshot::new(move || told::body(endpoint, &read));
            Prompt {
                body,
                edited: Some(Arc::new(Edited {
                    facts,
                    conversation,
                    marks: additions.marks,
                })),
                rounds: Arc::default(),
                continuation: None,
            }
        }
        Err(error) => {
            tracing::warn!(turn = %turn.request.id, %error, "the request takes no additions of plugins: left out");
            plain(turn)
        }
    }
}
