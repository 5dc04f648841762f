//! What those who work on a turn ask of its hooks.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};
use understudy_messages::hooks::{
    BlockScope, Hook, HookContext, HookEvent, HookResult, PromptContribution, RunBlock, RunVerdict, SettledTools,
    ToolFate, ToolVerdict,
};
use understudy_messages::lease::TurnLease;
use understudy_messages::plugin::{Answering, CallError, Contributions, TurnHooks};

use super::merge;
use super::policies::{Passing, unjudged};
use super::runner::{Hooks, Refused};

impl TurnHooks for Hooks {
    fn fires(&self, hook: Hook) -> bool {
        Self::fires(self, hook)
    }

    fn fire(&self, event: HookEvent, context: Arc<HookContext>, turn: TurnLease) {
        Self::fire(self, event, context, Some(turn));
    }

    fn judge<'a>(&'a self, event: HookEvent, context: Arc<HookContext>) -> Answering<'a, ToolFate> {
        Box::pin(async move { self.fate(event, &context).await.unwrap_or_else(|refused| refused) })
    }

    fn contributions<'a>(&'a self, event: HookEvent, context: Arc<HookContext>) -> Answering<'a, Contributions> {
        Box::pin(async move { self.modify(event, &context, contribution, |_| false).await })
    }

    fn enrichments<'a>(
        &'a self,
        event: HookEvent,
        context: Arc<HookContext>,
        tools: &'a dyn Fn() -> Option<SettledTools>,
    ) -> Answering<'a, Contributions> {
        Box::pin(self.enriched(event, context, tools))
    }

    fn permit<'a>(&'a self, event: HookEvent, context: Arc<HookContext>) -> Answering<'a, Result<(), RunBlock>> {
        Box::pin(async move {
            let take = |result| match result {
                HookResult::Run(verdict) => Some(verdict),
                HookResult::None => None,
                HookResult::Model(_) | HookResult::Prompt(_) | HookResult::Reply(_) | HookResult::Tool(_) => {
                    Some(RunVerdict::Block {
                        reason: "invalid decision".to_owned(),
                        message: None,
                        category: None,
                        scope: BlockScope::Turn,
                        status: None,
                    })
                }
            };
            let blocks = |verdict: &RunVerdict| matches!(verdict, RunVerdict::Block { .. });
            let block = match self.gate(event, &context, take, blocks).await {
                Ok(answers) => merge::run(answers),
                Err(refused) => Some(refused.into()),
            };
            block.map_or(Ok(()), Err)
        })
    }
}

impl Hooks {
    /// What becomes of a call: by the policies, then by the handlers, which see the arguments that policies have left.
    async fn fate(&self, event: HookEvent, context: &Arc<HookContext>) -> Result<ToolFate, ToolFate> {
        self.refuse_without_guards(Hook::BeforeToolCall)?;
        let (event, params, changed) = self.past_policies(event, context).await?;
        let take = |result| match result {
            HookResult::Tool(verdict) => Some(Ok(verdict)),
            HookResult::None => None,
            HookResult::Model(_) | HookResult::Prompt(_) | HookResult::Reply(_) | HookResult::Run(_) => Some(Err(())),
        };
        let ends = |verdict: &Result<_, ()>| verdict.as_ref().map_or(true, |verdict: &ToolVerdict| verdict.block);
        let answers = self.gate(event, context, take, ends).await?;
        let read = |(plugin, verdict): (_, Result<_, ()>)| match verdict {
            Ok(verdict) => Ok((plugin, verdict)),
            Err(()) => Err(unjudged(&plugin, &CallError::Invalid)),
        };
        let answers = answers.into_iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let mut fate = merge::tool(&params, answers);
        if let ToolFate::Allowed { params: rest } | ToolFate::Approval { params: rest, .. } = &mut fate
            && changed
        {
            rest.get_or_insert_with(|| Map::clone(&params));
        }
        Ok(fate)
    }

    /// The event as policies have left it, its arguments, and whether they are others than before.
    async fn past_policies(&self, event: HookEvent, context: &Arc<HookContext>) -> Result<Passed, ToolFate> {
        let mut passing = Passing::new(event.params().cloned().unwrap_or_default());
        let policies = self.table().policies();
        for policy in policies {
            let told = Arc::new(event.with_params(passing.params()));
            let answer = self.call(policy, &told, context, None).await;
            let answer = answer.map_err(|error| unjudged(&policy.plugin, &error))?;
            passing.judged(&policy.plugin, answer)?;
        }
        let (params, changed) = passing.passed()?;
        let event = if changed { event.with_params(&params) } else { event };
        Ok((event, params, changed))
    }

    async fn enriched(
        &self,
        event: HookEvent,
        context: Arc<HookContext>,
        tools: &dyn Fn() -> Option<SettledTools>,
    ) -> Contributions {
        let all = self.table().of(event.hook()).iter();
        let mut handlers = all.filter(|handler| handler.authority).peekable();
        if handlers.peek().is_none() {
            return Vec::new();
        }
        let Some(tools) = tools().map(Arc::new) else {
            tracing::warn!("which tools are left is not known: handlers that need to know are not asked");
            return Vec::new();
        };
        let (event, mut answers) = (Arc::new(event), Vec::new());
        for handler in handlers {
            let answer = self.call(handler, &event, &context, Some(&tools)).await;
            if let Some(answer) = answer.ok().and_then(contribution) {
                answers.push((handler.plugin.clone(), only_context(answer)));
            }
        }
        answers
    }
}

/// A call that all policies let pass.
type Passed = (HookEvent, Arc<Map<String, Value>>, bool);

fn contribution(result: HookResult) -> Option<PromptContribution> {
    match result {
        HookResult::Prompt(contribution) => Some(contribution),
        HookResult::None | HookResult::Model(_) | HookResult::Run(_) | HookResult::Reply(_) | HookResult::Tool(_) => {
            None
        }
    }
}

/// Whoever is asked last may change nothing that was settled before.
fn only_context(answer: PromptContribution) -> PromptContribution {
    PromptContribution {
        prepend_context: answer.prepend_context,
        append_context: answer.append_context,
        marks: answer.marks,
        ..PromptContribution::default()
    }
}

impl From<Refused> for RunBlock {
    /// A guard that is not there may be back soon: 503.
    fn from(refused: Refused) -> Self {
        Self {
            message: Some(refused.to_string()),
            scope: BlockScope::Turn,
            status: refused.error.is_none().then_some(503),
            plugin: refused.plugin,
        }
    }
}

impl From<Refused> for ToolFate {
    fn from(refused: Refused) -> Self {
        Self::Blocked {
            reason: refused.to_string(),
            plugin: refused.plugin,
            veto: false,
        }
    }
}

impl fmt::Display for Refused {
    /// Fixed words: what a plugin's code said stays in the log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.error {
            Some(CallError::Failed(_) | CallError::TimedOut | CallError::Invalid | CallError::Cancelled) => {
                write!(f, "Blocked: the guard {} could not judge.", self.plugin)
            }
            Some(CallError::Gone) | None => write!(f, "Blocked: the required guard {} is not serving.", self.plugin),
        }
    }
}
