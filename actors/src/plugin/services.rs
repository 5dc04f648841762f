//! The services of one instance. Each is started once, and each start owns one stop, failed ones too: it is called once,
//! when the start has ended, and whoever waits for it waits for the same.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use actix::Recipient;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use tokio_util::sync::CancellationToken;
use understudy_messages::clock::Instant;
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

/// A start, or the stop that it owns.
struct Begun {
    name: String,
    /// When it was started.
    since: Instant,
    ending: Ending,
}

/// The services of one instance.
pub(super) struct Services {
    names: Vec<String>,
    supervision: Supervision,
    /// The instance, as it is called by message.
    port: OnceLock<Recipient<CallService>>,
    started: Mutex<Vec<Begun>>,
    /// The stops, in their order: the last that was started is the first.
    stops: OnceLock<Vec<Begun>>,
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
            let clock = &self.supervision.clock;
            self.started().push(Begun {
                name: name.clone(),
                since: clock.now(),
                ending: start.clone(),
            });
            self.keep_going(&start);
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
            match clock.timeout_at(clock.now() + OBSERVED, stop.ending.clone()).await {
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
        let ended = futures::future::join_all(self.stops().iter().map(|stop| stop.ending.clone())).await;
        let failures: Vec<Arc<str>> = ended.into_iter().filter_map(Result::err).collect();
        match failures.is_empty() {
            true => Ok(()),
            false => Err(failures.join("; ").into()),
        }
    }

    /// How their stops stand: `None` where none of them was asked for.
    pub(super) fn cleanup(&self) -> Option<Cleanup> {
        let stops = self.stops.get()?;
        let ended: Vec<_> = stops.iter().map(|stop| stop.ending.peek().cloned()).collect();
        Some(if ended.contains(&None) {
            Cleanup::Late
        } else if ended.iter().flatten().any(Result::is_err) {
            Cleanup::Rejected
        } else {
            Cleanup::Done
        })
    }

    /// Those that were started and have not ended: their names, and since when.
    pub(super) fn running(&self) -> Vec<(String, Instant)> {
        let about = |it: &Begun| (it.name.clone(), it.since);
        match self.stops.get() {
            None => self.started().iter().map(about).collect(),
            Some(stops) => stops
                .iter()
                .filter(|stop| stop.ending.peek().is_none())
                .map(about)
                .collect(),
        }
    }

    fn stops(&self) -> &[Begun] {
        self.stops.get_or_init(|| {
            let started = std::mem::take(&mut *self.started());
            let mut stops: Vec<Begun> = Vec::with_capacity(started.len());
            for start in started.into_iter().rev() {
                let last = stops.last().map(|stop| stop.ending.clone());
                let Begun { name, since, ending } = start;
                let after = async move {
                    // how they ended makes no difference: this one is stopped all the same
                    let _ended = ending.await;
                    if let Some(last) = last {
                        let _ended = last.await;
                    }
                };
                let ending = self.call(&name, ServiceTurn::Stop, after.boxed());
                stops.push(Begun { name, since, ending });
            }
            stops.last().iter().for_each(|stop| self.keep_going(&stop.ending));
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

    fn started(&self) -> MutexGuard<'_, Vec<Begun>> {
        self.started.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
