//! `upstream_calls`, `upstream_calls_total`, `order`, and scripts that were asked for more than they hold.

use super::{Complaints, Expect};
use crate::seen::Seen;

pub(super) fn check(expect: &Expect, seen: &Seen, complaints: &mut Complaints) {
    for (target, number) in &expect.upstream_calls {
        let calls = seen.calls_of(target).count() as u64;
        complaints.unless(number.admits(calls), format!("upstream_calls.{target}"), number, &calls);
    }
    if let Some(number) = expect.upstream_calls_total {
        let calls = seen.calls.len() as u64;
        complaints.unless(number.admits(calls), "upstream_calls_total", &number, &calls);
    }
    if let Some(order) = &expect.order {
        let mut asked: Vec<_> = seen.calls.iter().map(|call| &call.target).collect();
        asked.dedup();
        complaints.unless(asked.iter().copied().eq(order), "order", order, &asked);
    }
    for target in &seen.violations {
        complaints.add(format!("script of {target}"), &"no further request", &"one more");
    }
}
