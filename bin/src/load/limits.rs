//! What the system allows this process, and where it lets it run.

use std::fs;
use std::io;

use rustix::process::{Pid, Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_setaffinity};

/// Descriptors beside those of connections: listeners, files, pipes, the simulator's side.
const SPARE_FILES: u64 = 200;

/// A core of this machine.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Core {
    /// For the gateway that is measured.
    Measured,
    /// For driver and simulator.
    Other,
}

/// Has all threads of this process, and those that it will start, run on one core alone.
///
/// # Errors
/// There is no such core, or this process may not use it.
pub(crate) fn move_to(core: Core) -> io::Result<()> {
    let mut only = CpuSet::new();
    only.set(match core {
        Core::Measured => 0,
        Core::Other => 1,
    });
    for thread in fs::read_dir("/proc/self/task")? {
        let id = thread?.file_name().to_str().and_then(|id| id.parse().ok());
        match sched_setaffinity(id.and_then(Pid::from_raw), &only) {
            // the thread has ended meanwhile
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// There are not enough file descriptors, nor may this process have more.
#[derive(Debug, thiserror::Error)]
#[error(
    "{connections} connections need {needed} open files and {allowed} are allowed: raise the limit (ulimit -n {needed}) or lower `connections`"
)]
pub(crate) struct TooFewFiles {
    connections: u32,
    needed: u64,
    allowed: u64,
}

/// Makes room for so many connections, at both ends of which this process may stand; children have the same limit.
///
/// # Errors
/// The hard limit is too low.
pub(crate) fn make_room(connections: u32) -> Result<(), TooFewFiles> {
    // the simulator may hold one for each turn under way
    let needed = 2 * u64::from(connections) + SPARE_FILES;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    let allowed = limit.maximum.unwrap_or(u64::MAX);
    let raised = Rlimit {
        current: Some(needed),
        maximum: limit.maximum,
    };
    match needed <= allowed && setrlimit(Resource::Nofile, raised).is_ok() {
        true => Ok(()),
        false => Err(TooFewFiles {
            connections,
            needed,
            allowed,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_that_no_limit_allows_are_refused_with_a_way_out() {
        let error = TooFewFiles {
            connections: 10,
            needed: 220,
            allowed: 100,
        };
        let text = "10 connections need 220 open files and 100 are allowed: raise the limit (ulimit -n 220) or lower `connections`";
        assert_eq!(error.to_string(), text);
        assert!(make_room(1).is_ok());
    }
}
