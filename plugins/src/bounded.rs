//! The end of a call, whatever its host does.

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use understudy_messages::plugin::CallError;

/// A call that ends when it is cancelled or its instance stops; then `work` is dropped.
pub(crate) fn bounded<T: Send + 'static>(
    stopped: CancellationToken,
    cancel: CancellationToken,
    work: impl Future<Output = Result<T, CallError>> + Send + 'static,
) -> BoxFuture<'static, Result<T, CallError>> {
    async move {
        tokio::select! {
            biased;
            () = stopped.cancelled() => Err(CallError::Gone),
            () = cancel.cancelled() => Err(CallError::Cancelled),
            done = work => done,
        }
    }
    .boxed()
}
