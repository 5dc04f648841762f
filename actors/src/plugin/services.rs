//! The services of one instance. Each is started once, and each start owns one stop, failed ones too: it is called once,
//! when the start has ended, and whoever waits for it waits for the same.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use actix::Recipient;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use tokio_util::sync::CancellationToken;
use understudy_messages::plugin::CallError;
use understudy_messages::service::{CallService, ServiceTurn};

use crate::registry::reload::machine::Cleanup;
use crate::supervision::Supervision;

/// How long each start and each stop is waited for. What takes longer goes on.
pub(super) const OBSERVED: Duration = Duration::from_secs(5);
/// How long a start or a stop may take at all: then it is cancelled, and has failed.
const LONGEST: Duration = Duration::from_secs(600);

/// How a start or a stop ends, for everybody who waits for it.
type Ending = Shared<BoxFuture<'static, Result<(), Arc<str>>>>;

/// The services of one instance.
pub(super) struct Services {
    names: Vec<String>,
    supervision: Supervision,
    /// The instance, as it is called by message.
    port: OnceLock<Recipient<CallService>>,
    started: Mutex<Vec<(String, Ending)>>,
    /// The stops, in their order: the last that was started is the first.
    stops: OnceLock<Vec<Ending>>,
}

impl Services {
    pub(super) fn new(names: Vec<String>, supervision: Supervision) -> Self {
        Self {
            names,
            supervision,
            port: OnceLock::new(),
            started: Mutex::default(),
            stops: OnceLock::new(),
        }
    }

    /// Says how the instance is called.
    pub(super) fn call_by(&self, port: Recipient<CallService>) {
        self.port.get_or_init(|| port);
    }

    /// Starts them, one after the other.
    ///
    /// # Errors
    /// Which of them did not start in time, or why it failed. Those after it were not started.
    pub(super) async fn start(&self) -> Result<(), String> {
        for name in &self.names {
            let start = self.call(name, ServiceTurn::Start, std::future::ready(()).boxed());
            self.started().push((name.clone(), start.clone()));
            self.keep_going(&start);
            let clock = &self.supervision.clock;
            match clock.timeout_at(clock.now() + OBSERVED, start).await {
                Ok(Ok(())) => {}
                Ok(Err(why)) => return Err(format!("its service {name} did not start: {why}")),
                Err(_elapsed) => return Err(format!("its service {name} did not start within {OBSERVED:?}")),
            }
        }
        Ok(())
    }

    /// Stops those that were started, the last one first, and waits for each as long as it is waited for.
    pub(super) async fn stop(&self) -> Cleanup {
        let clock = &self.supervision.clock;
        let mut cleanup = Cleanup::Done;
        for stop in self.stops() {
            match clock.timeout_at(clock.now() + OBSERVED, stop.clone()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => cleanup = Cleanup::Rejected,
                Err(_elapsed) => return Cleanup::Late,
            }
        }
        cleanup
    }

    /// Stops them, however long it takes.
    ///
    /// # Errors
    /// All that went wrong: one that fails keeps no other from being stopped.
    pub(super) async fn stopped(&self) -> Result<(), Arc<str>> {
        let ended = futures::future::join_all(self.stops().iter().cloned()).await;
        let failures: Vec<Arc<str>> = ended.into_iter().filter_map(Result::err).collect();
        match failures.is_empty() {
            true => Ok(()),
            false => Err(failures.join("; ").into()),
        }
    }

    /// How their stops stand: `None` where none of them was asked for.
    pub(super) fn cleanup(&self) -> Option<Cleanup> {
        let stops = self.stops.get()?;
        let ended: Vec<_> = stops.iter().map(|stop| stop.peek().cloned()).collect();
        Some(if ended.contains(&None) {
            Cleanup::Late
        } else if ended.iter().flatten().any(Result::is_err) {
            Cleanup::Rejected
        } else {
            Cleanup::Done
        })
    }

    fn stops(&self) -> &[Ending] {
        self.stops.get_or_init(|| {
            let started = std::mem::take(&mut *self.started());
            let mut stops: Vec<Ending> = Vec::with_capacity(started.len());
            for (name, start) in started.into_iter().rev() {
                let last = stops.last().cloned();
                let after = async move {
                    // how they ended makes no difference: this one is stopped all the same
                    let _ended = start.await;
                    if let Some(last) = last {
                        let _ended = last.await;
                    }
                };
                stops.push(self.call(&name, ServiceTurn::Stop, after.boxed()));
            }
            stops.last().iter().for_each(|stop| self.keep_going(stop));
            stops
        })
    }

    /// One call, once `after` is over.
    fn call(&self, name: &str, turn: ServiceTurn, after: BoxFuture<'static, ()>) -> Ending {
        let (port, clock) = (self.port.get().cloned(), self.supervision.clock.clone());
        let (service, name) = (name.to_owned(), name.to_owned());
        let failed = move |why: &str| Err(format!("{name} {why}").into());
        async move {
            after.await;
            let Some(port) = port else {
                return failed("has no instance");
            };
            let cancel = CancellationToken::new();
            let _cancels = cancel.clone().drop_guard();
            let asked = port.send(CallService { service, turn, cancel });
            match clock.timeout_at(clock.now() + LONGEST, asked).await {
                Ok(Ok(Ok(()))) => Ok(()),
                // an instance that is gone has nothing left to stop
                Ok(Ok(Err(CallError::Gone))) if turn == ServiceTurn::Stop => Ok(()),
                Ok(Ok(Err(why))) => failed(&why.to_string()),
                Ok(Err(_)) => failed("has lost its thread"),
                Err(_elapsed) => failed("was given up"),
            }
        }
        .boxed()
        .shared()
    }

    /// Sees to it that what was begun goes on, though nobody waits for it.
    fn keep_going(&self, ending: &Ending) {
        let ending = ending.clone();
        self.supervision.tasks.spawn("service", async move {
            let _whoever_waits_is_told = ending.await;
        });
    }

    fn started(&self) -> MutexGuard<'_, Vec<(String, Ending)>> {
        self.started.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
