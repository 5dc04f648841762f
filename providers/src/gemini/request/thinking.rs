//! How much a Gemini model is to think: a level, or a budget of tokens for the models that know no levels.

use serde_json::{Value, json};
use understudy_messages::conversation::ReasoningWish;

/// Whether the model is of a generation before the third: it knows budgets only, and does without signatures.
pub(super) fn is_older(model: &str) -> bool {
    ["gemini-1", "gemini-2"].iter().any(|older| model.starts_with(older))
}

/// The configuration for a wish; `None` where it says nothing of how much. A budget is taken by every model, a word for
/// the effort becomes what the model knows.
pub(super) fn config(wish: &ReasoningWish, model: &str) -> Option<Value> {
    let effort = wish.effort.as_deref();
    let thinks = wish.budget != Some(0) && effort != Some("none");
    let (key, amount) = match (wish.budget, effort) {
        (Some(budget), _) => ("thinkingBudget", json!(at_least(budget, model))),
        (None, Some(effort)) if is_older(model) => ("thinkingBudget", json!(at_least(budget_of(effort), model))),
        (None, Some(effort)) => ("thinkingLevel", json!(level_of(effort, model))),
        (None, None) => return wish.summary.is_some().then(|| json!({"includeThoughts": true})),
    };
    Some(json!({key: amount, "includeThoughts": thinks}))
}

fn budget_of(effort: &str) -> u64 {
    match effort {
        "none" => 0,
        "minimal" | "low" => 1_024,
        "medium" => 8_192,
        _ => 24_576,
    }
}

/// The larger models cannot be kept from thinking.
fn at_least(budget: u64, model: &str) -> u64 {
    const LEAST: u64 = 128;
    if model.contains("pro") {
        budget.max(LEAST)
    } else {
        budget
    }
}

fn level_of(effort: &str, model: &str) -> &'static str {
    match effort {
        "none" | "minimal" if model.contains("flash") => "minimal",
        "none" | "minimal" | "low" => "low",
        "medium" => "medium",
        _ => "high",
    }
}
