//! The providers of one arbiter: started when a generation needs them, kept as long as one does.

use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::Duration;

use actix::{Actor, Addr, Context, Handler, Recipient};
use understudy_messages::ports::{ProviderPort, ProviderPorts, Slot};
use understudy_messages::registry::{StartProviders, StartProvidersError};
use understudy_messages::settings::{ProviderSettings, Settings};
use understudy_providers::Upstream;

use super::{ProviderActor, ProviderContext};
use crate::supervision::{ActorKind, EndOfLife, Supervision};

/// What makes upstreams that share one HTTP client.
type Upstreams = Rc<dyn Fn(Arc<ProviderSettings>) -> Upstream>;

/// Starts the provider actors of one arbiter. It owns none of them: an actor ends when nobody can reach it any more.
pub struct ProviderPoolActor {
    context: ProviderContext,
    supervision: Supervision,
    /// The newest client, and how long it takes to connect at most.
    upstreams: Option<(Duration, Upstreams)>,
    started: Vec<Started>,
    _end: EndOfLife,
}

/// A provider actor, as long as somebody else holds its slot.
struct Started {
    settings: Arc<ProviderSettings>,
    connect: Duration,
    slot: Weak<Slot<ProviderPort>>,
}

impl ProviderPoolActor {
    /// A pool that has started nobody.
    pub fn new(context: ProviderContext, supervision: Supervision, end: EndOfLife) -> Self {
        Self {
            context,
            supervision,
            upstreams: None,
            started: Vec::new(),
            _end: end,
        }
    }

    /// The port to a pool.
    pub fn port(pool: &Addr<Self>) -> Recipient<StartProviders> {
        pool.clone().recipient()
    }

    fn start(&mut self, settings: &Settings) -> Result<ProviderPorts, StartProvidersError> {
        let connect = settings.timeouts.connect;
        let upstreams = self.upstreams(connect)?;
        self.started.retain(|started| started.slot.strong_count() > 0);
        let slots = settings.providers.values().map(|provider| {
            let kept = self.started.iter().find(|started| started.serves(provider, connect));
            match kept.and_then(|started| started.slot.upgrade()) {
                Some(slot) => slot,
                None => self.start_one(provider, connect, upstreams(provider.clone())),
            }
        });
        Ok(slots.collect())
    }

    fn start_one(
        &mut self,
        provider: &Arc<ProviderSettings>,
        connect: Duration,
        upstream: Upstream,
    ) -> Arc<Slot<ProviderPort>> {
        let slot = Arc::new(Slot::default());
        let (context, upstream) = (self.context.clone(), Rc::new(upstream));
        self.started.push(Started {
            settings: provider.clone(),
            connect,
            slot: Arc::downgrade(&slot),
        });
        self.supervision.supervise_for(
            ActorKind::Provider,
            &slot,
            move |end| ProviderActor::new(upstream.clone(), context.clone(), end),
            |slot, addr| slot.set(ProviderActor::port(&addr)),
        );
        slot
    }

    fn upstreams(&mut self, connect: Duration) -> Result<Upstreams, StartProvidersError> {
        if let Some((_, upstreams)) = self.upstreams.as_ref().filter(|(limit, _)| *limit == connect) {
            return Ok(upstreams.clone());
        }
        let client = understudy_providers::http_client(connect);
        let client = client.map_err(|error| StartProvidersError(error.to_string()))?;
        let clock = self.context.clock.clone();
        let upstreams: Upstreams = Rc::new(move |provider| Upstream::new(provider, client.clone(), clock.clone()));
        self.upstreams = Some((connect, upstreams.clone()));
        Ok(upstreams)
    }
}

impl Started {
    fn serves(&self, provider: &Arc<ProviderSettings>, connect: Duration) -> bool {
        self.settings == *provider && self.connect == connect
    }
}

impl Actor for ProviderPoolActor {
    type Context = Context<Self>;
}

impl Handler<StartProviders> for ProviderPoolActor {
    type Result = Result<ProviderPorts, StartProvidersError>;

    fn handle(&mut self, StartProviders { settings }: StartProviders, _: &mut Context<Self>) -> Self::Result {
        self.start(&settings)
    }
}
