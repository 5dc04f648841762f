use std::sync::{Mutex, Weak};
use std::time::Duration;

use actix::{Actor, Addr, Arbiter};
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use understudy_messages::clock::Clock;
use understudy_messages::hooks::{HookContext, HookResult};
use understudy_messages::plugin::{CallError, CallHook, CallTool};
use understudy_messages::service::{CallService, ServiceTurn};
use understudy_plugins::capture::{Capture, Captures};
use understudy_plugins::{Instance, Registration};

use super::*;
use crate::plugin::{InstanceState, PluginInstanceActor};
use crate::supervision::{Supervision, Tasks};
use crate::telemetry::Telemetry;

/// Ends its calls when its test lets it, whatever is asked of it.
struct Stubborn {
    registration: Registration,
    released: Arc<Semaphore>,
    told: Arc<Mutex<Vec<String>>>,
}

impl Instance for Stubborn {
    fn registration(&self) -> &Registration {
        &self.registration
    }

    fn call_hook(&self, _: CallHook) -> BoxFuture<'static, Result<HookResult, CallError>> {
        Box::pin(async { Err(CallError::Gone) })
    }

    fn call_tool(&self, _: CallTool) -> BoxFuture<'static, Result<Value, CallError>> {
        let released = self.released.clone();
        self.told.lock().expect("whole").push("call".to_owned());
        Box::pin(async move {
            released.acquire().await.expect("open").forget();
            Ok(Value::Null)
        })
    }

    fn call_service(&self, call: CallService) -> BoxFuture<'static, Result<(), CallError>> {
        let line = format!("{} {}", call.turn.as_label(), call.service);
        self.told.lock().expect("whole").push(line);
        let fails = call.turn == ServiceTurn::Stop && call.service.starts_with("bad");
        Box::pin(async move {
            match fails {
                true => Err(CallError::failed("as its test wants")),
                false => Ok(()),
            }
        })
    }

    fn stop(&self) -> BoxFuture<'static, ()> {
        self.told.lock().expect("whole").push("stop".to_owned());
        Box::pin(async {})
    }
}

/// A plugin at work, and all that its test looks at.
struct Bed {
    served: Arc<Served>,
    actor: Addr<PluginInstanceActor>,
    clock: Clock,
    telemetry: Arc<Telemetry>,
    released: Arc<Semaphore>,
    told: Arc<Mutex<Vec<String>>>,
}

impl Bed {
    fn new(services: &[&str], files: Option<Arc<Capture>>) -> Self {
        let (clock, telemetry) = (Clock::movable(), Telemetry::new().expect("sound"));
        let supervision = Supervision {
            tasks: Tasks::new(),
            clock: clock.clone(),
            telemetry: telemetry.clone(),
        };
        let (released, told) = (Arc::new(Semaphore::new(0)), Arc::<Mutex<Vec<String>>>::default());
        let mut registration = Registration::default();
        services.iter().for_each(|service| {
            registration.service(service);
        });
        let instance = Arc::new(Stubborn {
            registration,
            released: released.clone(),
            told: told.clone(),
        });
        let served = Served::new("p".into(), instance, files, &supervision);
        let (arbiter, works) = (Arbiter::new().handle(), served.clone());
        let actor = PluginInstanceActor::start_in_arbiter(&arbiter, move |_| PluginInstanceActor::new(works));
        served.works_on(actor.clone().recipient(), arbiter);
        Self {
            served,
            actor,
            clock,
            telemetry,
            released,
            told,
        }
    }

    fn told(&self) -> Vec<String> {
        self.told.lock().expect("whole").clone()
    }

    fn call(&self) -> actix::dev::Request<PluginInstanceActor, CallTool> {
        self.actor.send(CallTool {
            tool: "t".to_owned(),
            call_id: "c".to_owned(),
            params: serde_json::Map::new(),
            context: Arc::new(HookContext::default()),
            cancel: CancellationToken::new(),
        })
    }

    /// Retires it while the clock moves.
    async fn retire(&self) -> Cleanup {
        let retired = self.served.retire();
        tokio::pin!(retired);
        loop {
            tokio::select! {
                biased;
                cleanup = &mut retired => return cleanup,
                () = tokio::task::yield_now() => self.clock.advance(Duration::from_secs(1)),
            }
        }
    }

    fn shows(&self, line: &str) -> bool {
        self.telemetry.render().lines().any(|known| known == line)
    }
}

async fn until(holds: impl Fn() -> bool) {
    while !holds() {
        tokio::task::yield_now().await;
    }
}

#[actix::test]
async fn what_is_answered_after_a_forced_retirement_is_refused_and_its_files_stay_until_then_case_t32() {
    let folder = std::env::temp_dir().join(format!("understudy-retirement-{}", std::process::id()));
    let source = folder.join("source");
    std::fs::create_dir_all(&source).expect("a folder");
    std::fs::write(source.join("entry.js"), "code").expect("written");
    let files = Captures::below(folder.join("captures"));
    let files = files.take(&source).expect("captured");
    let bytes: Weak<Capture> = Arc::downgrade(&files);
    let bed = Bed::new(&[], Some(files));
    let during = async {
        until(|| bed.told() == ["call"]).await;
        assert_eq!(bed.retire().await, Cleanup::Late);
        assert!(bed.shows(r#"understudy_plugin_forced_retirements_total{plugin="p"} 1"#));
        assert!(bed.shows(r#"understudy_plugin_cleanups_pending{plugin="p"} 1"#));
        assert_eq!(bed.served.cleanup(), Cleanup::Late);
        bed.released.add_permits(1);
    };
    let (call, ()) = tokio::join!(bed.call(), during);
    assert_eq!(call, Ok(Err(CallError::Gone)), "a late success");
    until(|| bed.served.cleanup() == Cleanup::Done).await;
    assert!(bed.shows(r#"understudy_plugin_cleanups_pending{plugin="p"} 0"#));
    assert!(bytes.upgrade().is_some(), "whoever looks at it still has it");
    drop(bed);
    // its thread ends with it; what kept them would be waited for in vain
    while bytes.upgrade().is_some() {
        tokio::task::yield_now().await;
    }
    let _gone = std::fs::remove_dir_all(folder);
}

#[actix::test]
async fn two_that_wait_for_a_disposal_wait_for_the_same_one_case_t33() {
    let bed = Bed::new(&["one"], None);
    bed.served.start_services().await.expect("starts");
    let (first, second) = tokio::join!(bed.served.stop(), bed.served.stop());
    assert_eq!((first, second), (Ok(()), Ok(())));
    assert_eq!(bed.retire().await, Cleanup::Done);
    assert_eq!(bed.told(), ["start one", "stop one", "stop"]);
}

#[actix::test]
async fn cleanups_run_in_reverse_order_and_one_that_fails_keeps_no_other_from_it_case_t34() {
    let bed = Bed::new(&["one", "bad-two", "three", "bad-four"], None);
    bed.served.start_services().await.expect("starts");
    let failed = bed.served.stop().await.expect_err("two fail");
    assert!(failed.contains("bad-two") && failed.contains("bad-four"), "{failed}");
    let stops = &bed.told()[4..];
    assert_eq!(
        stops,
        ["stop bad-four", "stop three", "stop bad-two", "stop one", "stop"]
    );
    assert_eq!(
        (bed.served.cleanup(), bed.retire().await),
        (Cleanup::Rejected, Cleanup::Rejected)
    );
}

#[actix::test]
async fn a_handle_of_an_instance_that_is_gone_reaches_nobody_case_t48() {
    let bed = Bed::new(&[], None);
    assert_eq!(bed.retire().await, Cleanup::Done);
    // its thread may be gone by now, too
    let call = bed.call().await;
    assert!(matches!(call, Err(_) | Ok(Err(CallError::Gone))), "{call:?}");
    assert_eq!(bed.served.state(), InstanceState::Disposing);
}

#[actix::test]
async fn a_closed_instance_takes_no_new_call_and_finishes_those_under_way() {
    let bed = Bed::new(&[], None);
    let during = async {
        until(|| bed.told() == ["call"]).await;
        bed.served.quiesce();
        assert_eq!(bed.call().await, Ok(Err(CallError::Gone)));
        bed.released.add_permits(2);
    };
    let (call, ()) = tokio::join!(bed.call(), during);
    assert_eq!(call, Ok(Ok(Value::Null)));
    bed.served.idle().await;
    bed.served.resume();
    assert_eq!(bed.call().await, Ok(Ok(Value::Null)));
}

#[actix::test]
async fn what_was_never_started_is_not_stopped() {
    let bed = Bed::new(&["one"], None);
    assert_eq!(bed.served.stop().await, Ok(()));
    assert_eq!(bed.told(), ["stop"]);
}

#[actix::test]
async fn one_that_is_to_go_has_not_let_go_before_its_retirement_has_ended() {
    let bed = Bed::new(&[], None);
    assert_eq!(bed.served.cleanup(), Cleanup::Done, "nobody has asked for it");
    bed.served.leave();
    assert_eq!(bed.served.cleanup(), Cleanup::Late, "arranged, not begun");
    assert_eq!(bed.retire().await, Cleanup::Done);
    assert_eq!(bed.served.cleanup(), Cleanup::Done);
}
