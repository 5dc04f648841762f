//! Handles by candidate: attempts, tokens, failovers.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use metrics::{Counter, Histogram};
use understudy_messages::answer::Usage;
use understudy_messages::events::{Decision, FailoverDecided};
use understudy_messages::failure::Reason;
use understudy_messages::ids::{ModelRef, Name};
use understudy_messages::settings::Settings;
use understudy_messages::turn::AttemptOutcome;

use super::health::{self, HealthMetrics};
use super::{
    ATTEMPTS_TOTAL, FAILOVER, FIRST_CHUNK, NONE, OPERATION_DURATION, OTHER, PARSE_FAULTS, SERVER_FIRST_TOKEN, Series,
    TOKEN_USAGE, TOKENS_TOTAL, Telemetry,
};

const CHAT: (&str, &str) = ("gen_ai_operation_name", "chat");
const TOKEN_KINDS: [&str; 5] = ["input", "output", "cache_read", "cache_write", "reasoning"];

/// How many candidates of earlier settings are remembered.
const MOST_RETIRED: usize = 512;

/// The handles of one candidate. Models that configuration does not list share one set per provider.
pub struct CandidateMetrics {
    ok: Counter,
    cancelled: Counter,
    errors: [Counter; Reason::ALL.len()],
    tokens: [Counter; TOKEN_KINDS.len()],
    usage: [Histogram; 2],
    duration_ok: Histogram,
    duration_errors: [Histogram; Reason::ALL.len()],
    first_chunk: Histogram,
    parse_faults: Counter,
    pub(super) health: HealthMetrics,
}

impl CandidateMetrics {
    fn new(series: &Series, provider: &str, model: &str) -> Self {
        let labels = [("provider", provider), ("model", model)];
        let attempts = |outcome, reason| {
            let [provider, model] = labels;
            series.touched(
                &ATTEMPTS_TOTAL,
                &[provider, model, ("outcome", outcome), ("reason", reason)],
            )
        };
        let genai = [
            CHAT,
            ("gen_ai_provider_name", provider),
            ("gen_ai_request_model", model),
        ];
        let [operation, name, request] = genai;
        let duration =
            |error| series.histogram(&OPERATION_DURATION, &[operation, name, request, ("error_type", error)]);
        let usage = |kind| series.histogram(&TOKEN_USAGE, &[operation, name, request, ("gen_ai_token_type", kind)]);
        Self {
            ok: attempts("ok", NONE),
            cancelled: attempts("cancelled", NONE),
            errors: Reason::ALL.map(|reason| attempts("error", reason.as_label())),
            tokens: TOKEN_KINDS.map(|kind| {
                let [provider, model] = labels;
                series.touched(&TOKENS_TOTAL, &[provider, model, ("kind", kind)])
            }),
            usage: [usage("input"), usage("output")],
            duration_ok: duration(""),
            duration_errors: Reason::ALL.map(|reason| duration(reason.as_label())),
            first_chunk: series.histogram(&FIRST_CHUNK, &genai),
            parse_faults: series.touched(&PARSE_FAULTS, &[("provider", provider)]),
            health: HealthMetrics::new(series, provider, model),
        }
    }

    /// Books one upstream call.
    pub fn attempt(&self, outcome: &AttemptOutcome, duration: Duration) {
        match outcome {
            AttemptOutcome::Ok => {
                self.ok.increment(1);
                self.duration_ok.record(duration);
            }
            AttemptOutcome::Cancelled => self.cancelled.increment(1),
            AttemptOutcome::Error { reason, .. } => {
                self.errors[*reason as usize].increment(1);
                self.duration_errors[*reason as usize].record(duration);
            }
        }
    }

    /// Books the time to the first content of a stream.
    pub fn first_content(&self, after: Duration) {
        self.first_chunk.record(after);
    }

    /// Books frames that could not be read.
    pub fn parse_faults(&self, frames: u32) {
        self.parse_faults.increment(u64::from(frames));
    }

    /// Books the tokens that the provider reported.
    pub fn tokens(&self, usage: &Usage) {
        let counts = [
            usage.input,
            usage.output,
            usage.cache_read,
            usage.cache_write,
            usage.reasoning,
        ];
        for (counter, count) in self.tokens.iter().zip(counts) {
            counter.increment(count);
        }
        #[expect(clippy::cast_precision_loss, reason = "token counts stay far below 2^52")]
        for (histogram, count) in self.usage.iter().zip(counts) {
            histogram.record(count as f64);
        }
    }
}

/// The handles of a generation's candidates.
#[derive(Default)]
pub struct Candidates {
    listed: HashMap<ModelRef, CandidateMetrics>,
    unlisted: HashMap<Name, CandidateMetrics>,
    /// Listed by earlier settings only: turns that began under those are still booked.
    retired: HashMap<ModelRef, CandidateMetrics>,
    requested: HashMap<Name, Histogram>,
    requested_other: Option<Histogram>,
}

impl Candidates {
    pub(super) fn new(series: &Series, settings: &Settings) -> Self {
        let listed = settings.listed();
        touch_failovers(series, settings);
        health::touch(series, &settings.providers.keys().collect::<Vec<_>>());
        let first_token = |name: &str| series.histogram(&SERVER_FIRST_TOKEN, &[CHAT, ("gen_ai_request_model", name)]);
        Self {
            retired: HashMap::new(),
            unlisted: settings
                .providers
                .iter()
                .filter(|(_, provider)| provider.models.is_none() || provider.catalog.is_some())
                .map(|(name, _)| (name.clone(), CandidateMetrics::new(series, name, OTHER)))
                .collect(),
            requested: settings
                .aliases
                .keys()
                .map(|alias| (alias.clone(), first_token(alias)))
                .collect(),
            requested_other: Some(first_token(OTHER)),
            listed: listed
                .into_iter()
                .map(|model| {
                    let metrics = CandidateMetrics::new(series, &model.provider, &model.model);
                    (model, metrics)
                })
                .collect(),
        }
    }

    /// The handles of settings that come after those of `before`.
    pub(super) fn after(before: &Self, series: &Series, settings: &Settings) -> Self {
        let mut candidates = Self::new(series, settings);
        let known = before.listed.keys().chain(before.retired.keys());
        let retired = known.filter(|model| !candidates.listed.contains_key(model));
        let retired = retired.take(MOST_RETIRED).map(|model| {
            let metrics = CandidateMetrics::new(series, &model.provider, &model.model);
            metrics.health.hide();
            (model.clone(), metrics)
        });
        candidates.retired = retired.collect();
        candidates
    }

    /// The handles of `model`; those of its provider's unlisted models when it is not listed.
    pub fn get(&self, model: &ModelRef) -> Option<&CandidateMetrics> {
        let named = self.listed.get(model).or_else(|| self.retired.get(model));
        named.or_else(|| self.unlisted.get(&model.provider))
    }

    /// Books the time from the request to the first content byte for the caller.
    pub fn first_token(&self, requested: &str, after: Duration) {
        if let Some(histogram) = self.requested.get(requested).or(self.requested_other.as_ref()) {
            histogram.record(after);
        }
    }

    /// The listed candidates.
    pub(super) fn listed(&self) -> impl Iterator<Item = (&ModelRef, &CandidateMetrics)> {
        self.listed.iter()
    }

    pub(super) fn labels<'a>(&self, model: &'a ModelRef) -> (&'a str, &'a str) {
        let name = if self.listed.contains_key(model) || self.retired.contains_key(model) {
            &*model.model
        } else {
            OTHER
        };
        (&model.provider, name)
    }
}

/// Touches the failovers that the configured chains can produce: each edge to a later model, and each surfaced error.
fn touch_failovers(series: &Series, settings: &Settings) {
    let mut edges = BTreeSet::new();
    let agents: Vec<Vec<ModelRef>> = settings
        .agents
        .iter()
        .map(|agent| agent.chain().cloned().collect())
        .collect();
    for chain in settings.aliases.values().chain(&agents) {
        for (place, from) in chain.iter().enumerate() {
            edges.insert((from, None));
            edges.extend(chain.iter().skip(place + 1).map(|to| (from, Some(to))));
        }
    }
    for (from, to) in edges {
        let decision = if to.is_some() {
            Decision::FallbackModel
        } else {
            Decision::SurfaceError
        };
        let from = (&*from.provider, &*from.model);
        let to = to.map_or((NONE, NONE), |to| (&*to.provider, &*to.model));
        for reason in Reason::ALL {
            let _in_the_scrape = series.touched(&FAILOVER, &failover_labels(from, to, reason, decision));
        }
    }
}

fn failover_labels<'a>(
    from: (&'a str, &'a str),
    to: (&'a str, &'a str),
    reason: Reason,
    decision: Decision,
) -> [(&'static str, &'a str); 6] {
    [
        ("from_provider", from.0),
        ("from_model", from.1),
        ("to_provider", to.0),
        ("to_model", to.1),
        ("reason", reason.as_label()),
        ("decision", decision.as_label()),
    ]
}

impl Telemetry {
    /// Books what was done about a failed attempt.
    pub fn failover(&self, decided: &FailoverDecided) {
        let candidates = self.candidates.load();
        let from = candidates.labels(&decided.from);
        let to = decided.to.as_ref().map_or((NONE, NONE), |to| candidates.labels(to));
        let labels = failover_labels(from, to, decided.reason, decided.decision);
        self.series.counter(&FAILOVER, &labels).increment(1);
    }
}
