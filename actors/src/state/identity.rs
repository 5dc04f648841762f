//! Who owns a folder.

use std::fmt;
use std::fs;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use understudy_messages::clock::Clock;

/// A process, so that it is told from every other one: a number is given out again, a number and a start are not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Its number.
    pub pid: u32,
    /// When it began, in ticks since its system began; `None` where the system does not say.
    pub began: Option<u64>,
    /// Since when the folder is its own, in seconds since 1970.
    pub since: u64,
    /// Its machine.
    pub host: String,
    /// The run of that machine's system; `None` where the system does not say.
    pub boot: Option<String>,
    /// Where clients connect, once that is known.
    pub api: Option<SocketAddr>,
    /// Where operators connect, once that is known.
    pub admin: Option<SocketAddr>,
}

impl Identity {
    /// This process.
    pub(super) fn own(clock: &Clock) -> Self {
        Self {
            pid: std::process::id(),
            began: fs::read_to_string("/proc/self/stat").ok().as_deref().and_then(began),
            since: super::records::unix_seconds(clock),
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            boot: fs::read_to_string("/proc/sys/kernel/random/boot_id")
                .ok()
                .map(|id| id.trim().to_owned()),
            api: None,
            admin: None,
        }
    }

    /// Whether it is a process of this machine that has ended. Where the system does not say it counts as alive.
    pub(super) fn is_gone(&self) -> bool {
        let here = rustix::system::uname().nodename().to_string_lossy() == self.host.as_str();
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid));
        let known = here && self.began.is_some();
        known && stat.map_or(true, |stat| began(&stat) != self.began)
    }
}

/// The start of a process, as its system tells it. The name before it is in brackets and may hold anything.
fn began(stat: &str) -> Option<u64> {
    let (_, after) = stat.rsplit_once(')')?;
    after.split_whitespace().nth(19)?.parse().ok()
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} on {} since {}", self.pid, self.host, date(self.since))?;
        if let (Some(api), Some(admin)) = (self.api, self.admin) {
            write!(f, " (API {api}, admin {admin})")?;
        }
        Ok(())
    }
}

/// Seconds since 1970 as people read them.
fn date(seconds: u64) -> String {
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    // years begin in March here, so that the odd day comes last
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_spaces_does_not_hide_the_start() {
        let numbers: Vec<String> = (3..=30).map(|it| it.to_string()).collect();
        let stat = format!("7 (a) b) {}", numbers.join(" "));
        assert_eq!(began(&stat), Some(22));
        assert_eq!(began("nothing"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_that_lives_is_not_gone_and_one_whose_number_was_given_out_again_is() {
        let own = Identity::own(&Clock::real());
        assert!(!own.is_gone());
        let before = Identity {
            began: own.began.map(|began| began + 1),
            ..own.clone()
        };
        assert!(before.is_gone());
        let elsewhere = Identity {
            host: "elsewhere".to_owned(),
            ..before
        };
        assert!(!elsewhere.is_gone(), "nobody knows from here");
    }

    #[test]
    fn seconds_are_told_as_a_date() {
        assert_eq!(date(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(date(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(date(1_798_761_599), "2026-12-31 23:59:59 UTC");
    }
}
