//! One cancellation per turn, with a cause. The first cause stands; an attempt's own limit never touches it.

use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;

use crate::failure::CancelCause;

/// Ends a turn from outside. Clones share the cause.
#[derive(Clone, Debug, Default)]
pub struct TurnCancel {
    token: CancellationToken,
    cause: Arc<OnceLock<CancelCause>>,
}

impl TurnCancel {
    /// A turn that nobody has cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels the turn. Only the first cause is kept.
    pub fn cancel(&self, cause: CancelCause) {
        let _first_stands = self.cause.set(cause);
        self.token.cancel();
    }

    /// Why the turn was cancelled, if it was.
    pub fn cause(&self) -> Option<CancelCause> {
        self.cause.get().copied()
    }

    /// Waits for the cancellation. **Cancel safety:** safe.
    pub async fn cancelled(&self) -> CancelCause {
        self.token.cancelled().await;
        self.cause().unwrap_or(CancelCause::Client)
    }

    /// A token that this turn's cancellation cancels, and that can be cancelled alone.
    pub fn child(&self) -> CancellationToken {
        self.token.child_token()
    }

    /// Cancels with `cause` when dropped, unless disarmed.
    pub fn on_drop(&self, cause: CancelCause) -> CancelOnDrop {
        CancelOnDrop {
            cancel: Some((self.clone(), cause)),
        }
    }
}

/// Cancels a turn when its owner goes away.
#[derive(Debug)]
pub struct CancelOnDrop {
    cancel: Option<(TurnCancel, CancelCause)>,
}

impl CancelOnDrop {
    /// The owner is done: dropping does nothing any more.
    pub fn disarm(mut self) {
        self.cancel = None;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let Some((cancel, cause)) = self.cancel.take() {
            cancel.cancel(cause);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_cause_stands() {
        let cancel = TurnCancel::new();
        cancel.cancel(CancelCause::CallerDeadline);
        cancel.cancel(CancelCause::Client);
        assert_eq!(cancel.cancelled().await, CancelCause::CallerDeadline);
    }

    #[test]
    fn cancelling_one_attempt_leaves_the_turn_alone() {
        let cancel = TurnCancel::new();
        cancel.child().cancel();
        assert_eq!(cancel.cause(), None);
    }

    #[test]
    fn a_disarmed_guard_cancels_nothing() {
        let cancel = TurnCancel::new();
        cancel.on_drop(CancelCause::Client).disarm();
        assert_eq!(cancel.cause(), None);
        drop(cancel.on_drop(CancelCause::Client));
        assert_eq!(cancel.cause(), Some(CancelCause::Client));
    }
}
