//! The calls that one child is at work on.
//!
//! A call holds its place until the child has answered, also when nobody waits for it any longer: whoever does not answer
//! gets no more work than there are places, and is known by its oldest cancelled call.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use understudy_messages::clock::{Clock, Instant};
use understudy_messages::plugin::CallError;

use super::protocol::ToChild;

/// What a call came to; `None`: the child said nothing of it.
pub(super) type Answer = Result<Option<Value>, CallError>;

/// What is to be written.
pub(super) enum Outgoing {
    /// The line of a call.
    Call(u64, Vec<u8>),
    /// A call is cancelled.
    Cancel(u64),
}

/// The way to one child. Closed when it is gone.
pub(super) struct Link {
    places: Arc<Semaphore>,
    outgoing: mpsc::Sender<Outgoing>,
    calls: Mutex<Calls>,
    cancelled: Notify,
    clock: Clock,
}

#[derive(Default)]
struct Calls {
    last: u64,
    open: HashMap<u64, Open>,
    closed: bool,
}

struct Open {
    /// Whoever waits.
    waits: Option<oneshot::Sender<Answer>>,
    cancelled: Option<Instant>,
    written: bool,
    _place: OwnedSemaphorePermit,
}

/// Cancels its call when it is dropped before the answer has come.
struct Ticket<'a> {
    link: &'a Link,
    number: u64,
}

impl Link {
    /// A way with so many places, and what is to be written to the child.
    pub(super) fn new(places: usize, clock: Clock) -> (Arc<Self>, mpsc::Receiver<Outgoing>) {
        // each call is two lines at most: itself, and that it is cancelled
        let (outgoing, lines) = mpsc::channel(places.saturating_mul(2).max(1));
        let link = Self {
            places: Arc::new(Semaphore::new(places)),
            outgoing,
            calls: Mutex::default(),
            cancelled: Notify::new(),
            clock,
        };
        (Arc::new(link), lines)
    }

    /// Makes a call. Dropping the future cancels it.
    ///
    /// # Errors
    /// What the child said, or [`CallError::Gone`] when it died.
    pub(super) async fn ask(&self, line: impl FnOnce(u64) -> Vec<u8>) -> Answer {
        let gone = |_| CallError::Gone;
        let place = self.places.clone().acquire_owned().await.map_err(gone)?;
        let (ticket, answer) = self.open(place)?;
        let call = Outgoing::Call(ticket.number, line(ticket.number));
        self.outgoing.try_send(call).map_err(|_| CallError::Gone)?;
        answer.await.unwrap_or(Err(CallError::Gone))
    }

    fn open(&self, place: OwnedSemaphorePermit) -> Result<(Ticket<'_>, oneshot::Receiver<Answer>), CallError> {
        let mut calls = self.calls();
        if calls.closed {
            return Err(CallError::Gone);
        }
        calls.last += 1;
        let (waits, answer) = oneshot::channel();
        let open = Open {
            waits: Some(waits),
            cancelled: None,
            written: false,
            _place: place,
        };
        let number = calls.last;
        calls.open.insert(number, open);
        Ok((Ticket { link: self, number }, answer))
    }

    /// The line to write now; `None` where nobody waits for it any longer.
    pub(super) fn line(&self, outgoing: Outgoing) -> Option<Vec<u8>> {
        let mut calls = self.calls();
        match outgoing {
            Outgoing::Call(number, line) => {
                let open = calls.open.get_mut(&number)?;
                if open.waits.is_none() {
                    calls.open.remove(&number);
                    return None;
                }
                open.written = true;
                Some(line)
            }
            Outgoing::Cancel(call) => calls.open.contains_key(&call).then(|| ToChild::Cancel { call }.line()),
        }
    }

    /// The child has answered. An answer that nobody waits for, or to no call, is dropped.
    pub(super) fn answered(&self, number: u64, answer: Answer) {
        let open = self.calls().open.remove(&number);
        if let Some(waits) = open.and_then(|open| open.waits) {
            // whoever has just gone away does not need it
            let _gone = waits.send(answer);
        }
    }

    /// Waits until a cancelled call has had no answer for so long.
    pub(super) async fn hangs(&self, patience: Duration) {
        loop {
            let oldest = self.calls().open.values().filter_map(|open| open.cancelled).min();
            match oldest.map(|since| since + patience) {
                None => self.cancelled.notified().await,
                Some(end) if end <= self.clock.now() => return,
                Some(end) => self.clock.sleep_until(end).await,
            }
        }
    }

    /// Ends all calls: the child is gone.
    pub(super) fn close(&self) {
        self.places.close();
        let mut calls = self.calls();
        calls.closed = true;
        calls.open.clear();
    }

    fn cancel(&self, number: u64) {
        let mut calls = self.calls();
        let Some(open) = calls.open.get_mut(&number) else {
            return;
        };
        open.waits = None;
        open.cancelled = Some(self.clock.now());
        if open.written {
            // there is room for it, or the child is gone
            let _gone = self.outgoing.try_send(Outgoing::Cancel(number));
        }
        self.cancelled.notify_one();
    }

    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.link.cancel(self.number);
    }
}
