//! `responses`: what clients got.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::Complaints;
use super::rules::{AnyOf, HeaderRule, is_part_of, named};
use crate::reply::{Ending, Reply};
use crate::seen::Seen;

/// What one client gets. What is not named is not looked at.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ResponseRule {
    status: Option<AnyOf<u16>>,
    text: Option<AnyOf<String>>,
    tool_calls: Option<Vec<Value>>,
    usage: Option<Value>,
    served_by: Option<String>,
    finish_reason: Option<String>,
    ends_with: Option<EndsWith>,
    header: BTreeMap<String, HeaderRule>,
    body_error: Option<Map<String, Value>>,
    not_content_type: Option<String>,
}

/// The protocol's own last word.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum EndsWith {
    Done,
    ErrorEvent,
    MessageStop,
    #[serde(rename = "response.completed")]
    ResponseCompleted,
}

impl EndsWith {
    fn admits(self, seen: Ending) -> bool {
        match self {
            Self::Done => seen == Ending::Done,
            Self::ErrorEvent => seen == Ending::ErrorEvent,
            Self::MessageStop => seen == Ending::MessageStop,
            Self::ResponseCompleted => seen == Ending::ResponseCompleted,
        }
    }
}

pub(super) fn check(rules: &BTreeMap<String, ResponseRule>, seen: &Seen, complaints: &mut Complaints) {
    for (id, rule) in rules {
        let replies = named(&seen.replies, id);
        complaints.unless(!replies.is_empty(), format!("responses.{id}"), &"a response", &"none");
        for (id, reply) in replies {
            rule.check(reply, &format!("responses.{id}"), complaints);
        }
    }
}

impl ResponseRule {
    fn check(&self, reply: &Reply, id: &str, complaints: &mut Complaints) {
        let answer = reply.answer();
        if let Some(status) = &self.status {
            let admitted = reply.status.is_some_and(|seen| status.admits(&seen));
            complaints.unless(admitted, format!("{id}.status"), status, &reply.transcript());
        }
        if let Some(text) = &self.text {
            complaints.unless(text.admits(&answer.text), format!("{id}.text"), text, &answer.text);
        }
        if let Some(calls) = &self.tool_calls {
            complaints.unless(
                *calls == answer.tool_calls,
                format!("{id}.tool_calls"),
                calls,
                &answer.tool_calls,
            );
        }
        if let Some(usage) = &self.usage {
            let admitted = answer.usage.as_ref() == Some(usage);
            complaints.unless(admitted, format!("{id}.usage"), usage, &answer.usage);
        }
        if let Some(finish) = &self.finish_reason {
            let admitted = answer.finish_reason.as_ref() == Some(finish);
            complaints.unless(admitted, format!("{id}.finish_reason"), finish, &answer.finish_reason);
        }
        if let Some(end) = self.ends_with {
            complaints.unless(
                end.admits(answer.ending),
                format!("{id}.ends_with"),
                &end,
                &answer.ending,
            );
        }
        if let Some(error) = &self.body_error {
            let expected = Value::Object(error.clone());
            let admitted = answer.error.as_ref().is_some_and(|seen| is_part_of(&expected, seen));
            complaints.unless(admitted, format!("{id}.body_error"), error, &answer.error);
        }
        complaints.unless(
            answer.faults.is_empty(),
            format!("{id}: readable"),
            &"no fault",
            &answer.faults,
        );
        self.headers(reply, id, complaints);
    }

    fn headers(&self, reply: &Reply, id: &str, complaints: &mut Complaints) {
        for (name, rule) in &self.header {
            let seen = reply.header(name);
            complaints.unless(rule.admits(seen), format!("{id}.header.{name}"), rule, &seen);
        }
        if let Some(target) = &self.served_by {
            let seen = reply.header("x-understudy-served-by");
            complaints.unless(seen == Some(target), format!("{id}.served_by"), target, &seen);
        }
        if let Some(refused) = &self.not_content_type {
            let seen = reply.header("content-type");
            let admitted = seen.is_some_and(|kind| !kind.starts_with(&**refused));
            complaints.unless(admitted, format!("{id}.not_content_type"), refused, &seen);
        }
    }
}
