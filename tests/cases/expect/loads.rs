//! Steps `load`, whose every request is to be answered, and `rss`: the most that the gateway's process has held by the end of
//! each.

use serde::Deserialize;

use super::Complaints;
use crate::seen::Seen;

/// What a second load may add.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rss {
    second_load_growth_max_percent: u64,
}

pub(super) fn check(seen: &Seen, complaints: &mut Complaints) {
    let (sent, answered) = (seen.loads.sent, seen.loads.answered);
    complaints.unless(
        answered == sent,
        "answers of loads",
        &sent,
        &(answered, &seen.loads.failed),
    );
}

pub(super) fn rss(rule: Option<&Rss>, seen: &Seen, complaints: &mut Complaints) {
    let Some(rule) = rule else { return };
    let holds = match seen.peaks[..] {
        [first, second] => second <= first + first * rule.second_load_growth_max_percent / 100,
        _ => false,
    };
    complaints.unless(holds, "the most memory held by the end of each load", rule, &seen.peaks);
}
