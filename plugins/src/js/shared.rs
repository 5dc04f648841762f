//! What the threads that call a plugin share with the thread that runs it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use understudy_messages::clock::{Clock, Instant};
use understudy_messages::origin::Origin;

/// For so long may code of the engine itself go on after nobody waits for it; then its thread counts as lost.
const PATIENCE: Duration = Duration::from_secs(1);

/// Threads that were given up because they could not be interrupted, since this process began.
static ABANDONED: AtomicU64 = AtomicU64::new(0);

/// How many threads of plugins were given up, since this process began: each went on with something that cannot be
/// interrupted after its instance was closed.
pub fn abandoned_threads() -> u64 {
    ABANDONED.load(Ordering::Relaxed)
}

/// One instance, seen from both sides.
pub(super) struct Shared {
    /// Fires when the instance is closed: no call is taken, and none is answered.
    pub(super) closed: CancellationToken,
    /// Fires when the thread has ended and all of the engine is gone.
    pub(super) ended: CancellationToken,
    /// Told when somebody stopped waiting.
    pub(super) wake: Notify,
    given_up: Mutex<Vec<u64>>,
    given_up_ever: AtomicU64,
    /// Odd while code of the plugin runs.
    step: AtomicU64,
    /// In which step somebody stopped waiting, and when.
    stuck: Mutex<Option<(u64, Instant)>>,
    abandoned: AtomicBool,
}

impl Shared {
    pub(super) fn new() -> Self {
        Self {
            closed: CancellationToken::new(),
            ended: CancellationToken::new(),
            wake: Notify::new(),
            given_up: Mutex::default(),
            given_up_ever: AtomicU64::new(0),
            step: AtomicU64::new(0),
            stuck: Mutex::default(),
            abandoned: AtomicBool::new(false),
        }
    }

    /// Code of the plugin begins or ends.
    pub(super) fn turn_step(&self) {
        self.step.fetch_add(1, Ordering::Release);
    }

    /// How many calls were given up until now.
    pub(super) fn given_up_ever(&self) -> u64 {
        self.given_up_ever.load(Ordering::Acquire)
    }

    /// The calls that were given up since this was last asked.
    pub(super) fn take_given_up(&self) -> Vec<u64> {
        std::mem::take(&mut *lock(&self.given_up))
    }

    /// Whether the thread is lost: the step in which somebody stopped waiting still goes on. Then the instance is closed.
    pub(super) fn is_lost(&self, now: Instant) -> bool {
        let stuck = *lock(&self.stuck);
        let step = self.step.load(Ordering::Acquire);
        let lost = stuck.is_some_and(|(then, since)| then == step && now.duration_since(since) > PATIENCE);
        if lost {
            self.abandon();
        }
        lost
    }

    /// Closes the instance and gives its thread up.
    pub(super) fn abandon(&self) {
        self.closed.cancel();
        if !self.abandoned.swap(true, Ordering::Relaxed) {
            ABANDONED.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether the thread was given up.
    pub(super) fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed)
    }

    fn give_up(&self, call: u64) {
        lock(&self.given_up).push(call);
        self.given_up_ever.fetch_add(1, Ordering::Release);
        let step = self.step.load(Ordering::Acquire);
        let mut stuck = lock(&self.stuck);
        if step % 2 == 1 && stuck.is_none_or(|(then, _)| then != step) {
            *stuck = Some((step, Clock::real().now()));
        }
        drop(stuck);
        self.wake.notify_one();
    }
}

/// Whether somebody still waits for a call.
#[derive(Clone)]
pub(super) struct Interest {
    pub(super) cancel: CancellationToken,
    /// What the call may name itself by.
    pub(super) origin: Option<Origin>,
    dropped: Arc<AtomicBool>,
}

impl Interest {
    pub(super) fn is_over(&self) -> bool {
        self.cancel.is_cancelled() || self.dropped.load(Ordering::Relaxed)
    }
}

/// Held by whoever waits for a call; dropping it before the answer came gives the call up.
pub(super) struct Waiter {
    shared: Arc<Shared>,
    call: u64,
    dropped: Arc<AtomicBool>,
    answered: bool,
}

impl Waiter {
    pub(super) fn new(
        shared: Arc<Shared>,
        call: u64,
        cancel: CancellationToken,
        origin: Option<Origin>,
    ) -> (Self, Interest) {
        let dropped = Arc::new(AtomicBool::new(false));
        let interest = Interest {
            cancel,
            origin,
            dropped: dropped.clone(),
        };
        let waiter = Self {
            shared,
            call,
            dropped,
            answered: false,
        };
        (waiter, interest)
    }

    pub(super) fn answered(mut self) {
        self.answered = true;
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if !self.answered {
            self.dropped.store(true, Ordering::Relaxed);
            self.shared.give_up(self.call);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
