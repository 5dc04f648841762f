//! What a reload does with instances: the old ones end, the new ones begin, or the old code is put back.

use std::sync::Arc;
use std::time::Duration;

use understudy_messages::clock::Instant;
use understudy_messages::hooks::HookEvent;

use super::Operation;
use crate::plugin::Served;
use crate::registry::reload::machine::{Cleanup, Event, State};
use crate::registry::staffing;

/// How long calls that are no turn's may still take in an instance that nobody else uses: as long as a route's.
const LAST_CALLS: Duration = Duration::from_secs(15);

impl Operation {
    /// Waits until no turn and no other call uses what is to end.
    pub(super) async fn emptied(&self, agents: &super::Agents) {
        self.serving.empty_of(agents).await;
        self.serving.inventory.quiesce(&self.ended);
        self.serving.inventory.idle(&self.ended).await;
    }

    pub(super) async fn stop_services(&mut self) -> Event {
        let cleanup = self.serving.inventory.stop_services(&self.ended).await;
        self.say_of(cleanup);
        Event::Stopped(cleanup)
    }

    pub(super) async fn dispose(&mut self) -> Event {
        let cleanup = self.serving.inventory.dispose(&self.ended).await;
        self.say_of(cleanup);
        Event::Disposed(cleanup)
    }

    fn say_of(&mut self, cleanup: Cleanup) {
        self.message = match cleanup {
            Cleanup::Done => return,
            Cleanup::Late => Some("An old instance did not let go in time.".to_owned()),
            Cleanup::Rejected => {
                Some("An old instance failed to let go of what it holds: see the log, and restart.".to_owned())
            }
        };
    }

    pub(super) async fn register(&mut self) -> Event {
        let Some(planned) = self.planned.take() else {
            return Event::RegistrationFailed;
        };
        match self.context.loader.build(planned, &self.serving.inventory).await {
            Ok(built) => {
                self.built = Some(built);
                Event::Registered
            }
            Err(error) => {
                self.message = Some(format!("The plugin {error}. What served before goes on."));
                self.discarded.extend(error.left);
                Event::RegistrationFailed
            }
        }
    }

    /// Every provider of new settings has its actor on every arbiter before anybody is told of them; then services start.
    pub(super) async fn start(&mut self) -> Event {
        let stopped = self.machine.state() == State::Starting { stopped: true };
        if self.ask.superseded.is_cancelled() && !stopped {
            return Event::Superseded;
        }
        if let Some(settings) = &self.ask.settings {
            match staffing::staff(&self.serving, settings).await {
                Ok(shards) => self.shards = Some(shards),
                Err(error) => {
                    self.message = Some(error.to_string());
                    return Event::StartFailed;
                }
            }
        }
        let Some(built) = &self.built else {
            return Event::StartFailed;
        };
        match built.inventory.start_services(&self.started).await {
            Ok(()) => Event::Started,
            Err(why) => {
                self.message = Some(format!("The plugin {why}. What served before goes on."));
                Event::StartFailed
            }
        }
    }

    pub(super) async fn discard(&mut self) {
        if let Some(built) = self.built.take() {
            let (old, new) = (&self.serving.inventory, built.inventory);
            self.discarded.extend(new.instances_but(old));
            new.retire_but(old).await;
        }
    }

    /// Tells the plugins, and lets the old instances go once the last turn that holds them has ended.
    pub(super) fn settle(&self) -> Event {
        let (old, clock) = (self.serving.clone(), self.context.clock.clone());
        let (Some(new), None) = (self.context.published.load(), &self.message) else {
            return Event::Unsettled;
        };
        let tasks = self.context.loader.supervision.tasks.clone();
        let stop = HookEvent::GatewayStop { reason: "reload" };
        tasks.spawn("retirement", async move {
            old.empty().await;
            let gone = old.inventory.hooks_but(&new.inventory);
            gone.observe(stop, Arc::default()).await;
            let last_calls = old.inventory.idle_but(&new.inventory);
            let _in_time_or_cut_off = clock.timeout_at(clock.now() + LAST_CALLS, last_calls).await;
            old.inventory.retire_but(&new.inventory).await;
        });
        Event::Settled
    }

    /// Waits for the cleanup of the old instances, and of the new ones that were not taken.
    pub(super) async fn join_cleanup(&mut self, until: Instant) -> Event {
        let reason = "Waiting for the old instances to let go before they are put back.";
        self.show("recovering", Some(until), Some(reason));
        let instances = self.leftovers();
        let gone = futures::future::join_all(instances.iter().map(Served::stop));
        tokio::select! {
            biased;
            ended = gone => match ended.iter().all(Result::is_ok) {
                true => Event::CleanedUp,
                false => Event::RestoreFailed,
            },
            () = self.shutdown.cancelled() => Event::Shutdown,
            () = self.context.clock.sleep_until(until) => Event::Deadline,
        }
    }

    pub(super) async fn restore(&mut self) -> Event {
        let (loader, serving) = (&self.context.loader, &self.serving.inventory);
        let failed = match loader.restore(serving, &self.ended).await {
            Ok(built) => {
                let started = built.inventory.start_services(&self.ended).await;
                self.lost.clone_from(&built.lost);
                self.say_lost();
                self.built = Some(built);
                started.err()
            }
            Err(error) => {
                let why = error.to_string();
                self.discarded.extend(error.left);
                Some(why)
            }
        };
        let Some(error) = failed else {
            return Event::Restored;
        };
        tracing::error!(operation = %self.id, error, "the old code could not be put back");
        self.discard().await;
        Event::RestoreFailed
    }

    fn say_lost(&mut self) {
        if let [first, ..] = &self.lost[..] {
            tracing::error!(operation = %self.id, plugins = ?self.lost, "not put back: what they were loaded from is gone");
            let others = self.lost.len() - 1;
            let others = if others > 0 {
                format!(" and {others} more")
            } else {
                String::new()
            };
            let message = self.message.take().unwrap_or_default();
            let lost = format!(
                "{message} {first}{others} could not be put back: what it was loaded from is gone. Reload it by name."
            );
            self.message = Some(lost.trim_start().to_owned());
        }
    }

    /// Those that were to end do not serve, until a later reload puts something in their place.
    pub(super) fn bar(&self) {
        self.context.published.barrier().raise(&self.ended, &self.leftovers());
    }

    /// Instances that have to let go before others may take their place.
    fn leftovers(&self) -> Vec<Arc<Served>> {
        let old = self.serving.inventory.instances(&self.ended);
        [old, self.discarded.clone()].concat()
    }
}
