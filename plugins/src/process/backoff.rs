//! How long to wait before a child is started again.

use std::time::Duration;

/// The first wait; each further one is twice as long.
const FIRST: Duration = Duration::from_millis(10);
/// The longest wait. A child that lived for longer begins anew.
const LONGEST: Duration = Duration::from_secs(5);

/// The waits between the lives of a child.
#[derive(Debug)]
pub(super) struct Backoff {
    wait: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { wait: FIRST }
    }
}

impl Backoff {
    /// A child lived so long.
    pub(super) fn lived(&mut self, life: Duration) {
        if life > LONGEST {
            self.wait = FIRST;
        }
    }

    /// The next wait.
    pub(super) fn next(&mut self) -> Duration {
        let wait = self.wait;
        self.wait = (wait * 2).min(LONGEST);
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_up_to_five_seconds_until_a_child_lives_for_longer() {
        let mut backoff = Backoff::default();
        let waits: Vec<u128> = (0..11).map(|_| backoff.next().as_millis()).collect();
        assert_eq!(waits, [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5000, 5000]);
        backoff.lived(LONGEST);
        assert_eq!(backoff.next(), LONGEST);
        backoff.lived(LONGEST + FIRST);
        assert_eq!(backoff.next(), FIRST);
    }
}
