//! What a trusted policy of tools may answer, read strictly: an answer that is not wholly understood is none.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Hook, HookResult, InvalidResult, ToolVerdict};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Answer {
    allow: Option<bool>,
    reason: Option<String>,
    block: Option<bool>,
    block_reason: Option<String>,
    params: Option<Map<String, Value>>,
    require_approval: Option<Value>,
}

impl HookResult {
    /// Reads what a policy of another language answered. Nothing and `null` are no opinion, as is `allow: true`; `allow: false`
    /// and `block: true` both refuse.
    ///
    /// # Errors
    /// [`InvalidResult`]: that is a refusal.
    pub fn of_policy(answer: Option<Value>) -> Result<Self, InvalidResult> {
        let Some(answer) = answer.filter(|answer| !answer.is_null()) else {
            return Ok(Self::None);
        };
        let hook = Hook::BeforeToolCall;
        // a list would be read as the members of an object, in their order
        let object = Some(answer).filter(Value::is_object).ok_or(InvalidResult { hook })?;
        let answer: Answer = serde_json::from_value(object).map_err(|_| InvalidResult { hook })?;
        Ok(Self::Tool(ToolVerdict {
            params: answer.params,
            block: answer.allow == Some(false) || answer.block == Some(true),
            block_reason: answer.block_reason.or(answer.reason),
            require_approval: answer.require_approval,
        }))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_policy_denies_in_two_ways_and_says_why() {
        for denial in [
            json!({ "allow": false, "reason": "no" }),
            json!({ "block": true, "blockReason": "no" }),
            json!({ "allow": true, "block": true, "reason": "no" }),
        ] {
            let Ok(HookResult::Tool(verdict)) = HookResult::of_policy(Some(denial.clone())) else {
                panic!("{denial}");
            };
            assert_eq!((verdict.block, verdict.block_reason.as_deref()), (true, Some("no")));
        }
    }

    #[test]
    fn a_policy_without_an_opinion_allows() {
        for silent in [None, Some(json!(null))] {
            assert_eq!(HookResult::of_policy(silent), Ok(HookResult::None));
        }
        let allowed = HookResult::of_policy(Some(json!({ "allow": true })));
        assert_eq!(allowed, Ok(HookResult::Tool(ToolVerdict::default())));
    }

    #[test]
    fn an_answer_that_is_not_wholly_understood_is_none() {
        for unread in [
            json!(true),
            json!("deny"),
            json!({ "allow": "no" }),
            json!({ "deny": true }),
            json!([true, null, null, null, null, null]),
            json!({ "allow": true, "params": [] }),
        ] {
            assert!(HookResult::of_policy(Some(unread.clone())).is_err(), "{unread}");
        }
    }
}
