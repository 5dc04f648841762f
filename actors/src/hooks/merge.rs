//! What the answers of several handlers come to. Pure; answers come in the order of priority.

use serde_json::{Map, Value};
use understudy_messages::hooks::{
    ModelChoice, PromptContribution, ReplyClaim, RunBlock, RunVerdict, ToolFate, ToolVerdict, TurnMarks,
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

/// What all plugins together add to a prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PromptAdditions {
    /// In place of the system prompt: the first one.
    pub system_prompt: Option<String>,
    /// Before the system prompt: one after the other.
    pub prepend_system_context: Option<String>,
    /// After it.
    pub append_system_context: Option<String>,
    /// Before the newest text of the user.
    pub prepend_context: Option<String>,
    /// After it.
    pub append_context: Option<String>,
    /// The tools that may be called: each list has to allow one.
    pub tools_allow: Vec<Vec<String>>,
    /// What is noted down when an attempt that carried all this has answered.
    pub marks: TurnMarks,
}

impl PromptAdditions {
    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether a tool may be called.
    pub fn allows(&self, tool: &str) -> bool {
        let covers = |list: &Vec<String>| list.iter().any(|pattern| allows(pattern, tool));
        self.tools_allow.iter().all(covers)
    }

    /// Adds what later answers came to behind what is there.
    pub fn join(&mut self, later: Self) {
        self.system_prompt = self.system_prompt.take().or(later.system_prompt);
        join(&mut self.prepend_system_context, later.prepend_system_context);
        join(&mut self.append_system_context, later.append_system_context);
        join(&mut self.prepend_context, later.prepend_context);
        join(&mut self.append_context, later.append_context);
        self.marks.join(later.marks);
        self.tools_allow.extend(later.tools_allow);
    }

    /// How many bytes are added.
    pub fn len(&self) -> usize {
        let texts = [
            &self.system_prompt,
            &self.prepend_system_context,
            &self.append_system_context,
            &self.prepend_context,
            &self.append_context,
        ];
        texts.into_iter().flatten().map(String::len).sum()
    }
}

/// All contributions: the first system prompt, the texts one after the other, the tools that all allow.
pub fn prompt(answers: Vec<Answer<PromptContribution>>) -> PromptAdditions {
    let mut merged = PromptAdditions::default();
    for (_, answer) in answers {
        merged.join(PromptAdditions {
            system_prompt: answer.system_prompt.filter(|text| !text.trim().is_empty()),
            prepend_system_context: answer.prepend_system_context,
            append_system_context: answer.append_system_context,
            prepend_context: answer.prepend_context,
            append_context: answer.append_context,
            tools_allow: answer.tools_allow.into_iter().collect(),
            marks: answer.marks,
        });
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

/// Tools that go by one name together.
const GROUPS: [(&str, &[&str]); 9] = [
    ("group:fs", &["read", "write", "edit", "apply_patch"]),
    ("group:runtime", &["exec", "bash", "process"]),
    ("group:web", &["web_search", "web_fetch"]),
    ("group:memory", &["memory_search", "memory_get"]),
    (
        "group:sessions",
        &[
            "sessions_list",
            "sessions_history",
            "sessions_send",
            "sessions_spawn",
            "session_status",
        ],
    ),
    ("group:ui", &["browser", "canvas"]),
    ("group:automation", &["cron", "gateway"]),
    ("group:messaging", &["message"]),
    ("group:nodes", &["nodes"]),
];

/// Whether a name, a group's name or a pattern with `*` in it covers a tool. Linear in the pattern for each `*`.
pub fn allows(pattern: &str, tool: &str) -> bool {
    if let Some((_, members)) = GROUPS.iter().find(|(group, _)| *group == pattern) {
        return members.contains(&tool);
    }
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| tool.strip_prefix(first)) else {
        return false;
    };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some((_, behind)) = rest.split_once(part) else {
            return false;
        };
        rest = behind;
    }
    true
}

/// The first block, if there is one.
pub fn run(answers: Vec<Answer<RunVerdict>>) -> Option<RunBlock> {
    answers.into_iter().find_map(|(plugin, verdict)| match verdict {
        RunVerdict::Pass => None,
        RunVerdict::Block {
            message, scope, status, ..
        } => Some(RunBlock {
            plugin,
            message,
            scope,
            status,
        }),
    })
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
