//! One provider's API.

use std::sync::Arc;

use understudy_messages::clock::Clock;
use understudy_messages::provider::{Answered, Attempt, AttemptError};
use understudy_messages::settings::ProviderSettings;

/// One provider's API, as seen from one arbiter.
pub struct Upstream {
    _settings: Arc<ProviderSettings>,
    _client: reqwest::Client,
    _clock: Clock,
}

impl Upstream {
    /// Asks once.
    pub async fn attempt(&self, _attempt: &Attempt) -> Result<Answered, AttemptError> {
        Err(AttemptError::Cancelled)
    }
}
