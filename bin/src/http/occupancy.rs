//! Who is inside of a bound, and who waits to be: of the gateway, of agents and of providers that have one.

use serde::Serialize;
use understudy_actors::capacity::Whose;
use understudy_messages::ids::Name;
use understudy_messages::settings::{Bound, Settings};

use crate::app::Shared;

/// One bound as it is now.
#[derive(Serialize)]
pub(super) struct Occupancy {
    in_flight: usize,
    waiting: usize,
    /// The most in flight.
    max_concurrent: usize,
    /// The most that wait.
    max_queue: usize,
}

/// A bound by who has it.
#[derive(Serialize)]
pub(super) struct Bounded {
    of: &'static str,
    /// None: the gateway.
    name: Option<Name>,
    #[serde(flatten)]
    occupancy: Occupancy,
}

impl Occupancy {
    /// Of a provider, where it has a bound.
    pub(super) fn of_provider(shared: &Shared, name: &Name, bound: Option<Bound>) -> Option<Self> {
        bound.map(|bound| Self::of(shared, &Whose::Provider(name.clone()), &bound))
    }

    fn of(shared: &Shared, whose: &Whose, bound: &Bound) -> Self {
        let (in_flight, waiting) = shared.capacities.count(whose);
        Self {
            in_flight,
            waiting,
            max_concurrent: bound.most,
            max_queue: bound.queue,
        }
    }
}

/// All bounds: the gateway's, those of agents, those of providers.
pub(super) fn all(shared: &Shared, settings: &Settings) -> Vec<Bounded> {
    // that of the gateway is as it was at the start
    let own = &shared.config.settings.limits;
    let gateway = Bounded {
        of: "gateway",
        name: None,
        occupancy: Occupancy::of(shared, &Whose::Gateway, &own.bound(own.in_flight)),
    };
    let agents = settings.agents.iter().filter_map(|agent| {
        let bound = settings.limits.bound(agent.max_concurrent?);
        Some(Bounded {
            of: "agent",
            name: Some(agent.name.clone()),
            occupancy: Occupancy::of(shared, &Whose::Agent(agent.name.clone()), &bound),
        })
    });
    let providers = settings.providers.values().filter_map(|provider| {
        Some(Bounded {
            of: "provider",
            name: Some(provider.name.clone()),
            occupancy: Occupancy::of_provider(shared, &provider.name, provider.bound)?,
        })
    });
    [gateway].into_iter().chain(agents).chain(providers).collect()
}
