//! One plugin instance at work: takes calls, counts them, and is failed for good when its code or its host is.
//!
//! It lives on an arbiter of its own, never on one of sessions: a plugin that holds its thread holds nobody else's. Calls are
//! futures of their own; the actor only hands them out. Whoever calls sets the deadline and cancels.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use actix::{Actor, Context, Handler, ResponseFuture};
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use serde_json::Value;
use understudy_messages::hooks::HookResult;
use understudy_messages::ids::Name;
use understudy_messages::plugin::{CallError, CallHook, CallTool};
use understudy_plugins::Instance;

/// What becomes of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstanceState {
    /// It is about to register.
    Starting,
    /// It takes calls.
    Running,
    /// It takes none any more and ends those that it has.
    Draining,
    /// It lets go of what it holds.
    Disposing,
    /// It will never answer again, or never could.
    Failed,
}

impl InstanceState {
    /// Every state.
    pub const ALL: [Self; 5] = [
        Self::Starting,
        Self::Running,
        Self::Draining,
        Self::Disposing,
        Self::Failed,
    ];

    /// The label's spelling.
    pub const fn as_label(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Draining => "draining",
            Self::Disposing => "disposing",
            Self::Failed => "failed",
        }
    }
}

/// An instance letting go of what it holds; whoever waits for it waits for the same.
pub type Disposal = Shared<BoxFuture<'static, ()>>;

/// An instance as everybody may look at it, without a message.
pub struct Served {
    /// The plugin.
    pub id: Name,
    instance: Arc<dyn Instance>,
    in_flight: AtomicU64,
    panicked: AtomicBool,
    quiesced: AtomicBool,
    disposal: OnceLock<Disposal>,
}

impl Served {
    /// An instance that has registered.
    pub fn new(id: Name, instance: Arc<dyn Instance>) -> Arc<Self> {
        Arc::new(Self {
            id,
            instance,
            in_flight: AtomicU64::new(0),
            panicked: AtomicBool::new(false),
            quiesced: AtomicBool::new(false),
            disposal: OnceLock::new(),
        })
    }

    /// What it registered.
    pub fn registration(&self) -> &understudy_plugins::Registration {
        self.instance.registration()
    }

    /// What has become of it.
    pub fn state(&self) -> InstanceState {
        if self.disposal.get().is_some() {
            return InstanceState::Disposing;
        }
        match (self.failure(), self.quiesced.load(Ordering::Acquire)) {
            (Some(_), _) => InstanceState::Failed,
            (None, true) => InstanceState::Draining,
            (None, false) => InstanceState::Running,
        }
    }

    /// Why it will never answer again; `None` while it serves.
    pub fn failure(&self) -> Option<String> {
        match self.panicked.load(Ordering::Acquire) {
            true => Some("its code panicked".to_owned()),
            false => self.instance.failure(),
        }
    }

    /// Calls that it is working on.
    pub fn calls_in_flight(&self) -> u64 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Takes no new calls, until it is opened again.
    pub fn quiesce(&self) {
        self.quiesced.store(true, Ordering::Release);
    }

    /// Takes calls again.
    pub fn resume(&self) {
        self.quiesced.store(false, Ordering::Release);
    }

    /// Lets go of all that it holds; calls from now on find nobody. Asked twice it is the same disposal.
    pub fn stop(&self) -> Disposal {
        let dispose = || {
            let (id, stopping) = (self.id.clone(), AssertUnwindSafe(self.instance.stop()).catch_unwind());
            let logged = stopping.map(move |stopped| {
                if stopped.is_err() {
                    tracing::error!(plugin = %id, "the plugin panicked while it was stopped");
                }
            });
            logged.boxed().shared()
        };
        self.disposal.get_or_init(dispose).clone()
    }

    /// Runs one call. A panic fails the instance, and nothing else.
    async fn run<T>(
        self: Arc<Self>,
        call: impl FnOnce(&dyn Instance) -> BoxFuture<'static, Result<T, CallError>>,
    ) -> Result<T, CallError> {
        if self.state() != InstanceState::Running {
            return Err(CallError::Gone);
        }
        let _counted = InFlight::new(self.clone());
        let work = async { call(&*self.instance).await };
        let done = AssertUnwindSafe(work).catch_unwind().await;
        done.unwrap_or_else(|_panic| {
            self.panicked.store(true, Ordering::Release);
            tracing::error!(plugin = %self.id, "the plugin panicked: its instance takes no more calls");
            Err(CallError::failed("panicked"))
        })
    }
}

/// One call, for as long as it lives.
struct InFlight(Arc<Served>);

impl InFlight {
    fn new(served: Arc<Served>) -> Self {
        served.in_flight.fetch_add(1, Ordering::Relaxed);
        Self(served)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Hands calls to one instance. It is not started again: its death is that of its instance.
pub struct PluginInstanceActor(Arc<Served>);

impl PluginInstanceActor {
    /// An actor in front of an instance.
    pub fn new(served: Arc<Served>) -> Self {
        Self(served)
    }
}

impl Actor for PluginInstanceActor {
    type Context = Context<Self>;
}

impl Handler<CallHook> for PluginInstanceActor {
    type Result = ResponseFuture<Result<HookResult, CallError>>;

    fn handle(&mut self, call: CallHook, _: &mut Context<Self>) -> Self::Result {
        Box::pin(self.0.clone().run(|instance| instance.call_hook(call)))
    }
}

impl Handler<CallTool> for PluginInstanceActor {
    type Result = ResponseFuture<Result<Value, CallError>>;

    fn handle(&mut self, call: CallTool, _: &mut Context<Self>) -> Self::Result {
        Box::pin(self.0.clone().run(|instance| instance.call_tool(call)))
    }
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;
    use understudy_messages::hooks::{HookContext, HookEvent};
    use understudy_plugins::Registration;

    use super::*;

    /// Panics when its first handler is called, and for its second one before there is a future.
    #[derive(Default)]
    struct Fragile(Registration);

    impl Instance for Fragile {
        fn registration(&self) -> &Registration {
            &self.0
        }

        fn call_hook(&self, call: CallHook) -> BoxFuture<'static, Result<HookResult, CallError>> {
            assert!(call.handler != 1, "as asked");
            Box::pin(async move {
                assert!(call.handler != 0, "as asked");
                Ok(HookResult::None)
            })
        }

        fn call_tool(&self, _: CallTool) -> BoxFuture<'static, Result<Value, CallError>> {
            Box::pin(async { Err(CallError::Gone) })
        }

        fn stop(&self) -> BoxFuture<'static, ()> {
            Box::pin(async {})
        }
    }

    fn call(handler: u32) -> CallHook {
        CallHook {
            handler,
            event: Arc::new(HookEvent::GatewayStart { port: 1 }),
            context: Arc::new(HookContext::default()),
            conversation: false,
            cancel: CancellationToken::new(),
        }
    }

    #[actix::test]
    async fn an_instance_whose_code_panicked_takes_no_more_calls() {
        for handler in [0, 1] {
            let served = Served::new("p".into(), Arc::new(Fragile::default()));
            let actor = PluginInstanceActor::new(served.clone()).start();
            assert_eq!(actor.send(call(2)).await, Ok(Ok(HookResult::None)));
            let panicked = Ok(Err(CallError::failed("panicked")));
            assert_eq!(actor.send(call(handler)).await, panicked);
            assert_eq!(
                actor.send(call(2)).await,
                Ok(Err(CallError::Gone)),
                "the actor lives on"
            );
            assert_eq!((served.state(), served.calls_in_flight()), (InstanceState::Failed, 0));
        }
    }

    #[actix::test]
    async fn a_stopped_instance_is_gone() {
        let served = Served::new("p".into(), Arc::new(Fragile::default()));
        let actor = PluginInstanceActor::new(served.clone()).start();
        served.stop().await;
        assert_eq!(actor.send(call(2)).await, Ok(Err(CallError::Gone)));
    }
}
