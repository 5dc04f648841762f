//! The thread of one plugin: it owns the engine, and all code of the plugin runs on it.

use std::cell::RefCell;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::Either;
use futures::stream::FuturesUnordered;
use rquickjs::context::EvalOptions;
use rquickjs::function::IntoArgs;
use rquickjs::{Context, Ctx, Exception, Function, Object, Persistent, Runtime, Value};
use tokio::sync::mpsc;
use tracing::Level;
use understudy_messages::clock::Clock;
use understudy_messages::context::CallEngine;
use understudy_messages::hooks::wire::Field;
use understudy_messages::origin::Origin;
use understudy_messages::plugin::{CallError, CallHook, CallTool};
use understudy_messages::service::{CallRoute, CallService};

use super::fetch::Fetched;
use super::files::Files;
use super::host::host;
use super::modules::{Modules, PRELUDE, Sources};
use super::shared::Interest;
use super::state::{Pending, Reply, State};

/// How deep calls may nest, in bytes. The thread's own stack is larger: ours runs on top.
const STACK: usize = 512 * 1024;

/// After so long, calls that wait are looked at, though jobs are left.
const SLICE: Duration = Duration::from_millis(20);

/// As many calls may run at the same time.
const MOST_CALLS: usize = 1024;

/// One call, for the thread.
pub(super) struct Order {
    pub(super) number: u64,
    pub(super) interest: Interest,
    pub(super) work: Work,
    pub(super) reply: Reply,
}

/// What is to be done.
pub(super) enum Work {
    Hook(CallHook),
    Tool(CallTool),
    Service(CallService),
    Route(CallRoute),
    Engine(CallEngine),
}

impl Work {
    /// What it may name itself by.
    pub(super) fn origin(&self) -> Option<Origin> {
        match self {
            Self::Hook(call) => call.context.origin.clone(),
            Self::Tool(call) => call.context.origin.clone(),
            Self::Engine(call) => call.context.origin.clone(),
            Self::Route(call) => call.request.origin.clone(),
            Self::Service(_) => None,
        }
    }
}

/// What is to be loaded.
pub(super) struct Source {
    pub(super) folder: String,
    pub(super) entry: String,
    pub(super) settings: String,
    pub(super) memory_limit: usize,
}

/// The engine. Fields are dropped in their order: what is held of the plugin goes before what it lives in.
struct Engine {
    prelude: Prelude,
    context: Context,
    runtime: Runtime,
    state: Rc<State>,
    rejected: Rc<RefCell<Vec<(u64, String)>>>,
}

/// The functions of the prelude.
struct Prelude {
    begin: Persistent<Function<'static>>,
    call: Persistent<Function<'static>>,
    call_tool: Persistent<Function<'static>>,
    call_service: Persistent<Function<'static>>,
    call_route: Persistent<Function<'static>>,
    call_engine: Persistent<Function<'static>>,
    cancel: Persistent<Function<'static>>,
    fetched: Persistent<Function<'static>>,
    ring: Persistent<Function<'static>>,
}

/// Runs the plugin until it is closed.
pub(super) async fn run(state: Rc<State>, source: Source, mut orders: mpsc::Receiver<Order>) {
    let engine = match Engine::new(state.clone(), &source) {
        Ok(engine) => engine,
        Err(_) => return state.finish_loading(Some("its engine did not start".to_owned())),
    };
    engine.step(None, "its loading", &engine.prelude.begin, (source.entry,));
    let mut left = engine.drain();
    let shared = state.shared.clone();
    let mut fetches = FuturesUnordered::new();
    loop {
        fetches.extend(state.fetching.begun());
        let ring = match state.timers.next() {
            Some(at) => Either::Left(state.clock.sleep_until(at)),
            None => Either::Right(std::future::pending()),
        };
        tokio::select! {
            biased;
            () = shared.closed.cancelled() => return,
            () = shared.wake.notified() => engine.forget(),
            order = orders.recv() => match order {
                Some(order) => engine.accept(order),
                None => return,
            },
            Some((number, outcome)) = fetches.next(), if !fetches.is_empty() => engine.fetched(number, outcome),
            () = ring => {}
            () = std::future::ready(()), if left => {}
        }
        left = engine.drain() || engine.ring();
    }
}

impl Engine {
    fn new(state: Rc<State>, source: &Source) -> rquickjs::Result<Self> {
        let runtime = Runtime::new()?;
        // none at all would mean no limit
        runtime.set_memory_limit(source.memory_limit.max(1));
        runtime.set_max_stack_size(STACK);
        let of = state.clone();
        runtime.set_interrupt_handler(Some(Box::new(move || of.must_end())));
        let folder = std::path::PathBuf::from(&source.folder);
        let sources = Sources(Files::new(folder.clone(), Vec::new()));
        runtime.set_loader(Modules::new(folder), sources);
        let rejected = Rc::<RefCell<Vec<(u64, String)>>>::default();
        let (of, list) = (state.clone(), rejected.clone());
        runtime.set_host_promise_rejection_tracker(Some(Box::new(move |_, promise, reason, handled| {
            if !of.watch.interrupted.get() {
                note(&list, &promise, &reason, handled);
            }
        })));
        let context = Context::full(&runtime)?;
        let prelude = context.with(|ctx| Prelude::new(&ctx, &state, source))?;
        Ok(Self {
            prelude,
            context,
            runtime,
            state,
            rejected,
        })
    }

    /// Lets a call begin.
    fn accept(&self, order: Order) {
        if order.interest.is_over() {
            return;
        }
        let full = self.state.calls.borrow().len() >= MOST_CALLS;
        if full {
            drop(
                order
                    .reply
                    .send(Err(CallError::failed("too many calls run at the same time"))),
            );
            return;
        }
        let (event, conversation) = match &order.work {
            Work::Hook(call) => (Some(call.event.clone()), call.conversation),
            Work::Tool(_) | Work::Service(_) | Work::Route(_) | Work::Engine(_) => (None, false),
        };
        let pending = Pending {
            interest: order.interest.clone(),
            reply: order.reply,
            event: event.filter(|_| conversation),
        };
        self.state.calls.borrow_mut().insert(order.number, pending);
        let failure = self.begin(order.number as f64, order.interest, order.work);
        if let Some(words) = failure {
            self.state.settle(order.number, Err(CallError::failed(&words)));
        }
    }

    /// Lets the plugin's code begin with it; the words if that fails at once.
    fn begin(&self, number: f64, interest: Interest, work: Work) -> Option<String> {
        let owner = Some(interest);
        match work {
            Work::Hook(call) => {
                let (fields, perhaps) = fields(&call);
                let facts = serde_json::Value::Object(call.event.facts()).to_string();
                let context = call.context.to_json().to_string();
                let hook = call.event.hook().as_label();
                let given = (number, call.handler, hook, facts, fields, perhaps, context);
                self.step(owner, "", &self.prelude.call, given)
            }
            Work::Tool(call) => {
                let params = serde_json::Value::Object(call.params).to_string();
                let context = call.context.to_json().to_string();
                let given = (number, call.tool, call.call_id, params, context);
                self.step(owner, "", &self.prelude.call_tool, given)
            }
            Work::Service(call) => {
                let given = (number, call.service, call.turn.as_label());
                self.step(owner, "", &self.prelude.call_service, given)
            }
            Work::Route(call) => {
                let request = serde_json::to_string(&call.request).unwrap_or_default();
                self.step(owner, "", &self.prelude.call_route, (number, call.route, request))
            }
            Work::Engine(call) => {
                let (told, context) = (call.work.told().to_string(), call.context.to_json().to_string());
                let given = (number, call.work.as_label(), told, context);
                self.step(owner, "", &self.prelude.call_engine, given)
            }
        }
    }

    /// Hands the plugin what came of a request.
    fn fetched(&self, number: u64, outcome: Result<Fetched, String>) {
        self.state.fetching.ended();
        let (what, fetched) = ("what followed a fetch", &self.prelude.fetched);
        let number = number as f64;
        match outcome {
            Ok(Fetched { status, headers, body }) => {
                let headers = serde_json::to_string(&headers).unwrap_or_default();
                self.step(None, what, fetched, (number, "", status, headers, body));
            }
            Err(why) => {
                self.step(None, what, fetched, (number, why, 0, "", ""));
            }
        }
    }

    /// Ends the calls that nobody waits for.
    fn forget(&self) {
        for call in self.state.shared.take_given_up() {
            let pending = self.state.calls.borrow_mut().remove(&call);
            if pending.is_some() {
                self.step(None, "a listener of abortSignal", &self.prelude.cancel, (call as f64,));
            }
        }
    }

    /// Lets the timers ring whose time has come; whether jobs are left. A timer that is started meanwhile has to wait.
    fn ring(&self) -> bool {
        let now = self.state.clock.now();
        while let Some(timer) = self.state.timers.take(now) {
            self.step(None, "a timer", &self.prelude.ring, (timer as f64,));
            if self.drain() {
                return true;
            }
        }
        false
    }

    /// Calls a function of the prelude. If that fails: the words, which are logged where `what` fails is told.
    fn step<A>(
        &self,
        owner: Option<Interest>,
        what: &str,
        function: &Persistent<Function<'static>>,
        given: A,
    ) -> Option<String>
    where
        A: for<'js> IntoArgs<'js>,
    {
        let state = &self.state;
        let owned = owner.is_some();
        let fresh = state.watch.begin(&state.shared);
        state.watch.own(owner);
        state.shared.turn_step();
        let failure = self.context.with(|ctx| {
            let called = function
                .clone()
                .restore(&ctx)
                .and_then(|function| function.call::<_, ()>(given));
            called.err().map(|error| self.words(&ctx, &error))
        });
        state.shared.turn_step();
        state.watch.own(None);
        if fresh && owned {
            // what a call's own code took does not count for what follows it
            state.watch.rest();
        }
        let failure = match state.watch.interrupted.take() {
            true => Some("was interrupted".to_owned()),
            false => failure,
        };
        if let Some(words) = failure.as_deref().filter(|_| !what.is_empty()) {
            state.log.say(Level::ERROR, &format!("{what} failed: {words}"));
        }
        failure
    }

    /// Runs the jobs that are due; whether some are left.
    fn drain(&self) -> bool {
        let state = &self.state;
        let clock = Clock::real();
        let began = clock.now();
        state.watch.begin(&state.shared);
        let left = loop {
            if state.shared.closed.is_cancelled() || clock.now().duration_since(began) > SLICE {
                break self.runtime.is_job_pending();
            }
            state.shared.turn_step();
            let ran = self.runtime.execute_pending_job();
            state.shared.turn_step();
            match ran {
                Ok(true) => {}
                Ok(false) => break false,
                Err(failed) => {
                    let words = failed.0.with(|ctx| self.words(&ctx, &rquickjs::Error::Exception));
                    state
                        .log
                        .say(Level::ERROR, &format!("what followed an await failed: {words}"));
                }
            }
            if state.watch.interrupted.take() && !state.shared.closed.is_cancelled() {
                state
                    .log
                    .say(Level::ERROR, "code that ran for too long was interrupted");
            }
        };
        if !left {
            state.watch.rest();
        }
        for (_, words) in self.rejected.take() {
            state.log.say(
                Level::ERROR,
                &format!("a promise failed, and nobody handled it: {words}"),
            );
        }
        left
    }

    fn words(&self, ctx: &Ctx<'_>, error: &rquickjs::Error) -> String {
        match error {
            rquickjs::Error::Exception => words(&ctx.catch()),
            other => other.to_string(),
        }
    }
}

impl Prelude {
    fn new<'js>(ctx: &Ctx<'js>, state: &Rc<State>, source: &Source) -> rquickjs::Result<Self> {
        let mut options = EvalOptions::default();
        options.filename = Some(PRELUDE.to_owned());
        let prelude: Function<'js> = ctx.eval_with_options(include_str!("prelude.js"), options)?;
        let given = (host(ctx, state)?, &*state.id, &*source.settings, &*source.folder);
        let functions: Object<'js> = prelude.call(given)?;
        let function = |name: &str| -> rquickjs::Result<Persistent<Function<'static>>> {
            Ok(Persistent::save(ctx, functions.get::<_, Function<'js>>(name)?))
        };
        Ok(Self {
            begin: function("begin")?,
            call: function("call")?,
            call_tool: function("callTool")?,
            call_service: function("callService")?,
            call_route: function("callRoute")?,
            call_engine: function("callEngine")?,
            cancel: function("cancel")?,
            fetched: function("fetched")?,
            ring: function("ring")?,
        })
    }
}

/// The fields of the conversation that the event has, and those that it perhaps has: nobody knows before somebody looks.
fn fields(call: &CallHook) -> (Vec<&'static str>, Vec<&'static str>) {
    if !call.conversation || call.event.conversation().is_none() {
        return (Vec::new(), Vec::new());
    }
    let (mut sure, mut perhaps) = (Vec::new(), Vec::new());
    for field in Field::of(call.event.hook()) {
        match field {
            Field::Attachments | Field::SystemPrompt | Field::Tools => perhaps.push(field.name()),
            Field::Prompt | Field::CleanedBody | Field::Messages | Field::HistoryMessages | Field::ImagesCount => {
                sure.push(field.name());
            }
        }
    }
    (sure, perhaps)
}

/// Keeps the words of a promise that failed until somebody handles it.
fn note(rejected: &RefCell<Vec<(u64, String)>>, promise: &Value<'_>, reason: &Value<'_>, handled: bool) {
    let mut hasher = DefaultHasher::new();
    promise.hash(&mut hasher);
    let promise = hasher.finish();
    let words = if handled { String::new() } else { words(reason) };
    let mut rejected = rejected.borrow_mut();
    if handled {
        // the newest: an older one of the same place is of a promise that is gone
        if let Some(place) = rejected.iter().rposition(|(known, _)| *known == promise) {
            rejected.remove(place);
        }
    } else if rejected.len() < 64 {
        rejected.push((promise, words));
    }
}

/// The words of something that was thrown.
fn words(thrown: &Value<'_>) -> String {
    let error = thrown.clone().into_object().and_then(Exception::from_object);
    if let Some(message) = error.and_then(|error| error.message()) {
        return message;
    }
    let text = thrown.as_string().and_then(|text| text.to_string().ok());
    text.unwrap_or_else(|| format!("something that is no error was thrown: {}", thrown.type_name()))
}
