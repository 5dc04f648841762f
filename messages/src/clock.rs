//! The one source of time for actors and providers.
//!
//! Production runs on the real clock. Tests over sockets run on the real clock plus an offset that they move forward, or
//! on a clock that they hold and move by hand; whoever sleeps is woken by the move. Tests without sockets pause tokio's
//! clock, which this type follows.

use std::future::Future;
use std::time::{Duration, SystemTime};

use tokio::sync::watch;
pub use tokio::time::Instant;

/// Tells the time and waits for it. Cheap to clone; clones share their offset.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    motion: Option<watch::Sender<Motion>>,
}

/// How a movable clock differs from the real one.
#[derive(Clone, Copy, Debug, Default)]
struct Motion {
    offset: Duration,
    /// The real time at which it is held, if it is.
    held: Option<(Instant, SystemTime)>,
}

/// A future took longer than it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("deadline passed")]
pub struct Elapsed;

impl Clock {
    /// The real clock.
    pub const fn real() -> Self {
        Self { motion: None }
    }

    /// A clock that runs in real time, and can be moved forward with [`Clock::advance`] and held with [`Clock::hold`].
    pub fn movable() -> Self {
        Self {
            motion: Some(watch::Sender::default()),
        }
    }

    /// Moves a movable clock forward and wakes the sleepers whose time has come. A real clock ignores it.
    pub fn advance(&self, by: Duration) {
        self.change(|motion| motion.offset += by);
    }

    /// Holds a movable clock: from now on it moves by [`Clock::advance`] only. A real clock ignores it.
    #[expect(clippy::disallowed_methods, reason = "this is the one place")]
    pub fn hold(&self) {
        self.change(|motion| motion.held = motion.held.or_else(|| Some((Instant::now(), SystemTime::now()))));
    }

    /// Lets a held clock run again, from the real time on.
    pub fn release(&self) {
        self.change(|motion| motion.held = None);
    }

    /// Now, monotonic.
    #[expect(clippy::disallowed_methods, reason = "this is the one place")]
    pub fn now(&self) -> Instant {
        let motion = self.motion();
        motion.held.map_or_else(Instant::now, |(now, _)| now) + motion.offset
    }

    /// Now, as people write it.
    pub fn wall(&self) -> SystemTime {
        let motion = self.motion();
        motion.held.map_or_else(SystemTime::now, |(_, wall)| wall) + motion.offset
    }

    /// Waits until `deadline`. **Cancel safety:** safe.
    #[expect(clippy::disallowed_methods, reason = "this is the one place")]
    pub async fn sleep_until(&self, deadline: Instant) {
        let Some(motion) = &self.motion else {
            return tokio::time::sleep_until(deadline).await;
        };
        let mut moves = motion.subscribe();
        loop {
            let Motion { offset, held } = *moves.borrow_and_update();
            let Some(real) = deadline.checked_sub(offset) else {
                return;
            };
            if held.is_some_and(|(now, _)| now >= real) {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep_until(real), if held.is_none() => return,
                // never fails: `self` is a sender
                _ = moves.changed() => {}
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

    fn motion(&self) -> Motion {
        self.motion
            .as_ref()
            .map_or_else(Motion::default, |motion| *motion.borrow())
    }

    fn change(&self, change: impl FnOnce(&mut Motion)) {
        if let Some(motion) = &self.motion {
            motion.send_modify(change);
        }
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

    #[tokio::test]
    async fn a_held_clock_stands_still_until_it_is_moved() {
        let clock = Clock::movable();
        clock.hold();
        let (began, wall) = (clock.now(), clock.wall());
        let second = Duration::from_secs(1);
        let sleeper = clock.sleep_until(began + second);
        let mover = async {
            assert_eq!((clock.now(), clock.wall()), (began, wall));
            clock.advance(second);
        };
        tokio::join!(sleeper, mover);
        assert_eq!((clock.now(), clock.wall()), (began + second, wall + second));
    }

    #[tokio::test]
    async fn a_clock_that_is_released_wakes_its_sleepers_by_itself() {
        let clock = Clock::movable();
        clock.hold();
        let deadline = clock.now() + Duration::from_millis(5);
        let sleeper = clock.sleep_until(deadline);
        tokio::join!(sleeper, async { clock.release() });
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
