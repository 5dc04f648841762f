//! A provider on one arbiter: conducts turns whose lead it is, and makes single attempts for any conductor.

mod conductor;
mod failover;
pub mod ledger;
mod own;
mod pool;

use std::rc::Rc;
use std::sync::Arc;

use actix::{Actor, Addr, AsyncContext, Context, Handler, ResponseFuture};
use understudy_messages::clock::Clock;
use understudy_messages::ports::ProviderPort;
use understudy_messages::provider::{Answered, Attempt, AttemptError, Perform};
use understudy_messages::turn::Performance;
use understudy_providers::Upstream;

pub use failover::{Situation, Step, continuable, next_step};
pub use pool::ProviderPoolActor;

use self::conductor::Conductor;
use self::ledger::LedgerBook;
use self::own::{Own, attempt};
use crate::capacity::Capacities;
use crate::supervision::{EndOfLife, Tasks};
use crate::tap::EventTap;
use crate::telemetry::Telemetry;

/// What every conductor works with.
#[derive(Clone)]
pub struct ProviderContext {
    /// How many attempts a provider may be asked for.
    pub capacities: Arc<Capacities>,
    /// The clock.
    pub clock: Clock,
    /// Where tasks are counted.
    pub tasks: Tasks,
    /// Where attempts are booked.
    pub telemetry: Arc<Telemetry>,
    /// Where events go.
    pub tap: EventTap,
    /// How the candidates are, by generation.
    pub ledgers: Arc<LedgerBook>,
}

/// One provider on one arbiter.
pub struct ProviderActor {
    upstream: Rc<Upstream>,
    context: Arc<ProviderContext>,
    _end: EndOfLife,
}

impl ProviderActor {
    /// An actor in front of `upstream`.
    pub fn new(upstream: Rc<Upstream>, context: ProviderContext, end: EndOfLife) -> Self {
        Self {
            upstream,
            context: Arc::new(context),
            _end: end,
        }
    }

    /// The port to a provider.
    pub fn port(provider: &Addr<Self>) -> ProviderPort {
        ProviderPort {
            perform: provider.clone().recipient(),
            attempt: provider.clone().recipient(),
        }
    }
}

impl Actor for ProviderActor {
    type Context = Context<Self>;
}

impl Handler<Perform> for ProviderActor {
    type Result = ResponseFuture<Performance>;

    fn handle(&mut self, perform: Perform, context: &mut Context<Self>) -> Self::Result {
        let own = Own::new(self.upstream.clone(), context.address().recipient());
        Box::pin(Conductor::new(perform, own, self.context.clone()).run())
    }
}

impl Handler<Attempt> for ProviderActor {
    type Result = ResponseFuture<Result<Answered, AttemptError>>;

    fn handle(&mut self, asked: Attempt, _: &mut Context<Self>) -> Self::Result {
        let (upstream, context) = (self.upstream.clone(), self.context.clone());
        Box::pin(async move { attempt(&upstream, &asked, &context.tasks).await })
    }
}
