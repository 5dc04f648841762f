//! `upstream_headers`, `upstream_bodies`: what upstreams received, call by call. Calls beyond those listed are free.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::Complaints;
use super::rules::{HeaderRule, is_part_of};
use crate::seen::{Call, Seen};

/// A request body: texts that it holds or does not hold, and members that it has.
#[derive(Debug, Deserialize)]
pub(crate) struct BodyRule {
    contains: Option<String>,
    not_contains: Option<String>,
    #[serde(flatten)]
    members: Map<String, Value>,
}

impl BodyRule {
    fn admits(&self, body: &str) -> bool {
        let json = serde_json::from_str(body).unwrap_or_default();
        self.contains.as_ref().is_none_or(|text| body.contains(text))
            && self.not_contains.as_ref().is_none_or(|text| !body.contains(text))
            && is_part_of(&Value::Object(self.members.clone()), &json)
    }
}

pub(super) fn bodies(rules: &BTreeMap<String, Vec<BodyRule>>, seen: &Seen, complaints: &mut Complaints) {
    each_call(
        rules,
        seen,
        complaints,
        "upstream_bodies",
        |rule, call, check, complaints| {
            complaints.unless(rule.admits(&call.body), check, rule, &call.body);
        },
    );
}

pub(super) fn headers(
    rules: &BTreeMap<String, Vec<BTreeMap<String, HeaderRule>>>,
    seen: &Seen,
    complaints: &mut Complaints,
) {
    each_call(
        rules,
        seen,
        complaints,
        "upstream_headers",
        |rule, call, check, complaints| {
            for (name, rule) in rule {
                complaints.unless(
                    call.header_admits(name, rule),
                    format!("{check}.{name}"),
                    rule,
                    &call.headers,
                );
            }
        },
    );
}

impl Call {
    /// Secret values can be compared, but not read.
    fn header_admits(&self, name: &str, rule: &HeaderRule) -> bool {
        let present = self.headers.names().any(|it| it.eq_ignore_ascii_case(name));
        match (self.headers.get(name), rule) {
            (None, HeaderRule::Is(value)) if present => self.headers.mention(value),
            (None, _) if present => false,
            (seen, rule) => rule.admits(seen),
        }
    }
}

fn each_call<T>(
    rules: &BTreeMap<String, Vec<T>>,
    seen: &Seen,
    complaints: &mut Complaints,
    key: &str,
    check: impl Fn(&T, &Call, &str, &mut Complaints),
) {
    for (target, rules) in rules {
        for (number, rule) in rules.iter().enumerate() {
            let name = format!("{key}.{target}[{number}]");
            match seen.calls_of(target).nth(number) {
                Some(call) => check(rule, call, &name, complaints),
                None => complaints.add(name, &"a call", &"none"),
            }
        }
    }
}
