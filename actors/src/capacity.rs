//! How many turns there may be: in the gateway, of an agent, at a provider. Whoever finds no place waits a little, in a line that
//! is bounded in length and in time, or is refused.
//!
//! A bound goes by its name: what counts against it goes on counting when the settings are replaced.

mod line;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};
use understudy_messages::clock::{Clock, Instant};
use understudy_messages::ids::Name;
use understudy_messages::settings::Bound;

use self::line::{Entry, Line};
use crate::telemetry::{Bounded, Shed, Telemetry};

/// What is bounded.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Whose {
    /// The turns of the gateway.
    Gateway,
    /// The turns of an agent.
    Agent(Name),
    /// The attempts at a provider.
    Provider(Name),
}

impl Whose {
    const fn label(&self) -> Bounded {
        match self {
            Self::Gateway => Bounded::Gateway,
            Self::Agent(_) => Bounded::Agent,
            Self::Provider(_) => Bounded::Provider,
        }
    }
}

/// All bounds of one gateway.
pub struct Capacities {
    by_owner: Mutex<HashMap<Whose, Arc<Capacity>>>,
    clock: Clock,
    telemetry: Arc<Telemetry>,
}

/// One bound: who is inside, and who waits.
#[derive(Debug, Default)]
struct Capacity {
    line: Mutex<Line<oneshot::Sender<CapacityPermit>>>,
    left: Notify,
}

/// A place inside of a bound; free again when it drops.
#[derive(Debug)]
#[must_use = "the place is free again at once"]
pub struct CapacityPermit(Arc<Capacity>);

impl Capacities {
    /// Bounds that nobody has met yet.
    pub fn new(clock: Clock, telemetry: Arc<Telemetry>) -> Self {
        Self {
            by_owner: Mutex::default(),
            clock,
            telemetry,
        }
    }

    /// Whether one that came now would have to wait.
    pub fn is_full(&self, whose: &Whose, bound: &Bound) -> bool {
        self.known(whose)
            .is_some_and(|capacity| capacity.line().is_full(bound.most))
    }

    /// A place, where one is free and nobody waits for it.
    pub fn try_enter(&self, whose: &Whose, bound: &Bound) -> Option<CapacityPermit> {
        let capacity = self.of(whose);
        let entered = capacity.line().try_enter(bound.most);
        entered.then(|| CapacityPermit(capacity))
    }

    /// A place: now, or within the wait of the bound and before `until`. `lane` is who shares what becomes free with the others.
    /// **Cancel safety:** a cancelled wait leaves its place in the line. However a wait ends, its length is booked; it is
    /// booked as shed unless it was cancelled or `until` has come.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn enter(
        &self,
        whose: &Whose,
        bound: &Bound,
        lane: &Name,
        until: Option<Instant>,
    ) -> Result<CapacityPermit, Shed> {
        let place = match self.of(whose).come(bound, lane) {
            Came::Inside(permit) => return Ok(permit),
            Came::Waits(place) => Some(place),
            Came::TooMany => None,
        };
        let wait = Wait::begins(self, whose.label());
        let last = wait.began + bound.wait;
        let entered = match place {
            Some(place) => {
                let _counted = self.telemetry.turns().waits(wait.label);
                let until = until.map_or(last, |until| until.min(last));
                place.wait(&self.clock, until).await
            }
            None => Err(Shed::QueueFull),
        };
        let is_late = until.is_some_and(|until| until <= self.clock.now());
        if let Some(why) = entered.as_ref().err().filter(|_| !is_late) {
            self.telemetry.turns().shed(wait.label, *why);
        }
        entered
    }

    /// Nobody waits any longer: those who did are refused.
    pub fn turn_away(&self, whose: &Whose) {
        if let Some(capacity) = self.known(whose) {
            drop(capacity.line().turn_away());
        }
    }

    /// Waits until nobody is inside.
    pub async fn empty(&self, whose: &Whose) {
        if let Some(capacity) = self.known(whose) {
            capacity.empty().await;
        }
    }

    /// How many are inside, and how many wait.
    pub fn count(&self, whose: &Whose) -> (usize, usize) {
        let capacity = self.known(whose);
        capacity.map_or((0, 0), |capacity| {
            let line = capacity.line();
            (line.inside(), line.waiting())
        })
    }

    fn known(&self, whose: &Whose) -> Option<Arc<Capacity>> {
        lock(&self.by_owner).get(whose).cloned()
    }

    /// The bound of this name. Those that nobody is at are forgotten where another one is new.
    fn of(&self, whose: &Whose) -> Arc<Capacity> {
        let mut known = lock(&self.by_owner);
        if let Some(capacity) = known.get(whose) {
            return capacity.clone();
        }
        known.retain(|_, capacity| Arc::strong_count(capacity) > 1);
        known.entry(whose.clone()).or_default().clone()
    }
}

/// A wait of which the length is booked when it drops.
struct Wait<'a> {
    all: &'a Capacities,
    label: Bounded,
    began: Instant,
}

impl<'a> Wait<'a> {
    fn begins(all: &'a Capacities, label: Bounded) -> Self {
        let began = all.clock.now();
        Self { all, label, began }
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let waited = self.all.clock.now().duration_since(self.began);
        self.all.telemetry.turns().queued(self.label.into(), waited);
    }
}

/// What becomes of one that comes.
enum Came<'a> {
    Inside(CapacityPermit),
    Waits(Standing<'a>),
    TooMany,
}

/// One that waits; dropped, it has left the line.
struct Standing<'a> {
    capacity: Arc<Capacity>,
    lane: &'a Name,
    id: u64,
    called: oneshot::Receiver<CapacityPermit>,
}

impl Standing<'_> {
    async fn wait(mut self, clock: &Clock, until: Instant) -> Result<CapacityPermit, Shed> {
        match clock.timeout_at(until, &mut self.called).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_place_lost)) => Err(Shed::QueueFull),
            Err(_elapsed) => Err(Shed::Waited),
        }
    }
}

impl Drop for Standing<'_> {
    fn drop(&mut self) {
        self.capacity.line().give_up(self.lane, self.id);
        self.capacity.call();
    }
}

impl Capacity {
    fn line(&self) -> MutexGuard<'_, Line<oneshot::Sender<CapacityPermit>>> {
        lock(&self.line)
    }

    /// Goes in, or stands in the line. Who has lost its place to it finds out by itself.
    fn come<'a>(self: Arc<Self>, bound: &Bound, lane: &'a Name) -> Came<'a> {
        let mut line = self.line();
        if line.try_enter(bound.most) {
            drop(line);
            return Came::Inside(CapacityPermit(self));
        }
        let (call, called) = oneshot::channel();
        let entry = line.enter(bound, lane, call);
        drop(line);
        let capacity = self;
        match entry {
            Entry::Inside => Came::Inside(CapacityPermit(capacity)),
            Entry::Full => Came::TooMany,
            Entry::Waits { id, lost: _told } => Came::Waits(Standing {
                capacity,
                lane,
                id,
                called,
            }),
        }
    }

    /// Lets in who is next, as many as there are places. One that is gone meanwhile leaves again as its permit drops.
    fn call(self: &Arc<Self>) {
        loop {
            let next = self.line().next();
            let Some(next) = next else { return };
            let _gone_meanwhile = next.send(CapacityPermit(self.clone()));
        }
    }

    async fn empty(&self) {
        loop {
            let left = self.left.notified();
            tokio::pin!(left);
            left.as_mut().enable();
            if self.line().inside() == 0 {
                return;
            }
            left.await;
        }
    }
}

impl Drop for CapacityPermit {
    fn drop(&mut self) {
        self.0.line().leave();
        self.0.call();
        self.0.left.notify_waiters();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
