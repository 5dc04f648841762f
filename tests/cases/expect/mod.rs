//! What a case expects, and one checker for every key. A checker compares; what was seen comes in as data.

pub(crate) mod calls;
pub(crate) mod events;
pub(crate) mod leaving;
pub(crate) mod loads;
pub(crate) mod metrics;
pub(crate) mod received;
pub(crate) mod reloads;
pub(crate) mod responses;
pub(crate) mod rules;
pub(crate) mod state;
pub(crate) mod texts;
pub(crate) mod timing;
pub(crate) mod tools;
pub(crate) mod transcripts;

use std::collections::BTreeMap;
use std::fmt::{self, Debug, Display};

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::seen::Seen;
use events::{EventRule, Hook};
use loads::Rss;
use metrics::{MetricRule, MetricsShape};
use received::BodyRule;
use responses::ResponseRule;
use rules::{HeaderRule, Number};
use state::State;

/// Everything that a case expects. A key that is not here makes the case fail: nobody would check it.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Expect {
    pub(crate) responses: BTreeMap<String, ResponseRule>,
    pub(crate) upstream_calls: BTreeMap<String, Number>,
    pub(crate) upstream_calls_total: Option<Number>,
    pub(crate) order: Option<Vec<String>>,
    pub(crate) upstream_headers: BTreeMap<String, Vec<BTreeMap<String, HeaderRule>>>,
    pub(crate) upstream_bodies: BTreeMap<String, Vec<BodyRule>>,
    pub(crate) upstream_cancelled_within_ms: BTreeMap<String, u64>,
    pub(crate) upstream_connections_open_after: BTreeMap<String, u64>,
    pub(crate) events: Vec<EventRule>,
    pub(crate) metrics: Vec<MetricRule>,
    pub(crate) metrics_shape: MetricsShape,
    pub(crate) state: State,
    pub(crate) timing: BTreeMap<String, Value>,
    pub(crate) never: Vec<String>,
    pub(crate) never_delivered: Vec<String>,
    pub(crate) never_anywhere: Vec<String>,
    pub(crate) logs_contain: Vec<String>,
    /// How long the clock runs on after the last answer.
    pub(crate) wait_ms_after: u64,
    /// Calls of tools that reached somebody who runs them.
    pub(crate) tools_executed: Option<u64>,
    /// Who said what, by session: `user:hi`.
    pub(crate) session_transcript: Option<BTreeMap<String, Vec<String>>>,
    /// A case that has this one is played in a process of its own.
    pub(crate) rss: Option<Rss>,
    /// For people.
    #[serde(rename = "note")]
    _note: IgnoredAny,
    /// For people: where `never_anywhere` looks, which is everywhere.
    #[serde(rename = "where")]
    _where: IgnoredAny,
}

impl Expect {
    /// Whether somebody will look at the log.
    pub(crate) fn searches_the_log(&self) -> bool {
        !self.never_anywhere.is_empty() || !self.logs_contain.is_empty()
    }

    /// Whether somebody will look at what has to be kept of upstream calls, hooks and events.
    pub(crate) fn looks_at_single_calls(&self) -> bool {
        let counts = self.upstream_calls_total.is_some() || self.tools_executed.is_some() || self.order.is_some();
        let any_call = !self.upstream_calls.is_empty()
            || !self.upstream_headers.is_empty()
            || !self.upstream_bodies.is_empty()
            || !self.upstream_cancelled_within_ms.is_empty();
        let any_text = !self.never.is_empty() || self.searches_the_log();
        counts || any_call || any_text || !self.events.is_empty() || !self.timing.is_empty()
    }

    /// Whether somebody will look at calls of tools.
    pub(crate) fn is_about_tools(&self) -> bool {
        let named = self.events.iter().any(|event| event.hook == Hook::BeforeToolCall);
        named || self.tools_executed.is_some()
    }

    /// Every expectation that does not hold.
    pub(crate) fn check(&self, seen: &Seen) -> Complaints {
        let mut complaints = Complaints::default();
        responses::check(&self.responses, seen, &mut complaints);
        calls::check(self, seen, &mut complaints);
        received::headers(&self.upstream_headers, seen, &mut complaints);
        received::bodies(&self.upstream_bodies, seen, &mut complaints);
        leaving::cancelled(&self.upstream_cancelled_within_ms, seen, &mut complaints);
        leaving::open(&self.upstream_connections_open_after, seen, &mut complaints);
        events::check(&self.events, seen, &mut complaints);
        reloads::check(seen, &mut complaints);
        loads::check(seen, &mut complaints);
        loads::rss(self.rss.as_ref(), seen, &mut complaints);
        metrics::check(&self.metrics, seen, &mut complaints);
        metrics::shape(&self.metrics_shape, seen, &mut complaints);
        state::check(&self.state, seen, &mut complaints);
        timing::check(&self.timing, seen, &mut complaints);
        texts::check(self, seen, &mut complaints);
        tools::check(self.tools_executed, seen, &mut complaints);
        transcripts::check(self.session_transcript.as_ref(), seen, &mut complaints);
        complaints
    }
}

/// One expectation that does not hold.
pub(crate) struct Complaint {
    check: String,
    expected: String,
    seen: String,
}

impl Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: expected {}, seen {}", self.check, self.expected, self.seen)
    }
}

/// The expectations that do not hold.
#[derive(Default)]
pub(crate) struct Complaints(Vec<Complaint>);

impl Complaints {
    /// Complains unless it holds.
    pub(crate) fn unless(&mut self, holds: bool, check: impl Display, expected: &dyn Debug, seen: &dyn Debug) {
        if !holds {
            self.0.push(Complaint {
                check: check.to_string(),
                expected: format!("{expected:?}"),
                seen: format!("{seen:?}"),
            });
        }
    }

    /// Complains.
    pub(crate) fn add(&mut self, check: impl Display, expected: &dyn Debug, seen: &dyn Debug) {
        self.unless(false, check, expected, seen);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Complaint> {
        self.0.iter()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
