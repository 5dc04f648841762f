//! How much the model may think, and what that leaves for the rest of the request.
//!
//! Models up to Claude 4.5, and those whose name tells no version, are given a budget; later ones adapt and are told an
//! effort instead. Where Anthropic would refuse to think (a tool is forced, the answer is begun already, or a turn of tools
//! was begun without thoughts of Anthropic's own) the wish is left out and named `reasoning`.

use serde::Serialize;
use understudy_messages::conversation::{Conversation, ReasoningWish, ToolChoice};

use super::messages::{Block, Turn};
use super::{Dropped, MAX_TOKENS};

/// The least budget that Anthropic takes.
const LEAST: u64 = 1024;
/// The most tokens of an answer whose client set no limit, where the model decides how much of it are thoughts.
const MAX_TOKENS_ADAPTIVE: u64 = 32_768;

/// The member `thinking`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Thinking {
    Disabled,
    Enabled {
        budget_tokens: u64,
    },
    Adaptive {
        #[serde(skip_serializing_if = "Option::is_none")]
        display: Option<&'static str>,
    },
}

/// What is written of the wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) thinking: Option<Thinking>,
    pub(super) effort: Option<&'static str>,
    pub(super) max_tokens: u64,
    /// Whether temperature and the like may be set.
    pub(super) may_draw: bool,
}

impl Plan {
    pub(super) fn of(conversation: &Conversation, model: &str, turns: &[Turn<'_>], dropped: &mut Dropped) -> Self {
        let limit = conversation.sampling.max_tokens;
        let version = version(model);
        let without = Self {
            thinking: None,
            effort: None,
            max_tokens: limit.unwrap_or(MAX_TOKENS),
            may_draw: version < (4, 7),
        };
        let Some(wish) = &conversation.reasoning else {
            return without;
        };
        if wish.budget == Some(0) || wish.effort.as_deref() == Some("none") {
            return Self {
                thinking: Some(Thinking::Disabled),
                ..without
            };
        }
        let plan = match version >= (4, 6) {
            true => Some(Self::adaptive(wish, limit)),
            false => Self::enabled(wish, limit),
        };
        match plan.filter(|_| may_think(conversation, turns)) {
            Some(plan) => plan,
            None => {
                dropped.note("reasoning");
                without
            }
        }
    }

    fn adaptive(wish: &ReasoningWish, limit: Option<u64>) -> Self {
        let by_budget = wish.budget.map(|budget| match budget {
            ..=2048 => "low",
            2049..=8192 => "medium",
            _ => "high",
        });
        Self {
            thinking: Some(Thinking::Adaptive {
                display: wish.summary.is_some().then_some("summarized"),
            }),
            effort: wish.effort.as_deref().map(effort).or(by_budget),
            max_tokens: limit.unwrap_or(MAX_TOKENS_ADAPTIVE),
            may_draw: false,
        }
    }

    /// `None` where the client's limit leaves no room for thoughts.
    fn enabled(wish: &ReasoningWish, limit: Option<u64>) -> Option<Self> {
        let wanted = wish.budget.unwrap_or_else(|| budget(wish.effort.as_deref())).max(LEAST);
        let budget_tokens = limit.map_or(wanted, |limit| wanted.min(limit.saturating_sub(1)));
        (budget_tokens >= LEAST).then(|| Self {
            thinking: Some(Thinking::Enabled { budget_tokens }),
            effort: None,
            max_tokens: limit.unwrap_or(budget_tokens.saturating_add(MAX_TOKENS)),
            may_draw: false,
        })
    }
}

fn budget(effort: Option<&str>) -> u64 {
    match effort {
        Some("minimal") => LEAST,
        Some("low") => 2048,
        Some("high") => 16_384,
        Some("xhigh") => 32_768,
        Some(_) | None => 8192,
    }
}

fn effort(effort: &str) -> &'static str {
    match effort {
        "minimal" | "low" => "low",
        "high" => "high",
        "xhigh" => "max",
        _ => "medium",
    }
}

fn may_think(conversation: &Conversation, turns: &[Turn<'_>]) -> bool {
    let forced = match &conversation.tool_choice {
        Some(ToolChoice::Required | ToolChoice::Named(_)) => !conversation.tools.is_empty(),
        Some(ToolChoice::Auto | ToolChoice::None) | None => false,
    };
    let begun = turns.last().is_some_and(Turn::is_the_models);
    let newest = turns.iter().rev().find(|turn| turn.is_the_models());
    let thoughtless =
        newest.is_some_and(|turn| turn.calls_tools() && !turn.content.first().is_some_and(Block::is_thought));
    !forced && !begun && !thoughtless
}

/// The version in a model's name: `claude-opus-4-7`, `claude-3-7-sonnet-20250219`; 0 where it tells none.
fn version(model: &str) -> (u64, u64) {
    let name = model.split_once("claude").map_or("", |(_, name)| name);
    let parts = name.split(|character: char| !character.is_ascii_alphanumeric());
    let short = parts.filter(|part| part.len() <= 2);
    let mut numbers = short.filter_map(|part| part.parse().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_from_a_models_name() {
        for (name, expected) in [
            ("claude-3-7-sonnet-20250219", (3, 7)),
            ("claude-opus-4-20250514", (4, 0)),
            ("anthropic/claude-haiku-4.5", (4, 5)),
            ("us.anthropic.claude-sonnet-4-6-20260101-v1:0", (4, 6)),
            ("claude-opus-5", (5, 0)),
            ("claude-sonnet-latest", (0, 0)),
            ("glm-4.7", (0, 0)),
        ] {
            assert_eq!(version(name), expected, "{name}");
        }
    }
}
