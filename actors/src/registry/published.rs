//! What serves, and what served before it: read by everybody, without a message.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::sync::Notify;
use understudy_messages::clock::{Clock, Instant};
use understudy_messages::ids::TurnId;
use understudy_messages::registry::{GenerationState, GenerationStatus, ReloadStatus};

use super::barrier::Barrier;
use super::generation::Generation;
use super::held::Agents;
use super::operation::{MOST_HOLDERS, Progress};
use super::origins::Origins;
use super::retention::Instances;
use super::under_way::UnderWay;

/// How often it is looked whether those that a reload waits for have left.
const IDLE_LOOK: Duration = Duration::from_millis(500);

/// How much longer a turn waits at the gate than a reload waits for those inside: when that wait has been in vain the old generation
/// goes on, and with it every turn that was held.
const AFTER_RELOAD: Duration = Duration::from_secs(15);

/// The serving generation, for everyone to read without a message.
#[derive(Debug, Default)]
pub struct Published {
    serving: ArcSwapOption<Generation>,
    /// Those that served before and that somebody may still hold.
    past: Mutex<Vec<Weak<Generation>>>,
    instances: Instances,
    closing: AtomicBool,
    pub(super) reload: ArcSwapOption<Progress>,
    /// Told of each change of what serves, and of what is being made.
    pub(super) changed: Notify,
    barrier: Barrier,
    deferred: ArcSwapOption<Deferred>,
    origins: Arc<Origins>,
    under_way: UnderWay,
}

/// The turns that a reload has waited for in vain.
#[derive(Debug)]
struct Deferred {
    generation: Weak<Generation>,
    turns: Vec<TurnId>,
}

impl Published {
    /// The serving generation; `None` before the first.
    pub fn load(&self) -> Option<Arc<Generation>> {
        self.serving.load_full()
    }

    /// A reload under way, or one that left something that does not serve.
    pub fn reload(&self, now: Instant) -> Option<ReloadStatus> {
        // one that holds nobody hides nothing that does not serve
        let under_way = self.progress(now);
        match under_way.as_ref().is_some_and(ReloadStatus::holds_turns) {
            true => under_way,
            false => self.barrier.status().or(under_way),
        }
    }

    /// What plugins ask from inside of turns and calls is known there.
    pub const fn origins(&self) -> &Arc<Origins> {
        &self.origins
    }

    /// When a turn that waits at the gate gives up: at `usual`, or later where a reload says that it takes longer.
    pub(super) fn gives_up(&self, usual: Instant) -> Instant {
        let until = self.reload.load().as_ref().and_then(|progress| progress.until);
        until.map_or(usual, |until| usual.max(until + AFTER_RELOAD))
    }

    /// The reload that is under way, beyond the registry's actor.
    pub(super) const fn under_way(&self) -> &UnderWay {
        &self.under_way
    }

    /// What failed reloads left behind.
    pub(super) const fn barrier(&self) -> &Barrier {
        &self.barrier
    }

    fn progress(&self, now: Instant) -> Option<ReloadStatus> {
        let progress = self.reload.load_full()?;
        let serving = self.load();
        let waits = progress.waits_for.as_ref().zip(serving);
        let (holders, omitted) = waits
            .map(|(agents, serving)| serving.keepers(agents, &progress.plugins, MOST_HOLDERS, now))
            .unwrap_or_default();
        let left = progress.until.map(|until| until.saturating_duration_since(now));
        Some(ReloadStatus {
            phase: progress.phase,
            plugin_ids: progress.plugins.clone(),
            deadline_in_ms: left.map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX)),
            reason: progress.reason.clone(),
            holders,
            omitted,
            budget: progress.budget,
        })
    }

    /// The serving generation and those that served before it and are still held, the newest first.
    pub fn generations(&self, now: Instant) -> Vec<GenerationStatus> {
        let Some(serving) = self.load() else { return Vec::new() };
        let state = match self.reload.load_full() {
            Some(progress) if progress.waits_for.is_some() => GenerationState::Draining,
            _ if self.barrier.status().is_some() => GenerationState::Failed,
            _ => GenerationState::Serving,
        };
        let mut all = vec![serving.status(state, serving.inventory.calls(), now)];
        all.extend(self.held().iter().map(|old| {
            let calls = old.inventory.calls_but(&serving.inventory);
            old.status(GenerationState::Retiring, calls, now)
        }));
        all
    }

    /// Those that served before and are still held, the newest first.
    fn held(&self) -> Vec<Arc<Generation>> {
        let past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        past.iter().rev().filter_map(Weak::upgrade).collect()
    }

    /// The serving one, and then those.
    pub(super) fn living(&self) -> Vec<Arc<Generation>> {
        self.load().into_iter().chain(self.held()).collect()
    }

    /// Every instance that was published and lives.
    pub(super) const fn instances(&self) -> &Instances {
        &self.instances
    }

    /// Whether a reload that is under way is about this plugin.
    pub(super) fn replaces(&self, plugin: &str) -> bool {
        let progress = self.reload.load();
        progress
            .as_ref()
            .is_some_and(|it| it.phase != "failed" && it.plugins.iter().any(|id| id.eq_ignore_ascii_case(plugin)))
    }

    /// Whether a generation is being made.
    pub fn is_preparing(&self) -> bool {
        let progress = self.reload.load();
        progress
            .as_ref()
            .is_some_and(|it| it.phase != "failed" && it.waits_for.is_none())
    }

    /// Remembers who is inside: what was put off is tried again when they have left.
    pub(super) fn defer(&self, generation: &Arc<Generation>, agents: &Agents) {
        self.deferred.store(Some(Arc::new(Deferred {
            generation: Arc::downgrade(generation),
            turns: generation.inside(agents),
        })));
    }

    /// Waits until the turns that the last reload has waited for in vain have ended. Nobody is held meanwhile.
    pub async fn idle(&self, clock: &Clock) {
        let Some(deferred) = self.deferred.load_full() else {
            return;
        };
        while deferred.is_inside() {
            clock.sleep(IDLE_LOOK).await;
        }
    }

    pub(super) fn show(&self, progress: Option<Progress>) {
        self.reload.store(progress.map(Arc::new));
        self.changed.notify_waiters();
    }

    pub(super) fn store(&self, generation: Arc<Generation>) {
        self.instances.note(&generation);
        let before = self.serving.swap(Some(generation));
        let mut past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        past.retain(|old| old.strong_count() > 0);
        past.extend(before.map(|before| Arc::downgrade(&before)));
        self.changed.notify_waiters();
    }

    /// Whether admission has been closed for good.
    pub fn closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::Release);
    }
}

impl Deferred {
    fn is_inside(&self) -> bool {
        let generation = self.generation.upgrade();
        generation.is_some_and(|it| self.turns.iter().any(|turn| it.has(*turn)))
    }
}
