//! The one source of time for actors and providers.
//!
//! Production runs on the real clock. Tests over sockets run on the real clock plus an offset that they move forward;
//! whoever sleeps is woken by the move. Tests without sockets pause tokio's clock, which this type follows.

use std::future::Future;
use std::time::{Duration, SystemTime};

use tokio::sync::watch;
pub use tokio::time::Instant;

/// Tells the time and waits for it. Cheap to clone; clones share their offset.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    offset: Option<watch::Sender<Duration>>,
}

/// A future took longer than it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("deadline passed")]
pub struct Elapsed;

impl Clock {
    /// The real clock.
    pub const fn real() -> Self {
        Self { offset: None }
    }

    /// A clock that runs in real time and can be moved forward with [`Clock::advance`].
    pub fn movable() -> Self {
        Self {
            offset: Some(watch::Sender::new(Duration::ZERO)),
        }
    }

    /// Moves a movable clock forward and wakes the sleepers whose time has come. A real clock ignores it.
    pub fn advance(&self, by: Duration) {
        if let Some(offset) = &self.offset {
            offset.send_modify(|sum| *sum += by);
        }
    }

    /// Now, monotonic.
    #[expect(clippy::disallowed_methods, reason = "this is the one place")]
    pub fn now(&self) -> Instant {
        Instant::now() + self.moved()
    }

    /// Now, as people write it.
    pub fn wall(&self) -> SystemTime {
        SystemTime::now() + self.moved()
    }

    /// Waits until `deadline`. **Cancel safety:** safe.
    #[expect(clippy::disallowed_methods, reason = "this is the one place")]
    pub async fn sleep_until(&self, deadline: Instant) {
        let Some(offset) = &self.offset else {
            return tokio::time::sleep_until(deadline).await;
        };
        let mut moves = offset.subscribe();
        loop {
            let moved = *moves.borrow_and_update();
            let Some(real) = deadline.checked_sub(moved) else {
                return;
            };
            tokio::select! {
                () = tokio::time::sleep_until(real) => return,
                changed = moves.changed() => if changed.is_err() {
                    return tokio::time::sleep_until(real).await;
                },
            }
        }
    }

    /// Waits for `duration`. **Cancel safety:** safe.
    pub async fn sleep(&self, duration: Duration) {
        self.sleep_until(self.now() + duration).await;
    }

    /// Runs `future` until `deadline`.
    ///
    /// # Errors
    /// [`Elapsed`] when the deadline came first; the future is dropped.
    pub async fn timeout_at<F: Future>(&self, deadline: Instant, future: F) -> Result<F::Output, Elapsed> {
        tokio::select! {
            biased;
            output = future => Ok(output),
            () = self.sleep_until(deadline) => Err(Elapsed),
        }
    }

    fn moved(&self) -> Duration {
        self.offset.as_ref().map_or(Duration::ZERO, |offset| *offset.borrow())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn moving_the_clock_wakes_a_sleeper() {
        let clock = Clock::movable();
        let deadline = clock.now() + Duration::from_secs(3600);
        let sleeper = clock.sleep_until(deadline);
        let mover = async { clock.advance(Duration::from_secs(3601)) };
        tokio::join!(sleeper, mover);
        assert!(clock.now() >= deadline);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_future_meets_its_deadline() {
        let clock = Clock::real();
        let deadline = clock.now() + Duration::from_secs(5);
        let never = std::future::pending::<()>();
        assert_eq!(clock.timeout_at(deadline, never).await, Err(Elapsed));
    }

    #[tokio::test]
    async fn a_deadline_already_passed_still_lets_a_ready_future_win() {
        let clock = Clock::real();
        assert_eq!(clock.timeout_at(clock.now(), async { 7 }).await, Ok(7));
    }
}
