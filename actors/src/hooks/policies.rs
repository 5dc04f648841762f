//! Trusted policies of tools: they judge a call before any handler does (contract §3.2). Pure.

use std::sync::Arc;

use serde_json::{Map, Value};
use understudy_messages::hooks::{HookResult, ToolFate, ToolVerdict};
use understudy_messages::ids::Name;
use understudy_messages::plugin::CallError;

use super::merge::{Answer, BLOCKED};

/// A call on its way past the policies, each of which sees the arguments that the one before has left.
#[derive(Debug)]
pub(super) struct Passing {
    params: Arc<Map<String, Value>>,
    changed: bool,
    approval: Option<Answer<Value>>,
}

impl Passing {
    /// A call with the arguments that the model gave it.
    pub(super) const fn new(params: Arc<Map<String, Value>>) -> Self {
        Self {
            params,
            changed: false,
            approval: None,
        }
    }

    /// The arguments as they are now.
    pub(super) const fn params(&self) -> &Arc<Map<String, Value>> {
        &self.params
    }

    /// A policy has answered: a refusal ends it. The first approval that is asked for stands, and with it the arguments.
    pub(super) fn judged(&mut self, plugin: &Name, answer: HookResult) -> Result<(), ToolFate> {
        let verdict = match answer {
            HookResult::None => return Ok(()),
            HookResult::Tool(verdict) => verdict,
            HookResult::Model(_) | HookResult::Prompt(_) | HookResult::Run(_) | HookResult::Reply(_) => {
                return Err(unjudged(plugin, &CallError::Invalid));
            }
        };
        let ToolVerdict {
            params,
            block,
            block_reason,
            require_approval,
        } = verdict;
        if block {
            return Err(ToolFate::Blocked {
                plugin: plugin.clone(),
                reason: block_reason.unwrap_or_else(|| BLOCKED.to_owned()),
                veto: true,
            });
        }
        if self.approval.is_some() {
            return Ok(());
        }
        if let Some(params) = params {
            Arc::make_mut(&mut self.params).extend(params);
            self.changed = true;
        }
        self.approval = require_approval.map(|request| (plugin.clone(), request));
        Ok(())
    }

    /// All have answered: the approval that has to be asked for first, else the arguments that handlers are shown, and whether
    /// they are others than the model gave.
    pub(super) fn passed(self) -> Result<(Arc<Map<String, Value>>, bool), ToolFate> {
        match self.approval {
            Some((plugin, request)) => Err(ToolFate::Approval {
                plugin,
                request,
                params: self.changed.then(|| Map::clone(&self.params)),
            }),
            None => Ok((self.params, self.changed)),
        }
    }
}

/// A policy that could not judge refuses, in fixed words.
pub(super) fn unjudged(plugin: &Name, error: &CallError) -> ToolFate {
    let refused = super::Refused {
        plugin: plugin.clone(),
        error: Some(error.clone()),
    };
    refused.into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap_or_default()
    }

    fn verdict(value: Value) -> HookResult {
        HookResult::of_policy(Some(value)).expect("a verdict")
    }

    fn passing() -> Passing {
        Passing::new(Arc::new(map(json!({ "a": 1, "b": 1 }))))
    }

    #[test]
    fn each_policy_changes_what_the_one_before_has_left() {
        let mut call = passing();
        call.judged(&"p".into(), verdict(json!({ "params": { "a": 2 } })))
            .expect("passes");
        assert_eq!(**call.params(), map(json!({ "a": 2, "b": 1 })));
        call.judged(&"q".into(), verdict(json!({ "params": { "b": 3 } })))
            .expect("passes");
        call.judged(&"r".into(), HookResult::None).expect("passes");
        let (params, changed) = call.passed().expect("passes");
        assert_eq!((&*params, changed), (&map(json!({ "a": 2, "b": 3 })), true));
        assert!(!passing().passed().expect("passes").1);
    }

    #[test]
    fn the_first_approval_stands_and_a_later_denial_still_ends_it() {
        let mut call = passing();
        let asks = |title: &str| verdict(json!({ "requireApproval": { "title": title }, "params": { "a": title } }));
        call.judged(&"p".into(), asks("first")).expect("passes");
        call.judged(&"q".into(), asks("second")).expect("passes");
        let fate = ToolFate::Approval {
            plugin: "p".into(),
            request: json!({ "title": "first" }),
            params: Some(map(json!({ "a": "first", "b": 1 }))),
        };
        let denied = Passing {
            params: call.params.clone(),
            approval: call.approval.clone(),
            changed: true,
        };
        assert_eq!(call.passed(), Err(fate));
        let mut denied = denied;
        let blocked = denied.judged(&"r".into(), verdict(json!({ "allow": false, "reason": "no" })));
        let expected = ToolFate::Blocked {
            plugin: "r".into(),
            reason: "no".to_owned(),
            veto: true,
        };
        assert_eq!(blocked, Err(expected));
    }

    #[test]
    fn an_answer_of_another_hook_is_no_verdict() {
        let answer = HookResult::Prompt(Default::default());
        let Err(ToolFate::Blocked { reason, veto, .. }) = passing().judged(&"p".into(), answer) else {
            panic!("it blocks");
        };
        assert_eq!((&*reason, veto), ("Blocked: the guard p could not judge.", false));
    }
}
