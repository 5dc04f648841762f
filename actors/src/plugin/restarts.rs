//! When a plugin whose instance has failed is given another one. Pure; the clock is passed in.

use std::collections::VecDeque;
use std::time::Duration;

use understudy_messages::clock::Instant;

/// As many instances may be begun within [`WINDOW`]; then the plugin stays failed.
const MOST: usize = 5;
const WINDOW: Duration = Duration::from_secs(600);
/// The wait before the first; each further one within the window is four times as long.
const FIRST: Duration = Duration::from_millis(100);

/// The instances that were begun of late.
#[derive(Debug, Default)]
pub(super) struct Restarts {
    begun: VecDeque<Instant>,
}

impl Restarts {
    /// How long to wait before another one is begun; `None`: there were too many.
    pub(super) fn next(&mut self, now: Instant) -> Option<Duration> {
        while self
            .begun
            .front()
            .is_some_and(|begun| now.duration_since(*begun) >= WINDOW)
        {
            self.begun.pop_front();
        }
        let before = u32::try_from(self.begun.len())
            .ok()
            .filter(|_| self.begun.len() < MOST)?;
        self.begun.push_back(now);
        Some(FIRST * 4_u32.pow(before))
    }
}

#[cfg(test)]
mod tests {
    use understudy_messages::clock::Clock;

    use super::*;

    #[test]
    fn waits_grow_until_there_were_too_many_and_old_ones_are_forgotten() {
        let clock = Clock::movable();
        clock.hold();
        let mut restarts = Restarts::default();
        let waits: Vec<_> = (0..6).map(|_| restarts.next(clock.now())).collect();
        let seconds = [100, 400, 1_600, 6_400, 25_600].map(|ms| Some(Duration::from_millis(ms)));
        assert_eq!((&waits[..5], waits[5]), (&seconds[..], None));
        clock.advance(WINDOW);
        assert_eq!(restarts.next(clock.now()), Some(FIRST));
    }
}
