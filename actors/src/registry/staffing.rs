//! The providers of new settings, on every arbiter: started before the settings serve.

use std::sync::Arc;

use actix::Addr;
use understudy_messages::ids::{GenerationId, ShardIndex};
use understudy_messages::registry::{StartProviders, StartProvidersError};
use understudy_messages::settings::Settings;

use super::RegistryActor;
use super::generation::{Generation, Shard};
use super::operation::{ArbiterChanged, Swap};

/// How often a publication is tried again because an arbiter has come anew meanwhile.
const ATTEMPTS: usize = 5;

/// New settings that cannot serve.
#[derive(Debug, thiserror::Error)]
pub(super) enum StaffError {
    /// An arbiter has died and is not back yet.
    #[error("A session arbiter is being started again. What served before goes on; try again in a second.")]
    ArbiterGone,
    /// One cannot reach providers.
    #[error("The providers could not be started: {0}. What served before goes on.")]
    Providers(#[from] StartProvidersError),
    /// The registry died.
    #[error("The registry is being started again. Try again in a second.")]
    RegistryGone,
}

/// The arbiters of `serving`, each with the providers of `settings`: those that are unchanged are the ones that it has.
pub(super) async fn staff(serving: &Generation, settings: &Arc<Settings>) -> Result<Vec<Arc<Shard>>, StaffError> {
    let mut shards = Vec::with_capacity(serving.shard_count());
    for index in 0..serving.shard_count() {
        let shard = serving.shard(ShardIndex(index)).ok_or(StaffError::ArbiterGone)?;
        let pool = shard.pool.get().ok_or(StaffError::ArbiterGone)?;
        let settings = settings.clone();
        let started = pool.send(StartProviders { settings }).await;
        let providers = started.map_err(|_mailbox| StaffError::ArbiterGone)??;
        shards.push(Arc::new(Shard {
            sessions: shard.sessions.clone(),
            pool: shard.pool.clone(),
            providers,
        }));
    }
    Ok(shards)
}

/// Lets `swap` serve; an arbiter that has come anew since its providers were started is given them again.
pub(super) async fn publish(
    registry: &Addr<RegistryActor>,
    serving: &Generation,
    mut swap: Swap,
) -> Result<GenerationId, StaffError> {
    for _attempt in 0..ATTEMPTS {
        match registry.send(swap.clone()).await {
            Ok(Ok(generation)) => return Ok(generation),
            Ok(Err(ArbiterChanged)) => swap.shards = Some(staff(serving, swap.inventory.serves()).await?),
            Err(_mailbox) => return Err(StaffError::RegistryGone),
        }
    }
    Err(StaffError::ArbiterGone)
}
