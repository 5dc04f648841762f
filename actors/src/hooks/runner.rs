//! Calls handlers: in order or all at once, each within its deadline.
//!
//! A deadline ends the wait *and* cancels the handler's work. What a handler's failure means is the hook's row: a gate
//! refuses, everything else goes on without it. A failure is one log line with nothing in it that a provider or client said.

use std::fmt;
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use understudy_messages::clock::{Clock, Instant};
use understudy_messages::hooks::{
    Hook, HookContext, HookEvent, HookInvocation, HookResult, SettledTools, ToolAuthority,
};
use understudy_messages::ids::Name;
use understudy_messages::lease::TurnLease;
use understudy_messages::plugin::{CallError, CallHook};
use understudy_plugins::registration::QuickHandler;

use super::merge::Answer;
use super::table::{Call, HookTable, Listed};
use crate::supervision::Tasks;
use crate::telemetry::{HookOutcome, Telemetry};

/// How many fired events are at work at one time.
pub const LANE_WIDTH: usize = 16;
/// How many more may wait; what comes then is dropped and said so.
pub const LANE_QUEUE: usize = 256;

/// The hooks of one generation, for everyone who works on its turns.
#[derive(Clone)]
pub struct Hooks {
    table: Arc<HookTable>,
    lane: Arc<Lane>,
    clock: Clock,
    tasks: Tasks,
    telemetry: Arc<Telemetry>,
}

/// The bounded lane of events that nobody waits for.
struct Lane {
    places: Semaphore,
    width: Semaphore,
}

/// A gate's refusal, or the answers of its handlers.
pub type Gated<T> = Result<Vec<Answer<T>>, Refused>;

/// A handler of a gate failed, or a guard that ought to be there is not: what it would have judged is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Whose handler.
    pub plugin: Name,
    /// What was wrong; `None`: the guard is not there.
    pub error: Option<CallError>,
}

impl Hooks {
    /// The hooks of `table`.
    pub fn new(table: Arc<HookTable>, clock: Clock, tasks: Tasks, telemetry: Arc<Telemetry>) -> Self {
        Self {
            table,
            lane: Arc::new(Lane {
                places: Semaphore::new(LANE_WIDTH + LANE_QUEUE),
                width: Semaphore::new(LANE_WIDTH),
            }),
            clock,
            tasks,
            telemetry,
        }
    }

    /// Nobody listens.
    pub fn nobody(clock: Clock, tasks: Tasks, telemetry: Arc<Telemetry>) -> Self {
        Self::new(Arc::default(), clock, tasks, telemetry)
    }

    /// These hooks for an agent that lists its plugins; they share what is bounded.
    #[must_use]
    pub fn only(&self, plugins: &[Name]) -> Self {
        Self {
            table: Arc::new(self.table.only(plugins)),
            ..self.clone()
        }
    }

    /// Who is called.
    pub fn table(&self) -> &Arc<HookTable> {
        &self.table
    }

    /// Whether anything happens at `hook`: without, no event has to be made.
    pub fn fires(&self, hook: Hook) -> bool {
        self.table.fires(hook)
    }

    /// Calls one handler after the other on the same event. One that fails has no opinion.
    ///
    /// `take` picks the answer out of a result; `last` says after which answer nobody else is asked.
    pub async fn modify<T>(
        &self,
        event: HookEvent,
        context: &Arc<HookContext>,
        take: impl Fn(HookResult) -> Option<T>,
        last: impl Fn(&T) -> bool,
    ) -> Vec<Answer<T>> {
        let (hook, tool) = (event.hook(), context.tool_name.clone());
        let event = Arc::new(event);
        let mut answers = Vec::new();
        for handler in self.about(hook, tool.as_deref()) {
            let Ok(result) = self.call(handler, &event, context, None).await else {
                continue;
            };
            if let Some(answer) = take(result) {
                let ends = last(&answer);
                answers.push((handler.plugin.clone(), answer));
                if ends {
                    break;
                }
            }
        }
        answers
    }

    /// Calls one handler after the other on the same event; one that fails refuses, as does a guard that is not there.
    pub async fn gate<T>(
        &self,
        event: HookEvent,
        context: &Arc<HookContext>,
        take: impl Fn(HookResult) -> Option<T>,
        last: impl Fn(&T) -> bool,
    ) -> Gated<T> {
        let (hook, tool) = (event.hook(), context.tool_name.clone());
        self.refuse_without_guards(hook)?;
        let event = Arc::new(event);
        let mut answers = Vec::new();
        for handler in self.about(hook, tool.as_deref()) {
            let plugin = || handler.plugin.clone();
            let result = self.call(handler, &event, context, None).await;
            let result = result.map_err(|error| Refused {
                plugin: plugin(),
                error: Some(error),
            })?;
            if let Some(answer) = take(result) {
                let ends = last(&answer);
                answers.push((plugin(), answer));
                if ends {
                    break;
                }
            }
        }
        Ok(answers)
    }

    /// Calls all handlers at once and waits for them. Those that failed are told, by plugin.
    pub async fn observe(&self, event: HookEvent, context: Arc<HookContext>) -> Vec<(Name, CallError)> {
        self.observed(&Arc::new(event), &context, |_| true).await
    }

    async fn observed(
        &self,
        event: &Arc<HookEvent>,
        context: &Arc<HookContext>,
        whom: impl Fn(&&Listed) -> bool,
    ) -> Vec<(Name, CallError)> {
        let all = self.about(event.hook(), context.tool_name.as_deref());
        let calls = all
            .filter(whom)
            .map(|handler| async { (&handler.plugin, self.call(handler, event, context, None).await) });
        let ended = futures::future::join_all(calls).await.into_iter();
        let failed = ended.filter_map(|(plugin, ended)| Some((plugin.clone(), ended.err()?)));
        failed.collect()
    }

    /// Calls all handlers, and nobody waits for them: quick ones here and now, the others at once. When too many are at work these
    /// are not told. Its turn is held until they have ended: whom it told of its beginning it tells of its end.
    pub fn fire(&self, event: HookEvent, context: Arc<HookContext>, turn: Option<TurnLease>) {
        let (hook, event) = (event.hook(), Arc::new(event));
        let mut others = false;
        for handler in self.about(hook, context.tool_name.as_deref()) {
            match &handler.call {
                Call::Quick(quick) => drop(self.call_quick(handler, quick, &event, &context, None)),
                Call::Instance(..) => others = true,
            }
        }
        if others {
            self.fire_beside(event, context, turn);
        }
    }

    /// Calls those handlers that are called by message, in a task.
    fn fire_beside(&self, event: Arc<HookEvent>, context: Arc<HookContext>, turn: Option<TurnLease>) {
        let hook = event.hook();
        if self
            .lane
            .places
            .try_acquire()
            .map(tokio::sync::SemaphorePermit::forget)
            .is_err()
        {
            tracing::warn!(hook = hook.as_label(), "too many hook events are waiting: dropped");
            self.telemetry.hook_dropped(hook);
            return;
        }
        let hooks = self.clone();
        self.tasks.spawn("hook", async move {
            let place = hooks.lane.width.acquire().await;
            let by_message = |handler: &&Listed| matches!(handler.call, Call::Instance(..));
            let _logged = hooks.observed(&event, &context, by_message).await;
            drop((place, turn));
            hooks.lane.places.add_permits(1);
        });
    }

    /// A guard that ought to be there and is not refuses.
    pub(super) fn refuse_without_guards(&self, hook: Hook) -> Result<(), Refused> {
        let Some(plugin) = self.table.missing(hook).cloned() else {
            return Ok(());
        };
        tracing::warn!(hook = hook.as_label(), %plugin, "a required guard is not there: refused");
        Err(Refused { plugin, error: None })
    }

    fn about<'a>(&'a self, hook: Hook, tool: Option<&'a str>) -> impl Iterator<Item = &'a Listed> {
        let all = self.table.of(hook).iter();
        all.filter(move |handler| handler.is_about(tool) && !handler.authority)
    }

    /// Calls one handler or policy within its deadline; `tools` are what it gets an authority over.
    pub(super) async fn call(
        &self,
        handler: &Listed,
        event: &Arc<HookEvent>,
        context: &Arc<HookContext>,
        tools: Option<&Arc<SettledTools>>,
    ) -> Result<HookResult, CallError> {
        let began = self.clock.now();
        let result = match &handler.call {
            Call::Quick(quick) => return self.call_quick(handler, quick, event, context, tools),
            Call::Instance(port, number) => {
                handler.count();
                // dropped when the wait ends, and with it the handler's work and what it holds
                let cancel = CancellationToken::new();
                let _cancels = cancel.clone().drop_guard();
                let call = CallHook {
                    handler: *number,
                    event: event.clone(),
                    context: held(event.hook(), context, tools, || cancel.clone()),
                    conversation: handler.conversation,
                    cancel,
                };
                let answered = self.clock.timeout_at(began + handler.deadline, port.send(call)).await;
                match answered {
                    Ok(Ok(result)) => result,
                    Ok(Err(_mailbox)) => Err(CallError::Gone),
                    Err(_elapsed) => Err(CallError::TimedOut),
                }
            }
        };
        self.called(handler, event.hook(), began, &result);
        result
    }

    /// Calls a quick handler, here and now.
    fn call_quick(
        &self,
        handler: &Listed,
        quick: &QuickHandler,
        event: &Arc<HookEvent>,
        context: &Arc<HookContext>,
        tools: Option<&Arc<SettledTools>>,
    ) -> Result<HookResult, CallError> {
        let (hook, began) = (event.hook(), self.clock.now());
        handler.count();
        let narrow = if handler.conversation { None } else { event.narrow() };
        let mut over: Option<CancellationToken> = None;
        let context = held(hook, context, tools, || over.get_or_insert_default().clone());
        let _over = over.map(CancellationToken::drop_guard);
        let result = run_quick(|| quick(narrow.as_ref().unwrap_or(event), &context));
        self.called(handler, hook, began, &result);
        result
    }

    /// Books a call that has ended.
    fn called(&self, handler: &Listed, hook: Hook, began: Instant, result: &Result<HookResult, CallError>) {
        let took = self.clock.now().duration_since(began);
        self.telemetry
            .hook_called(&handler.metrics, (hook, &handler.plugin), HookOutcome::of(result), took);
        if let Err(error) = result {
            let policy = handler.policy.as_deref();
            tracing::warn!(hook = hook.as_label(), policy, plugin = %handler.plugin, %error, ?took, "hook handler failed");
        }
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hooks")
    }
}

/// The context of one call: where a prompt is built, with what the handler may hold until `over` is cancelled.
fn held(
    hook: Hook,
    context: &Arc<HookContext>,
    tools: Option<&Arc<SettledTools>>,
    over: impl FnOnce() -> CancellationToken,
) -> Arc<HookContext> {
    if hook != Hook::BeforePromptBuild {
        return context.clone();
    }
    let call = HookInvocation::new(over());
    Arc::new(HookContext {
        tool_authority: tools.map(|tools| ToolAuthority::new(tools.clone(), call.clone())),
        hook_invocation: Some(call),
        ..HookContext::clone(context)
    })
}

/// A handler on this thread: its panic is its own failure.
fn run_quick(handler: impl FnOnce() -> Result<HookResult, String>) -> Result<HookResult, CallError> {
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(handler));
    match caught {
        Ok(result) => result.map_err(|words| CallError::failed(&words)),
        Err(_panic) => Err(CallError::failed("panicked")),
    }
}

#[cfg(test)]
mod tests;
