use understudy_messages::clock::Clock;
use understudy_messages::hooks::{HookContext, HookEvent};
use understudy_plugins::registration::{Handler as Registered, HookOptions};

use super::*;
use crate::supervision::Tasks;

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

fn supervision(clock: &Clock) -> Supervision {
    Supervision {
        tasks: Tasks::new(),
        clock: clock.clone(),
        telemetry: crate::telemetry::Telemetry::new().expect("sound"),
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
        let served = Served::new(
            "p".into(),
            Arc::new(Fragile::default()),
            None,
            &supervision(&Clock::movable()),
        );
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
    let served = Served::new(
        "p".into(),
        Arc::new(Fragile::default()),
        None,
        &supervision(&Clock::movable()),
    );
    let actor = PluginInstanceActor::new(served.clone()).start();
    served.stop().await.expect("it lets go");
    assert_eq!(actor.send(call(2)).await, Ok(Err(CallError::Gone)));
}

/// A plugin whose instances are counted, and which is given more of them; `registers` says what each has.
fn lasting(registers: fn(u64) -> Result<Registration, String>) -> (Arc<Served>, Clock, Arc<AtomicU64>) {
    let (clock, made) = (Clock::movable(), Arc::new(AtomicU64::new(0)));
    clock.hold();
    let supervision = supervision(&clock);
    let count = made.clone();
    let remake: Remake = Arc::new(move || {
        let number = count.fetch_add(1, Ordering::Relaxed) + 1;
        let made = registers(number).map(|registration| Arc::new(Fragile(registration)) as Arc<dyn Instance>);
        Box::pin(async move { made })
    });
    let first = Arc::new(Fragile(registers(0).expect("registers")));
    (
        Served::lasting("p".into(), first, remake, None, &supervision),
        clock,
        made,
    )
}

fn guard() -> Registration {
    let mut registration = Registration::default();
    registration.on("before_tool_call", HookOptions::default(), Registered::Instance(2));
    registration
}

/// Moves the clock as long as the plugin does not serve.
async fn until(clock: &Clock, holds: impl Fn() -> bool) {
    for _ in 0..1_000 {
        if holds() {
            return;
        }
        clock.advance(Duration::from_millis(50));
        tokio::task::yield_now().await;
    }
    panic!("it never came true");
}

#[actix::test]
async fn a_failed_instance_is_replaced_and_until_then_its_calls_find_nobody() {
    let (served, clock, made) = lasting(|_| Ok(guard()));
    let actor = PluginInstanceActor::new(served.clone()).start();
    for restarts in 1..=2 {
        assert_eq!(actor.send(call(0)).await, Ok(Err(CallError::failed("panicked"))));
        assert_eq!(actor.send(call(2)).await, Ok(Err(CallError::Gone)));
        assert_eq!(
            (served.state(), served.restarts()),
            (InstanceState::Failed, restarts - 1)
        );
        until(&clock, || served.state() == InstanceState::Running).await;
        assert_eq!(actor.send(call(2)).await, Ok(Ok(HookResult::None)));
        assert_eq!((served.restarts(), made.load(Ordering::Relaxed)), (restarts, restarts));
    }
}

#[actix::test]
async fn a_plugin_that_fails_too_often_stays_failed() {
    let (served, clock, made) = lasting(|number| match number {
        0 => Ok(guard()),
        _ => Err("not again".to_owned()),
    });
    let actor = PluginInstanceActor::new(served.clone()).start();
    assert!(actor.send(call(0)).await.expect("answers").is_err());
    until(&clock, || made.load(Ordering::Relaxed) == 5).await;
    for _ in 0..10 {
        clock.advance(Duration::from_secs(600));
        assert_eq!(actor.send(call(2)).await, Ok(Err(CallError::Gone)));
    }
    assert_eq!(
        (served.state(), made.load(Ordering::Relaxed)),
        (InstanceState::Failed, 5)
    );
}

#[actix::test]
async fn an_instance_that_registers_something_else_is_not_taken() {
    let (served, clock, made) = lasting(|number| match number {
        0 => Ok(guard()),
        _ => Ok(Registration::default()),
    });
    let actor = PluginInstanceActor::new(served.clone()).start();
    assert!(actor.send(call(0)).await.expect("answers").is_err());
    until(&clock, || made.load(Ordering::Relaxed) == 1).await;
    for _ in 0..10 {
        clock.advance(Duration::from_secs(600));
        assert_eq!(actor.send(call(2)).await, Ok(Err(CallError::Gone)));
    }
    assert_eq!(
        (served.state(), made.load(Ordering::Relaxed)),
        (InstanceState::Failed, 1)
    );
}

#[actix::test]
async fn a_stopped_plugin_gets_no_more_instances() {
    let (served, clock, made) = lasting(|_| Ok(guard()));
    let actor = PluginInstanceActor::new(served.clone()).start();
    assert!(actor.send(call(0)).await.expect("answers").is_err());
    served.stop().await.expect("it lets go");
    for _ in 0..10 {
        clock.advance(Duration::from_secs(600));
        assert_eq!(actor.send(call(2)).await, Ok(Err(CallError::Gone)));
    }
    assert_eq!(
        (served.state(), made.load(Ordering::Relaxed)),
        (InstanceState::Disposing, 0)
    );
}
