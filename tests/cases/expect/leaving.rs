//! `upstream_cancelled_within_ms`, `upstream_connections_open_after`: the gateway leaves what it no longer needs.

use std::collections::BTreeMap;
use std::time::Duration;

use understudy_providers::sim::entries::EndedBy;

use super::{Complaints, within};
use crate::seen::{Call, Seen};

/// The gateway left every call of the target, soon after it began, or after a client left meanwhile.
pub(super) fn cancelled(rules: &BTreeMap<String, u64>, seen: &Seen, complaints: &mut Complaints) {
    for (target, &bound) in rules {
        let check = format!("upstream_cancelled_within_ms.{target}");
        complaints.unless(seen.calls_of(target).next().is_some(), &check, &"a call", &"none");
        for call in seen.calls_of(target) {
            let lasted = call.lasted_since(&seen.leaves);
            let in_time = lasted.is_some_and(|lasted| within(lasted, bound));
            complaints.unless(in_time, &check, &Duration::from_millis(bound), &(lasted, call.end));
        }
    }
}

impl Call {
    /// From the last time a client left during the call, else from its start, until the gateway left; `None` when it
    /// did not leave.
    fn lasted_since(&self, leaves: &[Duration]) -> Option<Duration> {
        let end = self.end.filter(|end| end.by == EndedBy::Peer)?.at;
        let during = leaves.iter().filter(|left| (self.started..=end).contains(*left));
        Some(end.saturating_sub(during.max().copied().unwrap_or(self.started)))
    }
}

pub(super) fn open(rules: &BTreeMap<String, u64>, seen: &Seen, complaints: &mut Complaints) {
    for (target, expected) in rules {
        let open = seen.open_connections.get(target).copied().unwrap_or_default();
        complaints.unless(
            open == *expected,
            format!("upstream_connections_open_after.{target}"),
            expected,
            &open,
        );
    }
}
