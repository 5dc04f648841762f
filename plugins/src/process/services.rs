//! The services of a child: what had been started is started again in a child that takes the place of one that died.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use understudy_messages::clock::Clock;
use understudy_messages::plugin::CallError;
use understudy_messages::service::ServiceTurn;

use super::link::Link;
use super::protocol::ToChild;

/// How long a service may take to come back.
const START: Duration = Duration::from_secs(5);

/// Those that are to run.
#[derive(Default)]
pub(super) struct Services(Mutex<BTreeSet<String>>);

impl Services {
    /// Starts or stops one.
    pub(super) async fn turn(&self, link: Option<&Link>, service: &str, turn: ServiceTurn) -> Result<(), CallError> {
        // one that is to stop does not come back, whatever it says, and whether or not there is a child
        if turn == ServiceTurn::Stop {
            self.running().remove(service);
        }
        let line = |call| ToChild::Service { call, service, turn }.line();
        link.ok_or(CallError::Gone)?.ask(line).await?;
        if turn == ServiceTurn::Start {
            self.running().insert(service.to_owned());
        }
        Ok(())
    }

    /// Starts in a new child what ran in the one before; ends only with what went wrong.
    pub(super) async fn come_back(&self, link: &Link, clock: &Clock) -> String {
        let before: Vec<String> = self.running().iter().cloned().collect();
        for service in before {
            let started = self.turn(Some(link), &service, ServiceTurn::Start);
            match clock.timeout_at(clock.now() + START, started).await {
                Ok(Ok(())) => {}
                Ok(Err(why)) => return format!("its service {service} {why}"),
                Err(_elapsed) => return format!("its service {service} did not start again in time"),
            }
        }
        std::future::pending().await
    }

    fn running(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
