//! What a provider may still send after a whole answer: the end of its body. Unread, it would cost the connection.

use std::time::Duration;

use futures::FutureExt;
use reqwest::Response;
use understudy_messages::clock::Clock;

/// How long the end of a body may take.
const PATIENCE: Duration = Duration::from_secs(1);
/// How much may come before it.
const MOST: usize = 64 << 10;

/// A response whose answer has been delivered and whose end has not been read.
pub struct Rest {
    response: Response,
    clock: Clock,
}

impl Rest {
    /// What is left of `response`; `None` when it has ended or broken already.
    pub(super) fn of(mut response: Response, clock: &Clock) -> Option<Self> {
        match response.chunk().now_or_never() {
            Some(Ok(None) | Err(_)) => None,
            Some(Ok(Some(_))) | None => Some(Self {
                response,
                clock: clock.clone(),
            }),
        }
    }

    /// Reads to the end, so that the connection can be used again; gives up after a second or 64 KiB, and the connection
    /// closes.
    pub async fn read(mut self) {
        let deadline = self.clock.now() + PATIENCE;
        let mut left = MOST;
        while let Ok(Ok(Some(bytes))) = self.clock.timeout_at(deadline, self.response.chunk()).await {
            let Some(less) = left.checked_sub(bytes.len()) else {
                return;
            };
            left = less;
        }
    }
}
