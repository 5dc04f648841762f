//! How an instance goes: it takes no more calls, its services stop, it lets go of what it holds, and the calls under way end.
//! That happens once, whoever asks for it and however often. It is observed for so long; then it is retired by force: what
//! it still answers is refused, and its cleanup goes on.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use tokio_util::sync::CancellationToken;
use understudy_messages::context::{CallEngine, EngineWork};

use super::Served;
use crate::registry::reload::instance::{Life, RETIREMENT, Turn};
use crate::registry::reload::machine::Cleanup;

/// An instance letting go of what it holds; whoever waits for it waits for the same.
///
/// # Errors
/// All that went wrong: what it held may still be held.
pub type Disposal = Shared<BoxFuture<'static, Result<(), Arc<str>>>>;

impl Served {
    /// Starts its services.
    ///
    /// # Errors
    /// Which of them did not start, and why.
    pub async fn start_services(&self) -> Result<(), String> {
        self.services.start().await
    }

    /// Stops its services, and waits for each as long as it is waited for. Asked twice they are the same stops.
    pub async fn stop_services(&self) -> Cleanup {
        self.services.stop().await
    }

    /// Lets go of all that it holds; calls from now on find nobody. Asked twice it is the same disposal. It goes on though
    /// nobody waits for it.
    pub fn stop(self: &Arc<Self>) -> Disposal {
        let dispose = || {
            self.turn(Turn::Dispose);
            self.stopped.cancel();
            let disposal = self.clone().dispose().boxed().shared();
            let goes_on = disposal.clone();
            self.supervision.tasks.spawn("cleanup", async move {
                let _whoever_waits_is_told = goes_on.await;
            });
            disposal
        };
        self.disposal.get_or_init(dispose).clone()
    }

    async fn dispose(self: Arc<Self>) -> Result<(), Arc<str>> {
        let services = self.services.stopped().await;
        self.dispose_engine().await;
        let stopped = self.current().stop(&self.id).await;
        self.idle().await;
        if self.life() == Life::ForcedRetired {
            self.supervision.telemetry.cleanup_pending(&self.id, -1.0);
            tracing::info!(plugin = %self.id, "the plugin that was retired by force has let go");
        }
        self.turn(Turn::Settled);
        if let Some(arbiter) = self.arbiter.get() {
            arbiter.stop();
        }
        let failures = [services, stopped].into_iter().filter_map(Result::err);
        let failures: Vec<Arc<str>> = failures.collect();
        if failures.is_empty() {
            return Ok(());
        }
        let why = failures.join("; ");
        tracing::error!(plugin = %self.id, why, "the plugin failed to let go: what it held may still be held");
        Err(why.into())
    }

    /// Its context engine lets go: nothing is asked of it any more.
    async fn dispose_engine(self: &Arc<Self>) {
        if !self.registration.context_engine {
            return;
        }
        let cancel = CancellationToken::new();
        let _cancels = cancel.clone().drop_guard();
        let call = CallEngine {
            work: EngineWork::Dispose,
            context: Arc::default(),
            cancel,
        };
        let clock = &self.supervision.clock;
        let disposing = self.finish(|instance| instance.call_engine(call));
        if !matches!(clock.timeout_at(clock.now() + RETIREMENT, disposing).await, Ok(Ok(_))) {
            tracing::warn!(plugin = %self.id, "the plugin's context engine did not let go");
        }
    }

    /// Stops it and its services, each within its time; what does not end in time is retired by force.
    pub async fn retire(self: &Arc<Self>) -> Cleanup {
        let services = self.stop_services().await;
        let clock = &self.supervision.clock;
        match clock.timeout_at(clock.now() + RETIREMENT, self.stop()).await {
            Ok(Ok(())) => services,
            Ok(Err(_)) => Cleanup::Rejected,
            Err(_elapsed) => {
                self.force();
                Cleanup::Late
            }
        }
    }

    fn force(&self) {
        if self.turn(Turn::Deadline) {
            self.supervision.telemetry.forcibly_retired(&self.id);
            self.supervision.telemetry.cleanup_pending(&self.id, 1.0);
            tracing::warn!(plugin = %self.id, calls = self.calls_in_flight(),
                "the plugin did not let go in time and is retired by force: what it still answers is refused");
        }
    }

    /// It will be retired: it counts as not having let go from now on, though nobody has begun yet.
    pub fn leave(&self) {
        self.leaves.store(true, Ordering::Release);
    }

    /// How its going stands; done where nobody has asked for it.
    pub fn cleanup(&self) -> Cleanup {
        let disposal = match self.disposal.get().map(Shared::peek) {
            None => self.leaves.load(Ordering::Acquire).then_some(Cleanup::Late),
            Some(None) => Some(Cleanup::Late),
            Some(Some(Ok(()))) => Some(Cleanup::Done),
            Some(Some(Err(_))) => Some(Cleanup::Rejected),
        };
        let stands = [self.services.cleanup(), disposal];
        let has = |which| stands.contains(&Some(which));
        match (has(Cleanup::Late), has(Cleanup::Rejected)) {
            (true, _) => Cleanup::Late,
            (false, true) => Cleanup::Rejected,
            (false, false) => Cleanup::Done,
        }
    }

    /// Waits until none of its calls is under way. Meant for one that takes none.
    pub async fn idle(&self) {
        loop {
            let left = self.left.notified();
            if self.in_flight.load(Ordering::Acquire) == 0 {
                return;
            }
            left.await;
        }
    }
}

#[cfg(test)]
mod tests;
