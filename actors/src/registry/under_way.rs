//! The reload that is under way, and whom it holds. It outlives the registry's actor: the one that is started in the place of one that
//! died takes no other beside it, leaves its gates closed, and is asked from then on.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use actix::dev::ToEnvelope;
use actix::{Addr, Context, Handler, Message, WeakAddr};
use arc_swap::ArcSwapOption;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use understudy_messages::clock::Clock;

use super::RegistryActor;
use super::held::Agents;

/// How long a registry that died is waited for: longer than the longest wait before it is started again.
const RETURN: Duration = Duration::from_secs(15);
/// How many registries may die over one message.
const DEATHS: usize = 3;

/// One reload at most, and the registry that it asks.
#[derive(Default)]
pub(super) struct UnderWay {
    /// Ends it.
    ends: Mutex<Weak<CancellationToken>>,
    held: ArcSwapOption<Agents>,
    registry: ArcSwapOption<WeakAddr<RegistryActor>>,
    came: Notify,
}

impl UnderWay {
    /// One begins, and lasts as long as what is returned is held; `None` where there is one already.
    pub(super) fn begin(&self) -> Option<Arc<CancellationToken>> {
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        if ends.strong_count() > 0 {
            return None;
        }
        let one = Arc::new(CancellationToken::new());
        *ends = Arc::downgrade(&one);
        Some(one)
    }

    /// Gives it up, as far as it still can be.
    pub(super) fn cancel(&self) {
        let ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(one) = ends.upgrade() {
            one.cancel();
        }
    }

    /// Whose gates are closed by it; nobody's from now on where that is `None`.
    pub(super) fn hold(&self, agents: Option<Agents>) {
        self.held.store(agents.map(Arc::new));
    }

    pub(super) fn held(&self) -> Option<Arc<Agents>> {
        self.held.load_full()
    }

    /// A registry has begun.
    pub(super) fn came(&self, registry: &Addr<RegistryActor>) {
        self.registry.store(Some(Arc::new(registry.downgrade())));
        self.came.notify_waiters();
    }

    /// Waits until a registry begins.
    pub(super) fn next(&self) -> tokio::sync::futures::Notified<'_> {
        self.came.notified()
    }

    /// Asks the registry; where it dies over that, the next one. `None` where none comes back.
    pub(super) async fn ask<M>(&self, clock: &Clock, message: M) -> Option<M::Result>
    where
        M: Message<Result: Send> + Clone + Send + 'static,
        RegistryActor: Handler<M>,
        Context<RegistryActor>: ToEnvelope<RegistryActor, M>,
    {
        let until = clock.now() + RETURN;
        let mut dead = Vec::new();
        while dead.len() < DEATHS {
            let next = self.next();
            tokio::pin!(next);
            next.as_mut().enable();
            let registry = self.registry.load().as_ref().and_then(|registry| registry.upgrade());
            match registry.filter(|registry| !dead.contains(registry)) {
                Some(registry) => match registry.send(message.clone()).await {
                    Ok(answer) => return Some(answer),
                    Err(_mailbox) => dead.push(registry),
                },
                None => clock.timeout_at(until, next).await.ok()?,
            }
        }
        None
    }
}

impl fmt::Debug for UnderWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnderWay")
            .field("held", &self.held)
            .finish_non_exhaustive()
    }
}
