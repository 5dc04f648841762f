//! What plugins did, and how long it took.

use std::sync::OnceLock;
use std::time::Duration;

use metrics::{Counter, Histogram};

use understudy_messages::hooks::{Hook, HookResult};
use understudy_messages::ids::Name;
use understudy_messages::plugin::CallError;

use super::{HOOK_CALLS, HOOK_DROPPED, HOOK_DURATION, Telemetry};

/// What came of a handler's call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookOutcome {
    /// It had no opinion.
    Ok,
    /// It changed something.
    Modified,
    /// It refused.
    Blocked,
    /// Its code failed, or its answer was none.
    Error,
    /// It took too long.
    Timeout,
    /// It was not there to be called.
    Refused,
}

impl HookOutcome {
    /// Of a call's result.
    pub fn of(result: &Result<HookResult, CallError>) -> Self {
        use understudy_messages::hooks::RunVerdict;
        match result {
            Ok(HookResult::None | HookResult::Run(RunVerdict::Pass)) => Self::Ok,
            Ok(HookResult::Run(RunVerdict::Block { .. })) => Self::Blocked,
            Ok(HookResult::Tool(verdict)) if verdict.block => Self::Blocked,
            Ok(HookResult::Model(_) | HookResult::Prompt(_) | HookResult::Reply(_) | HookResult::Tool(_)) => {
                Self::Modified
            }
            Err(CallError::Failed(_) | CallError::Invalid) => Self::Error,
            Err(CallError::TimedOut) => Self::Timeout,
            Err(CallError::Gone | CallError::Cancelled) => Self::Refused,
        }
    }

    /// The label's spelling.
    pub const fn as_label(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Modified => "modified",
            Self::Blocked => "blocked",
            Self::Error => "error",
            Self::Timeout => "timeout",
            Self::Refused => "refused",
        }
    }
}

/// The handles of one handler, each resolved when it is first needed: most outcomes never come.
#[derive(Default)]
pub struct HandlerMetrics {
    duration: OnceLock<Histogram>,
    calls: [OnceLock<Counter>; 6],
}

impl Telemetry {
    /// A handler was called, whose handles these are. `plugin` comes from the configuration.
    pub fn hook_called(
        &self,
        handles: &HandlerMetrics,
        (hook, plugin): (Hook, &Name),
        outcome: HookOutcome,
        took: Duration,
    ) {
        let labels = [("hook", hook.as_label()), ("plugin", &**plugin)];
        let duration = || self.series.histogram(&HOOK_DURATION, &labels);
        handles.duration.get_or_init(duration).record(took);
        let labels = [labels[0], labels[1], ("outcome", outcome.as_label())];
        let calls = || self.series.counter(&HOOK_CALLS, &labels);
        handles.calls[outcome as usize].get_or_init(calls).increment(1);
    }

    /// An event was dropped: too many were at work.
    pub fn hook_dropped(&self, hook: Hook) {
        self.series
            .counter(&HOOK_DROPPED, &[("hook", hook.as_label())])
            .increment(1);
    }
}
