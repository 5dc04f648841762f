//! What processes and threads use, as `/proc` tells.

use std::fs;
use std::time::Duration;

/// The length of a tick in `/proc/<pid>/stat`: user space sees 100 a second on every Linux.
const TICK: Duration = Duration::from_millis(10);

/// What a process has used.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Usage {
    /// CPU time of all its threads, to a tick.
    pub(crate) cpu: Duration,
    /// Resident memory in bytes.
    pub(crate) rss: u64,
}

impl Usage {
    /// Of a process on this machine; `None` when there is none with this id, or no `/proc`.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        Some(Self {
            cpu: cpu_in(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?,
            rss: rss_in(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?)?,
        })
    }
}

/// CPU time of the thread that asks.
pub(crate) fn cpu_of_this_thread() -> Option<Duration> {
    cpu_in(&fs::read_to_string("/proc/thread-self/stat").ok()?)
}

fn cpu_in(stat: &str) -> Option<Duration> {
    // the second field is a name in parentheses that may hold anything
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut ticks = fields.split(' ').skip(11).map(|field| field.parse::<u32>().ok());
    Some(TICK * ticks.next()??.saturating_add(ticks.next()??))
}

fn rss_in(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_memory_are_read_whatever_the_program_is_called() {
        let stat = "42 (a) S (b) R 1 1 1 0 -1 4194304 1 0 0 0 120 30 0 0 20 0 4 0 1 1 1";
        assert_eq!(cpu_in(stat), Some(Duration::from_millis(1500)));
        assert_eq!(rss_in("Name:\tx\nVmRSS:\t    2048 kB\n"), Some(2 << 20));
        assert_eq!((cpu_in(""), rss_in("")), (None, None));
    }

    #[test]
    fn a_process_that_is_not_there_uses_nothing() {
        assert!(Usage::of(std::process::id()).is_some_and(|usage| usage.rss > 0));
        assert_eq!(Usage::of(u32::MAX), None);
    }
}
