//! The provider that a conductor runs at: what it is asked for needs no message.

use std::panic::AssertUnwindSafe;
use std::rc::Rc;

use actix::Recipient;
use futures::FutureExt;
use understudy_messages::ports::ProviderPort;
use understudy_messages::provider::{Answered, Attempt, AttemptError};
use understudy_providers::Upstream;

use crate::supervision::Tasks;

/// A conductor's own provider actor.
pub(super) struct Own {
    upstream: Rc<Upstream>,
    address: Recipient<Attempt>,
}

impl Own {
    pub(super) fn new(upstream: Rc<Upstream>, address: Recipient<Attempt>) -> Self {
        Self { upstream, address }
    }

    /// What makes the attempts that `port` takes, where that is the conductor's own actor; an actor in its place is not.
    pub(super) fn behind(&self, port: &ProviderPort) -> Option<&Upstream> {
        (port.attempt == self.address).then_some(&self.upstream)
    }
}

/// Makes one attempt. What the provider may still say after its answer is read by a task.
pub(super) async fn attempt(upstream: &Upstream, asked: &Attempt, tasks: &Tasks) -> Result<Answered, AttemptError> {
    let (result, rest) = upstream.attempt(asked).await;
    if let Some(rest) = rest {
        tasks.spawn("end of a body", rest.read());
    }
    result
}

/// What `attempt` came to; `None` where it panicked, which ends it as it would end an actor's task, and nothing else.
pub(super) fn survived<T>(attempt: impl Future<Output = T>) -> impl Future<Output = Option<T>> {
    // combined, not awaited in a block: that would hold the future twice
    AssertUnwindSafe(attempt).catch_unwind().map(Result::ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_panics_comes_to_nothing() {
        assert_eq!(survived(async { 7 }).await, Some(7));
        assert_eq!(survived::<u8>(async { panic!("as its test wants") }).await, None);
    }
}
