//! Simulated upstreams, and what goes wrong there.

use std::time::Duration;

use understudy_messages::ids::ModelRef;

use super::super::{Fault, Few, Some0, Upstream};
use super::{duration, needed, size};
use crate::config::field::Field;

pub(super) fn upstreams(field: &Field<'_>) -> Vec<(String, Upstream)> {
    let mut upstreams: Vec<(String, Upstream)> = Vec::new();
    for (name, entry) in field.entries() {
        let upstream = upstream(&entry);
        let Some(target) = ModelRef::parse(&name) else {
            entry.refuse("is not named `provider/model`", "name it like aurora/lead");
            continue;
        };
        let provider = format!("{}/", target.provider);
        let other = |(name, it): &&(String, Upstream)| name.starts_with(&provider) && it.api != upstream.api;
        if upstreams.iter().find(other).is_some() {
            entry.refuse(
                "speaks another wire format than this provider's other models",
                "name another provider",
            );
        }
        upstreams.push((name.to_string(), upstream));
    }
    upstreams
}

fn upstream(field: &Field<'_>) -> Upstream {
    let mut it = Upstream::default();
    field.section(|keys| {
        it.api = keys.key("api").choice().unwrap_or(it.api);
        it.answer = size(&keys.key("answer")).unwrap_or(it.answer);
        it.chunks = keys.key("chunks").whole(Few::RANGE).unwrap_or(it.chunks);
        it.first = duration(keys, "first");
        it.every = duration(keys, "every");
        it.tool_calls = keys.key("tool_calls").whole(Some0::RANGE).unwrap_or_default();
        it.faults = faults(&keys.key("faults"));
    });
    it
}

/// In the order of their times, none within another.
fn faults(field: &Field<'_>) -> Vec<Fault> {
    let mut end = Some(Duration::ZERO);
    let mut faults = Vec::new();
    for item in field.items() {
        item.section(|keys| {
            let what = keys.key("what");
            needed(&what, "say what goes wrong: overloaded");
            let (from, lasts) = (duration(keys, "from"), keys.key("lasts").duration());
            if end.is_none_or(|end| from < end) {
                item.refuse(
                    "begins before the one above it has ended",
                    "give them their order, and `lasts`",
                );
            }
            end = lasts.map(|lasts| from + lasts);
            faults.extend(what.choice().map(|what| Fault { from, lasts, what }));
        });
    }
    faults
}
