//! What the thread of one plugin knows: its calls, its timers, what it registered, and when its code must end.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::oneshot;
use understudy_messages::clock::{Clock, Instant};
use understudy_messages::hooks::HookEvent;
use understudy_messages::ids::Name;
use understudy_messages::origin::OriginToken;
use understudy_messages::plugin::CallError;

use super::fetch::Fetching;
use super::files::Files;
use super::shared::{Interest, Shared};
use crate::Registration;
use crate::log::PluginLog;

/// For so long may code go on that no call owns: timers, and what follows an `await`.
const LONGEST_BACKGROUND: Duration = Duration::from_secs(5);

/// After so long it ends as soon as somebody has stopped waiting for any call.
const GRACE: Duration = Duration::from_millis(100);

/// The largest answer that is read.
const LARGEST_ANSWER: usize = 4 * 1024 * 1024;

/// As many timers may run.
const MOST_TIMERS: usize = 10_000;

/// An answer on its way to whoever called.
pub(super) type Reply = oneshot::Sender<Result<Option<Value>, CallError>>;

/// A call that runs.
pub(super) struct Pending {
    pub(super) interest: Interest,
    pub(super) reply: Reply,
    /// The event, where its conversation may be seen.
    pub(super) event: Option<Arc<HookEvent>>,
}

/// All of it. Never borrowed across code of the plugin.
pub(super) struct State {
    pub(super) id: Name,
    pub(super) log: PluginLog,
    pub(super) clock: Clock,
    pub(super) files: Files,
    pub(super) fetching: Fetching,
    pub(super) shared: Arc<Shared>,
    pub(super) calls: RefCell<HashMap<u64, Pending>>,
    pub(super) timers: Timers,
    pub(super) registration: RefCell<Registration>,
    pub(super) loaded: RefCell<Option<oneshot::Sender<Result<Registration, String>>>>,
    pub(super) watch: Watch,
}

impl State {
    pub(super) fn new(
        id: Name,
        clock: Clock,
        files: Files,
        fetching: Fetching,
        shared: Arc<Shared>,
        loaded: oneshot::Sender<Result<Registration, String>>,
    ) -> Self {
        Self {
            log: PluginLog::new(id.clone(), clock.clone()),
            id,
            clock,
            files,
            fetching,
            shared,
            calls: RefCell::default(),
            timers: Timers::default(),
            registration: RefCell::default(),
            loaded: RefCell::new(Some(loaded)),
            watch: Watch::default(),
        }
    }

    /// Answers a call that still runs.
    pub(super) fn settle(&self, call: u64, answer: Result<Option<Value>, CallError>) {
        let pending = self.calls.borrow_mut().remove(&call);
        if let Some(pending) = pending {
            // nobody waits any longer: that is no loss
            drop(pending.reply.send(answer));
        }
    }

    /// The calls on whose behalf code runs: its owner, else all that are at work.
    pub(super) fn at_work(&self) -> Vec<Interest> {
        match self.watch.owner() {
            Some(owner) => vec![owner],
            None => self.calls.borrow().values().map(|call| call.interest.clone()).collect(),
        }
    }

    /// What the code that runs may name itself by: its owner's name, else that of the oldest call at work.
    pub(super) fn origin(&self) -> Option<OriginToken> {
        let token = |call: &Interest| call.origin.as_ref()?.token();
        if let Some(owner) = self.watch.owner() {
            return token(&owner);
        }
        let calls = self.calls.borrow();
        let oldest = calls
            .iter()
            .filter(|(_, call)| !call.interest.is_over())
            .min_by_key(|(number, _)| **number);
        oldest.and_then(|(_, call)| token(&call.interest))
    }

    /// Ends the loading, well or not.
    pub(super) fn finish_loading(&self, failure: Option<String>) {
        let Some(loaded) = self.loaded.borrow_mut().take() else {
            return;
        };
        let result = match failure {
            None => Ok(self.registration.take()),
            Some(words) => Err(words),
        };
        drop(loaded.send(result));
    }

    /// Whether the code that runs has to end now.
    pub(super) fn must_end(&self) -> bool {
        let end = self.shared.closed.is_cancelled() || self.watch.is_over(|background| self.nobody_waits(background));
        if end {
            self.watch.interrupted.set(true);
        }
        end
    }

    /// Of background code it is not known whose it is.
    fn nobody_waits(&self, begun: Begun) -> bool {
        let busy = Clock::real().now().duration_since(begun.at);
        let given_up = self.shared.given_up_ever() != begun.given_up;
        let all_over = match self.calls.try_borrow() {
            Ok(calls) => !calls.is_empty() && calls.values().all(|call| call.interest.is_over()),
            Err(_) => false,
        };
        busy > LONGEST_BACKGROUND || (given_up && busy > GRACE) || all_over
    }
}

/// Reads what a call answered; `None`: nothing.
pub(super) fn answer(kind: &str, text: &str) -> Result<Option<Value>, CallError> {
    match kind {
        "answer" if text.is_empty() => Ok(None),
        "answer" if text.len() > LARGEST_ANSWER => Err(CallError::failed("its answer is larger than 4 MiB")),
        "answer" => serde_json::from_str(text).map(Some).map_err(|_| CallError::Invalid),
        "invalid" => Err(CallError::Invalid),
        _ => Err(CallError::failed(text)),
    }
}

/// When code that no call owns began, and how many calls had been given up until then.
#[derive(Clone, Copy)]
pub(super) struct Begun {
    at: Instant,
    given_up: u64,
}

/// Whose code runs.
#[derive(Default)]
pub(super) struct Watch {
    owner: RefCell<Option<Interest>>,
    begun: Cell<Option<Begun>>,
    /// Whether code was interrupted since this was last taken.
    pub(super) interrupted: Cell<bool>,
}

impl Watch {
    /// From here on code runs that `owner` waits for.
    pub(super) fn own(&self, owner: Option<Interest>) {
        self.owner.replace(owner);
    }

    /// Who waits for the code that runs, if it is known.
    fn owner(&self) -> Option<Interest> {
        self.owner.borrow().clone()
    }

    /// Code runs; whether none did before.
    pub(super) fn begin(&self, shared: &Shared) -> bool {
        let fresh = self.begun.get().is_none();
        if fresh {
            self.begun.set(Some(Begun {
                at: Clock::real().now(),
                given_up: shared.given_up_ever(),
            }));
        }
        fresh
    }

    /// Nothing is left to run.
    pub(super) fn rest(&self) {
        self.begun.set(None);
    }

    fn is_over(&self, background: impl Fn(Begun) -> bool) -> bool {
        match self.owner.try_borrow().as_deref() {
            Ok(Some(owner)) => owner.is_over(),
            Ok(None) | Err(_) => self.begun.get().is_some_and(background),
        }
    }
}

/// The timers that run.
#[derive(Default)]
pub(super) struct Timers {
    due: RefCell<BTreeSet<(Instant, u64)>>,
    at: RefCell<HashMap<u64, Instant>>,
}

impl Timers {
    /// Starts one; `false` when there are too many.
    pub(super) fn start(&self, timer: u64, at: Instant) -> bool {
        let room = self.at.borrow().len() < MOST_TIMERS;
        if room {
            self.stop(timer);
            self.at.borrow_mut().insert(timer, at);
            self.due.borrow_mut().insert((at, timer));
        }
        room
    }

    pub(super) fn stop(&self, timer: u64) {
        if let Some(at) = self.at.borrow_mut().remove(&timer) {
            self.due.borrow_mut().remove(&(at, timer));
        }
    }

    /// When the next one rings.
    pub(super) fn next(&self) -> Option<Instant> {
        self.due.borrow().first().map(|(at, _)| *at)
    }

    /// Takes one whose time has come.
    pub(super) fn take(&self, now: Instant) -> Option<u64> {
        let (at, timer) = *self.due.borrow().first()?;
        if at > now {
            return None;
        }
        self.stop(timer);
        Some(timer)
    }
}
