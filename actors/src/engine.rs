//! Asking a context engine.

use std::sync::Arc;

use serde_json::Value;
use tokio_util::sync::CancellationToken;
use understudy_messages::clock::{Clock, Instant};
use understudy_messages::context::{CallEngine, EngineWork, TurnEngine};
use understudy_messages::hooks::HookContext;
use understudy_messages::plugin::CallError;

/// Asks an engine. **Cancel safety:** dropping the future ends the engine's work.
///
/// # Errors
/// [`CallError`].
pub(crate) async fn ask(
    engine: &TurnEngine,
    work: EngineWork,
    context: Arc<HookContext>,
    clock: &Clock,
    deadline: Instant,
) -> Result<Value, CallError> {
    // dropped when the wait ends, and with it the engine's work
    let cancel = CancellationToken::new();
    let _cancels = cancel.clone().drop_guard();
    let call = CallEngine { work, context, cancel };
    match clock.timeout_at(deadline, engine.port.send(call)).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_mailbox)) => Err(CallError::Gone),
        Err(_elapsed) => Err(CallError::TimedOut),
    }
}
