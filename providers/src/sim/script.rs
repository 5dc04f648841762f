//! The behaviour script: what a simulated upstream does with each request, as it is written in JSON or YAML.
//!
//! Only shapes and their checks; a single call is in `call`, which call is played is decided in `choice`, what it sends in
//! `response`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use understudy_messages::ids::ModelRef;

use super::call::{Call, Connect, millis, yes};
use super::headers::Credential;

/// The model by whose name a script plays what its provider says to those who ask for a list of models. Without one the list
/// is that of its scripts.
pub(crate) const LIST: &str = "(models)";

/// Scripts by target: a map with keys `provider/model`, and `default` for every other model; `provider/(models)` is the
/// provider's list of models. Unknown keys are refused.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(try_from = "BTreeMap<String, Script>")]
pub struct Plan {
    pub(crate) upstreams: BTreeMap<ModelRef, Script>,
    pub(crate) default: Option<Script>,
}

impl TryFrom<BTreeMap<String, Script>> for Plan {
    type Error = ScriptError;

    fn try_from(mut scripts: BTreeMap<String, Script>) -> Result<Self, ScriptError> {
        let default = scripts.remove("default");
        let upstreams = scripts
            .into_iter()
            .map(|(name, script)| match ModelRef::parse(&name) {
                Some(target) => Ok((target, script)),
                None => Err(ScriptError::NoTarget(name)),
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { upstreams, default })
    }
}

/// Why a script cannot be played.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ScriptError {
    #[error("`{0}` is neither `provider/model` nor `default`")]
    NoTarget(String),
    #[error("a script takes either `calls` or a `schedule` that is not empty")]
    Course,
}

/// What one upstream does.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "ScriptFields")]
pub(crate) struct Script {
    pub(crate) course: Course,
    /// Courses of their own for requests that carry one of these keys.
    pub(crate) credentials: BTreeMap<Credential, CallList>,
    pub(crate) key_limit: Option<KeyLimit>,
}

/// What moves a script forward.
#[derive(Clone, Debug)]
pub(crate) enum Course {
    /// Every request takes the next call.
    Calls(CallList),
    /// The time since the start picks the call; the last phase holds for ever. Never empty.
    Schedule(Vec<Phase>),
}

/// Calls in the order in which they are played.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CallList {
    pub(crate) calls: Vec<Arc<Call>>,
    /// Past the end the last call is played again; otherwise a request there breaks the script.
    #[serde(default = "yes")]
    pub(crate) repeat_last: bool,
}

/// One stretch of a schedule.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Phase {
    #[serde(rename = "for_ms", deserialize_with = "millis")]
    pub(crate) lasts: Duration,
    pub(crate) call: Arc<Call>,
}

/// At most `requests` per window and credential; `call` is played beyond.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeyLimit {
    pub(crate) requests: u64,
    #[serde(rename = "per_ms", deserialize_with = "millis")]
    pub(crate) window: Duration,
    pub(crate) call: Arc<Call>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptFields {
    calls: Option<Vec<Arc<Call>>>,
    #[serde(default = "yes")]
    repeat_last: bool,
    schedule: Option<Vec<Phase>>,
    #[serde(default)]
    credentials: BTreeMap<Credential, CallList>,
    key_limit: Option<KeyLimit>,
}

impl TryFrom<ScriptFields> for Script {
    type Error = ScriptError;

    fn try_from(fields: ScriptFields) -> Result<Self, ScriptError> {
        let repeat_last = fields.repeat_last;
        let course = match (fields.calls, fields.schedule) {
            (Some(calls), None) => Course::Calls(CallList { calls, repeat_last }),
            (None, Some(phases)) if !phases.is_empty() => Course::Schedule(phases),
            (Some(_), Some(_)) | (None, Some(_) | None) => return Err(ScriptError::Course),
        };
        Ok(Self {
            course,
            credentials: fields.credentials,
            key_limit: fields.key_limit,
        })
    }
}

impl Script {
    /// Every call of the script.
    pub(crate) fn calls_mut(&mut self) -> impl Iterator<Item = &mut Arc<Call>> {
        let (listed, scheduled) = match &mut self.course {
            Course::Calls(list) => (Some(&mut list.calls), None),
            Course::Schedule(phases) => (None, Some(phases)),
        };
        let keyed = self.credentials.values_mut().flat_map(|l| &mut l.calls);
        listed
            .into_iter()
            .flatten()
            .chain(scheduled.into_iter().flatten().map(|phase| &mut phase.call))
            .chain(keyed)
            .chain(self.key_limit.as_mut().map(|limit| &mut limit.call))
    }

    /// Whether some call of the course is played by the port itself, before there is a connection.
    pub(crate) fn uses_connect(&self) -> bool {
        let plays_port = |call: &Arc<Call>| call.connect != Connect::Accept;
        match &self.course {
            Course::Calls(list) => list.calls.iter().any(plays_port),
            Course::Schedule(phases) => phases.iter().any(|phase| plays_port(&phase.call)),
        }
    }
}

#[cfg(test)]
mod tests;
