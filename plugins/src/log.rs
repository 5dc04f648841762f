//! What plugins say for the log: one line each, without control characters, and not too many.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tracing::Level;
use understudy_messages::clock::{Clock, Instant};
use understudy_messages::ids::Name;

/// The lines that one plugin may say in one [`WINDOW`].
const LINES: u32 = 100;
const WINDOW: Duration = Duration::from_secs(10);
/// The longest line, in characters.
const LONGEST: usize = 500;

/// The log of one plugin.
pub(crate) struct PluginLog {
    plugin: Name,
    clock: Clock,
    said: Mutex<Said>,
}

struct Said {
    since: Instant,
    lines: u32,
}

impl PluginLog {
    pub(crate) fn new(plugin: Name, clock: Clock) -> Self {
        let since = clock.now();
        Self {
            plugin,
            clock,
            said: Mutex::new(Said { since, lines: 0 }),
        }
    }

    /// Says a line, unless there were too many of late.
    pub(crate) fn say(&self, level: Level, words: &str) {
        let Some(left_out) = self.may_speak() else { return };
        let (plugin, words) = (&*self.plugin, plain(words));
        if left_out > 0 {
            tracing::warn!(plugin, left_out, "plugin said too much");
        }
        match level {
            Level::ERROR => tracing::error!(plugin, "{words}"),
            Level::WARN => tracing::warn!(plugin, "{words}"),
            Level::INFO => tracing::info!(plugin, "{words}"),
            _ => tracing::debug!(plugin, "{words}"),
        }
    }

    /// How many lines were left out in the window that has just ended; `None` when this one is left out too.
    fn may_speak(&self) -> Option<u32> {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now();
        let mut left_out = 0;
        if now.duration_since(said.since) >= WINDOW {
            left_out = said.lines.saturating_sub(LINES);
            *said = Said { since: now, lines: 0 };
        }
        said.lines = said.lines.saturating_add(1);
        (said.lines <= LINES).then_some(left_out)
    }
}

/// The level of a name; what is not one is `info`.
pub(crate) fn level(name: Option<&str>) -> Level {
    match name {
        Some("error") => Level::ERROR,
        Some("warn" | "warning") => Level::WARN,
        Some("debug" | "trace") => Level::DEBUG,
        _ => Level::INFO,
    }
}

fn plain(words: &str) -> String {
    let plain = |letter: char| if letter.is_control() { ' ' } else { letter };
    words.trim().chars().map(plain).take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_cut_and_counted() {
        let clock = Clock::movable();
        clock.hold();
        let log = PluginLog::new("p".into(), clock.clone());
        let spoke = (0..150).filter(|_| log.may_speak().is_some()).count();
        assert_eq!(spoke, 100);
        clock.advance(WINDOW);
        assert_eq!(log.may_speak(), Some(50));
        assert_eq!(log.may_speak(), Some(0));
    }

    #[test]
    fn words_are_one_line_without_control_characters() {
        assert_eq!(plain(" a\u{1b}[31m\nb\r\n"), "a [31m b");
        assert_eq!(plain(&"x".repeat(600)).len(), LONGEST);
    }
}
