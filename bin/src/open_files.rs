//! How many files this process may have open: each turn may take two, its client's connection and its provider's.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors beside those of turns: listeners, files, plugins, clients that ask nothing now.
const SPARE: u64 = 200;

/// Raises the limit as far as so many turns need it and this process may, and says so where that is not enough.
pub(crate) fn make_room(turns: usize) {
    let needed = needed(turns);
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return;
    }
    let allowed = limit.maximum.map_or(needed, |most| most.min(needed));
    let raised = Rlimit {
        current: Some(allowed),
        maximum: limit.maximum,
    };
    let has = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => allowed,
        Err(_) => limit.current.unwrap_or(allowed),
    };
    if has < needed {
        tracing::warn!(
            has,
            needed,
            turns,
            "as many turns as limits.in_flight allows may need more open files than this process may have: \
             raise the limit (ulimit -n) or lower limits.in_flight"
        );
    }
}

fn needed(turns: usize) -> u64 {
    let turns = u64::try_from(turns).unwrap_or(u64::MAX);
    turns.saturating_mul(2).saturating_add(SPARE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_turn_needs_two_files() {
        assert_eq!(needed(10), 2 * 10 + SPARE);
        assert_eq!(needed(usize::MAX), u64::MAX);
    }

    #[test]
    fn what_fits_already_changes_nothing() {
        let before = getrlimit(Resource::Nofile);
        make_room(0);
        assert_eq!(getrlimit(Resource::Nofile), before);
    }
}
