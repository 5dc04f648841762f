//! What one attempt and its provider exchanged, noted as it happens where somebody wants to know it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The sizes and times of one exchange, however it ends. Nothing that anybody said.
#[derive(Debug, Default)]
pub struct Traffic {
    asked: OnceLock<u64>,
    heard: AtomicU64,
    head: OnceLock<Head>,
}

#[derive(Debug)]
struct Head {
    after: Duration,
    request_id: Option<String>,
}

impl Traffic {
    /// The request's body is that large.
    pub fn asked(&self, bytes: usize) {
        let _only_the_first_counts = self.asked.set(count(bytes));
    }

    /// The response has begun, so long after the request. `request_id` is a digest of the provider's name for the request.
    pub fn began(&self, after: Duration, request_id: Option<String>) {
        let _only_the_first_counts = self.head.set(Head { after, request_id });
    }

    /// So much more of the response's body has come.
    pub fn heard(&self, bytes: usize) {
        self.heard.fetch_add(count(bytes), Ordering::Relaxed);
    }

    /// The size of the request's body, in bytes; `None` for a request that was not made.
    pub fn request_bytes(&self) -> Option<u64> {
        self.asked.get().copied()
    }

    /// How much of the response's body has come, in bytes; `None` while there is no response.
    pub fn response_bytes(&self) -> Option<u64> {
        self.head.get().map(|_| self.heard.load(Ordering::Relaxed))
    }

    /// From the request to the first byte of the response.
    pub fn first_byte(&self) -> Option<Duration> {
        self.head.get().map(|head| head.after)
    }

    /// A digest of the provider's name for the request.
    pub fn request_id(&self) -> Option<&str> {
        self.head.get()?.request_id.as_deref()
    }
}

fn count(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_response_nothing_of_one_is_known() {
        let traffic = Traffic::default();
        traffic.asked(7);
        assert_eq!((traffic.request_bytes(), traffic.response_bytes()), (Some(7), None));
        traffic.began(Duration::from_millis(3), None);
        traffic.heard(4);
        traffic.heard(1);
        assert_eq!((traffic.response_bytes(), traffic.request_id()), (Some(5), None));
        assert_eq!(traffic.first_byte(), Some(Duration::from_millis(3)));
    }
}
