//! What the answers of several handlers come to. Pure; answers come in the order of priority.

use serde_json::{Map, Value};
use understudy_messages::hooks::{
    BlockScope, ModelChoice, PromptContribution, ReplyClaim, RunVerdict, ToolFate, ToolVerdict,
};
use understudy_messages::ids::Name;

/// Who answered what.
pub type Answer<T> = (Name, T);

/// What joins the texts of two plugins.
const BLANK_LINE: &str = "\n\n";

/// The reason of a block that gives none.
pub const BLOCKED: &str = "Blocked by a plugin.";

/// The first choice, whole: a model of one plugin never meets a provider of another.
pub fn model(answers: Vec<Answer<ModelChoice>>) -> Option<Answer<ModelChoice>> {
    let chooses = |choice: &ModelChoice| {
        choice.model_override.is_some() || choice.provider_override.is_some() || choice.fallbacks.is_some()
    };
    answers.into_iter().find(|(_, choice)| chooses(choice))
}

/// All contributions: the first system prompt, the texts one after the other, the tools that all allow, all marks.
pub fn prompt(answers: Vec<Answer<PromptContribution>>) -> PromptContribution {
    let mut merged = PromptContribution::default();
    for (_, answer) in answers {
        if merged.system_prompt.is_none() {
            merged.system_prompt = answer.system_prompt.filter(|text| !text.trim().is_empty());
        }
        join(&mut merged.prepend_system_context, answer.prepend_system_context);
        join(&mut merged.append_system_context, answer.append_system_context);
        join(&mut merged.prepend_context, answer.prepend_context);
        join(&mut merged.append_context, answer.append_context);
        merged.marks.join(answer.marks);
        merged.tools_allow = match (merged.tools_allow.take(), answer.tools_allow) {
            (Some(all), Some(own)) => Some(intersect(&all, &own)),
            (all, own) => all.or(own),
        };
    }
    merged
}

/// Adds text behind what is there; blank text is no opinion.
fn join(all: &mut Option<String>, own: Option<String>) {
    let Some(own) = own.as_deref().map(str::trim).filter(|own| !own.is_empty()) else {
        return;
    };
    match all {
        Some(all) => {
            all.push_str(BLANK_LINE);
            all.push_str(own);
        }
        None => *all = Some(own.to_owned()),
    }
}

/// Tools that both lists allow; a name may end in `*`. The narrower of two that meet is kept.
fn intersect(one: &[String], other: &[String]) -> Vec<String> {
    let mut both = Vec::new();
    for (narrow, wide) in one
        .iter()
        .flat_map(|one| other.iter().map(move |other| (one, other)))
        .flat_map(|(one, other)| [(one, other), (other, one)])
    {
        if allows(wide, narrow) && !both.contains(narrow) {
            both.push(narrow.clone());
        }
    }
    both
}

/// Whether a name, or a pattern with `*` in it, covers another.
pub fn allows(pattern: &str, name: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(rest) = name.strip_prefix(before) else {
        return false;
    };
    if after.is_empty() {
        return true;
    }
    rest.char_indices().any(|(at, _)| allows(after, &rest[at..]))
}

/// The first block, if there is one.
pub fn run(answers: Vec<Answer<RunVerdict>>) -> Option<RunBlock> {
    answers.into_iter().find_map(|(plugin, verdict)| match verdict {
        RunVerdict::Pass => None,
        RunVerdict::Block {
            reason,
            message,
            scope,
            status,
            ..
        } => Some(RunBlock {
            plugin,
            reason,
            message,
            scope,
            status,
        }),
    })
}

/// A block of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunBlock {
    /// Who blocked.
    pub plugin: Name,
    /// Why; never leaves the gateway.
    pub reason: String,
    /// What the client is told.
    pub message: Option<String>,
    /// How far it reaches.
    pub scope: BlockScope,
    /// The status that the plugin gave.
    pub status: Option<u16>,
}

/// The first claim, if there is one.
pub fn reply(answers: Vec<Answer<ReplyClaim>>) -> Option<Answer<ReplyClaim>> {
    answers.into_iter().find(|(_, claim)| claim.handled)
}

/// Folds verdicts: a block ends it, with its own reason; arguments are put over the original ones, the last word stands
/// until an approval is asked for.
pub fn tool(params: &Map<String, Value>, answers: Vec<Answer<ToolVerdict>>) -> ToolFate {
    let mut changed: Option<Map<String, Value>> = None;
    let mut approval: Option<Answer<Value>> = None;
    for (plugin, verdict) in answers {
        if verdict.block {
            let reason = verdict.block_reason.unwrap_or_else(|| BLOCKED.to_owned());
            return ToolFate::Blocked {
                plugin,
                reason,
                veto: true,
            };
        }
        if approval.is_some() {
            continue;
        }
        if let Some(own) = verdict.params {
            let mut whole = params.clone();
            whole.extend(own);
            changed = Some(whole);
        }
        approval = verdict.require_approval.map(|request| (plugin, request));
    }
    match approval {
        Some((plugin, request)) => ToolFate::Approval {
            plugin,
            request,
            params: changed,
        },
        None => ToolFate::Allowed { params: changed },
    }
}

#[cfg(test)]
mod tests;
