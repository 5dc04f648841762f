//! The event tap: what has happened, for whoever wants to know.
//!
//! Bounded: a reader that is slower than [`CAPACITY`] events loses the oldest ones and is told how many. With no reader an
//! event costs one atomic load.

use std::sync::Arc;

use tokio::sync::broadcast;
use understudy_messages::events::{Event, SharedEvent};

/// How many events wait for the slowest reader.
pub const CAPACITY: usize = 4096;

/// Where events are published. Cheap to clone.
#[derive(Clone, Debug)]
pub struct EventTap(broadcast::Sender<SharedEvent>);

impl Default for EventTap {
    fn default() -> Self {
        Self(broadcast::Sender::new(CAPACITY))
    }
}

impl EventTap {
    /// Publishes an event; it is made only when somebody reads.
    pub fn publish(&self, event: impl FnOnce() -> Event) {
        if self.0.receiver_count() > 0 {
            let _nobody_reads_any_more = self.0.send(Arc::new(event()));
        }
    }

    /// Reads every event from now on.
    pub fn subscribe(&self) -> broadcast::Receiver<SharedEvent> {
        self.0.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use understudy_messages::ids::GenerationId;

    use super::*;

    fn published(number: u64) -> Event {
        Event::GenerationPublished {
            generation: GenerationId(number),
        }
    }

    #[tokio::test]
    async fn a_slow_reader_is_told_how_much_it_missed_and_goes_on() {
        let tap = EventTap::default();
        let mut reader = tap.subscribe();
        for number in 0..CAPACITY as u64 + 3 {
            tap.publish(|| published(number));
        }
        let missed = reader.recv().await.expect_err("the oldest are gone");
        assert!(matches!(missed, broadcast::error::RecvError::Lagged(3)), "{missed:?}");
        reader.recv().await.expect("the rest is there");
    }

    #[test]
    fn without_a_reader_no_event_is_made() {
        EventTap::default().publish(|| panic!("nobody asked"));
    }
}
