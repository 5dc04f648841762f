//! What a reload does with instances: the old ones end, the new ones begin, or the old code is put back.

use std::sync::Arc;
use std::time::Duration;

use understudy_messages::clock::Instant;
use understudy_messages::hooks::HookEvent;
use understudy_messages::ids::Name;
use understudy_messages::plugin::CallError;

use super::Operation;
use crate::inventory::Inventory;
use crate::plugin::Served;
use crate::registry::generation::Generation;
use crate::registry::held::Agents;
use crate::registry::reload::machine::{Cleanup, Event, State};
use crate::registry::staffing::{self, StaffError};

/// How long calls that are no turn's may still take in an instance that nobody else uses: as long as a route's.
const LAST_CALLS: Duration = Duration::from_secs(15);

/// Why an instance that a failed reload has left behind does not serve.
const AWAY: &str = "a reload has ended it, and neither new nor old code could take its place";
/// What an instance is told that is about to be replaced.
const STOP: HookEvent = HookEvent::GatewayStop { reason: "reload" };

impl Operation {
    /// Waits until no turn and no other call uses what is to end.
    pub(super) async fn emptied(&self, agents: &Agents) {
        self.serving.empty_of(agents).await;
        self.serving.inventory.quiesce(&self.ended);
        self.serving.inventory.idle(&self.ended).await;
    }

    /// Tells the old instances that their end has come, while they can still do something about it, and stops their services.
    pub(super) async fn stop_services(&mut self) -> Event {
        self.serving.roster.catalogs().withdraw(&self.ended);
        let ending = self.serving.inventory.hooks().only(&self.ended);
        let _logged = ending.observe(STOP, Arc::default()).await;
        self.told = true;
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
            Cleanup::Late => Some(format!("The old instance of {} did not let go in time.", self.late())),
            Cleanup::Rejected => Some(format!(
                "The old instance of {} failed to let go of what it holds: see the log, and restart.",
                self.late()
            )),
        };
    }

    /// Those that have not let go.
    fn late(&self) -> String {
        let instances = self.serving.inventory.instances(&self.ended);
        let late = instances.iter().filter(|served| served.cleanup() != Cleanup::Done);
        late.map(|served| served.id.to_string()).collect::<Vec<_>>().join(", ")
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
        let Some(inventory) = self.built.as_ref().map(|built| built.inventory.clone()) else {
            return Event::StartFailed;
        };
        if let Err(error) = self.staff(&inventory).await {
            self.message = Some(error.to_string());
            return Event::StartFailed;
        }
        match inventory.start_services(&self.started).await {
            Ok(()) => Event::Started,
            Err(why) => {
                self.message = Some(format!("The plugin {why}. What served before goes on."));
                Event::StartFailed
            }
        }
    }

    /// Starts the providers of what is to serve, where they are others than those that do.
    async fn staff(&mut self, inventory: &Inventory) -> Result<(), StaffError> {
        self.shards = match inventory.serves() == self.serving.roster.settings() {
            true => None,
            false => Some(staffing::staff(&self.serving, inventory.serves()).await?),
        };
        Ok(())
    }

    pub(super) async fn discard(&mut self) {
        self.shards = None;
        if let Some(built) = self.built.take() {
            let (old, new) = (&self.serving.inventory, built.inventory);
            self.discarded.extend(new.instances_but(old));
            new.retire_but(old).await;
        }
    }

    /// Lets the old instances go once the last turn that holds them has ended, and tells the new ones that they serve. What of
    /// that fails is told and changes nothing any more; providers are looked at again then, as they are to serve (contract R-108).
    pub(super) async fn settle(&mut self) -> Event {
        self.notices.extend(self.put_off());
        let Some(new) = self.context.published.load() else {
            return Event::Unsettled;
        };
        self.let_go(&new);
        let start = HookEvent::GatewayStart {
            port: self.context.port,
        };
        let told = new.inventory.hooks_but(&self.serving.inventory);
        let failed = told.observe(start, Arc::default()).await;
        if failed.is_empty() {
            return Event::Settled;
        }
        let again = match self.shutdown.is_cancelled() {
            true => Ok(Vec::new()),
            false => staffing::staff(&new, new.inventory.serves()).await,
        };
        self.message = Some(unsettled(&failed, again.err().as_ref()));
        Event::Unsettled
    }

    fn let_go(&self, new: &Arc<Generation>) {
        let (old, new, clock) = (self.serving.clone(), new.clone(), self.context.clock.clone());
        let tasks = self.context.loader.supervision.tasks.clone();
        let told = self.told;
        tasks.spawn("retirement", async move {
            old.empty().await;
            if !told {
                let gone = old.inventory.hooks_but(&new.inventory);
                let _logged = gone.observe(STOP, Arc::default()).await;
            }
            let last_calls = old.inventory.idle_but(&new.inventory);
            let _in_time_or_cut_off = clock.timeout_at(clock.now() + LAST_CALLS, last_calls).await;
            old.inventory.retire_but(&new.inventory).await;
        });
    }

    /// What still holds instances that are switched off and end without a successor: nobody has waited for that.
    fn put_off(&self) -> Vec<String> {
        let off = self.ended.iter().filter(|id| !self.started.contains(id));
        let held = |id: &Name| {
            self.serving
                .leases_of(&self.serving.agents_using(std::slice::from_ref(id)))
        };
        let held = off.map(|id| (id, held(id))).filter(|(_, turns)| *turns > 0);
        held.map(|(id, turns)| {
            format!("{id}: lets go of what it holds once the {turns} turns that it is called in have ended")
        })
        .collect()
    }

    /// Waits for the cleanup of the old instances, and of the new ones that were not taken.
    pub(super) async fn join_cleanup(&mut self, until: Instant) -> Event {
        let forward = matches!(self.machine.state(), State::Recovering { forward: true, .. });
        let reason = match forward {
            true => "Waiting for the old instances to let go before the new ones take their place.",
            false => "Waiting for the old instances to let go before they are put back.",
        };
        tracing::warn!(operation = %self.id, plugins = ?self.ended, "{reason}");
        self.show("recovering", Some(until), Some(reason));
        let instances = self.leftovers();
        let gone = futures::future::join_all(instances.iter().map(Served::stop));
        tokio::select! {
            biased;
            ended = gone => match ended.iter().all(Result::is_ok) {
                true => {
                    // what was late has ended well: nothing of it is left to be told as a failure
                    self.notices.extend(self.message.take_if(|_| forward));
                    Event::CleanedUp
                }
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
                let staffed = self.staff(&built.inventory).await.map_err(|error| error.to_string());
                self.lost.clone_from(&built.lost);
                self.say_lost();
                self.built = Some(built);
                match started.and(staffed) {
                    Ok(()) => self.serve_again().await,
                    Err(error) => Some(error),
                }
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

    /// Publishes what was put back; why that could not be done.
    async fn serve_again(&mut self) -> Option<String> {
        let failed = self.message.take();
        match self.publish().await {
            Event::Published => {
                self.message = failed;
                None
            }
            _ => self.message.take(),
        }
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
        let gone = self.serving.inventory.instances(&self.ended);
        gone.iter().for_each(|served| served.give_up(AWAY));
        self.context.published.barrier().raise(&self.ended, &self.leftovers());
    }

    /// Instances that have to let go before others may take their place.
    fn leftovers(&self) -> Vec<Arc<Served>> {
        let old = self.serving.inventory.instances(&self.ended);
        [old, self.discarded.clone()].concat()
    }
}

/// What failed after a publication, and what to do about it.
fn unsettled(failed: &[(Name, CallError)], providers: Option<&StaffError>) -> String {
    let starts: Vec<String> = failed
        .iter()
        .map(|(plugin, error)| format!("gateway_start of {plugin} {error}"))
        .collect();
    let starts = starts.join("; ");
    let advice = "Look at the log, and reload what failed";
    match providers {
        None => format!("The new generation serves, but {starts}. {advice}."),
        Some(error) => format!(
            "The new generation serves, but {starts}. Its providers could not be started again either: {error} {advice}; \
             restart the gateway where its models do not answer."
        ),
    }
}
