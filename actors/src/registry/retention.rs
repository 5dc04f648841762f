//! Who keeps the instances of one plugin: those that serve, and those that serve no more and still live.

use std::cmp::Reverse;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use serde::Serialize;
use understudy_messages::clock::Instant;
use understudy_messages::ids::{GenerationId, Name};
use understudy_messages::registry::Holder;

use super::generation::Generation;
use super::operation::MOST_HOLDERS;
use super::published::Published;
use crate::plugin::Served;

/// An instance that lives, and who keeps it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Retained {
    /// Its number: no other instance that this gateway has published has it.
    pub instance: u64,
    /// What it is there for: `serving` or `retiring`.
    pub state: &'static str,
    /// The generations that have it and live, the newest first.
    pub generations: Vec<GenerationId>,
    /// Calls that it is at work on, those of turns among them.
    pub calls: u64,
    /// Turns that may call it, calls that belong to none, and its services: the oldest first.
    pub holders: Vec<Holder>,
    /// How many there are of them.
    pub total: usize,
    /// How many of them are not listed.
    pub omitted: usize,
    /// Whether a reload that is under way is to put another one in its place.
    pub replacement_pending: bool,
}

/// Every instance that was published and has not let go of all that it held.
#[derive(Debug, Default)]
pub(super) struct Instances(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    published: u64,
    living: Vec<(u64, Weak<Served>)>,
}

impl Instances {
    /// Numbers those of a generation that are new with it, and forgets those that are gone.
    pub(super) fn note(&self, generation: &Generation) {
        let mut known = self.lock();
        let lives = |served: &Weak<Served>| served.upgrade().is_some_and(|served| !served.is_gone());
        known.living.retain(|(_, served)| lives(served));
        for served in generation.inventory.all_instances() {
            let is_it = |(_, other): &(u64, Weak<Served>)| other.as_ptr() == Arc::as_ptr(served);
            if !known.living.iter().any(is_it) {
                known.published += 1;
                let number = known.published;
                known.living.push((number, Arc::downgrade(served)));
            }
        }
    }

    /// Those of a plugin that live.
    fn of(&self, plugin: &str) -> Vec<(u64, Arc<Served>)> {
        let known = self.lock();
        let living = known
            .living
            .iter()
            .filter_map(|(number, served)| Some((*number, served.upgrade()?)));
        let own = living.filter(|(_, served)| served.id.eq_ignore_ascii_case(plugin) && !served.is_gone());
        own.collect()
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        // nothing in here panics half-way
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Published {
    /// The instances of a plugin that live, the newest first, and who keeps each.
    pub fn retention(&self, plugin: &str, now: Instant) -> Vec<Retained> {
        let generations = self.living();
        let pending = self.replaces(plugin);
        let instances = self.instances().of(plugin).into_iter().rev();
        let retained = instances.map(|(instance, served)| {
            let having = generations.iter().filter(|it| it.inventory.has_instance(&served));
            let having: Vec<&Arc<Generation>> = having.collect();
            let serves = generations
                .first()
                .is_some_and(|serving| serving.inventory.has_instance(&served));
            let (holders, total) = keepers(&served, &having, now);
            Retained {
                instance,
                state: if serves { "serving" } else { "retiring" },
                generations: having.iter().map(|generation| generation.id).collect(),
                calls: served.calls_in_flight(),
                omitted: total - holders.len(),
                holders,
                total,
                replacement_pending: serves && pending,
            }
        });
        retained.collect()
    }
}

/// Those of an instance that generations have, and how many there are.
fn keepers(served: &Served, generations: &[&Arc<Generation>], now: Instant) -> (Vec<Holder>, usize) {
    let plugin: &[Name] = std::slice::from_ref(&served.id);
    let (mut rows, mut total) = (served.callers(now), 0);
    rows.extend(served.services(now));
    for generation in generations {
        let (turns, omitted) = generation.own_holders(&generation.agents_using(plugin), MOST_HOLDERS, now);
        rows.extend(turns);
        total += omitted;
    }
    total += rows.len();
    rows.sort_by_key(|row| Reverse(row.age));
    rows.truncate(MOST_HOLDERS);
    (rows, total)
}
