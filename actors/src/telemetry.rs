//! Every metric: how it is recorded and scraped. The table of them is `telemetry/table.rs`; no other folder names one.
//!
//! The app owns its recorder, so that two apps in one process never share a series. Handles are resolved once, when a
//! generation is published, and cached in structs; only rare events look a series up by its labels.

mod candidates;
mod canon;
mod catalog;
mod health;
mod hooks;
mod http;
mod plugins;
mod registry;
mod sessions;
mod table;
mod tools;
mod turns;

use std::sync::Arc;

use arc_swap::ArcSwap;
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Label, Level, Metadata, Recorder};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use understudy_messages::settings::Settings;

pub use candidates::{CandidateMetrics, Candidates};
pub use hooks::{HandlerMetrics, HookOutcome};
pub use http::{HttpMetrics, ROUTES, Route};
pub use plugins::{LoadedAs, ShownPlugin};
pub use registry::AdmissionMetrics;
pub use sessions::{SessionEvent, SessionMetrics, StoreOp};
pub use table::*;
pub use turns::{AgentMetrics, Bounded, InFlight, QueueCause, ServedBy, Shed, StreamEnd, TurnMetrics, TurnResult};

/// The label value of everything that configuration does not list.
pub const OTHER: &str = "other";
/// The label value where there is nothing to name.
pub const NONE: &str = "none";

static METADATA: Metadata<'static> = Metadata::new(module_path!(), Level::INFO, Some(module_path!()));

/// The app's own recorder and its cached handles. One per app, shared by all arbiters.
pub struct Telemetry {
    series: Series,
    scrape: PrometheusHandle,
    candidates: ArcSwap<Candidates>,
    turns: ArcSwap<TurnMetrics>,
    http: HttpMetrics,
    sessions: SessionMetrics,
    plugins: plugins::LastShown,
}

/// Resolves series on the app's recorder.
pub(crate) struct Series(PrometheusRecorder);

impl Series {
    pub(crate) fn counter(&self, metric: &Metric, labels: &[(&'static str, &str)]) -> Counter {
        self.0.register_counter(&key(metric, labels), &METADATA)
    }

    pub(crate) fn gauge(&self, metric: &Metric, labels: &[(&'static str, &str)]) -> Gauge {
        self.0.register_gauge(&key(metric, labels), &METADATA)
    }

    pub(crate) fn histogram(&self, metric: &Metric, labels: &[(&'static str, &str)]) -> Histogram {
        self.0.register_histogram(&key(metric, labels), &METADATA)
    }

    /// A counter that is in the scrape from now on, at zero.
    pub(crate) fn touched(&self, metric: &Metric, labels: &[(&'static str, &str)]) -> Counter {
        let counter = self.counter(metric, labels);
        counter.increment(0);
        counter
    }
}

fn key(metric: &Metric, labels: &[(&'static str, &str)]) -> Key {
    debug_assert!(
        labels.iter().map(|(name, _)| *name).eq(metric.labels.iter().copied()),
        "{} has other labels",
        metric.name
    );
    let labels: Vec<Label> = labels
        .iter()
        .map(|(name, value)| Label::new(*name, (*value).to_owned()))
        .collect();
    Key::from_parts(metric.name, labels)
}

impl Telemetry {
    /// A recorder of its own, with every metric described.
    ///
    /// # Errors
    /// When the table holds a histogram without buckets.
    pub fn new() -> Result<Arc<Self>, metrics_exporter_prometheus::BuildError> {
        let mut builder = PrometheusBuilder::new();
        for metric in METRICS {
            if let Kind::Histogram(buckets) = metric.kind {
                builder = builder.set_buckets_for_metric(Matcher::Full(metric.name.to_owned()), buckets)?;
            }
        }
        let recorder = builder.build_recorder();
        METRICS.iter().for_each(|metric| describe(&recorder, metric));
        let scrape = recorder.handle();
        let series = Series(recorder);
        series
            .gauge(
                &BUILD_INFO,
                &[("version", env!("CARGO_PKG_VERSION")), ("revision", revision())],
            )
            .set(1.0);
        for actor in crate::supervision::ActorKind::ALL {
            let _in_the_scrape = series.touched(&RESTARTS, &[("actor", actor.as_label())]);
            series.gauge(&ACTORS, &[("actor", actor.as_label())]).set(0.0);
        }
        registry::touch(&series);
        let _in_the_scrape = series.touched(&EVENTS_DROPPED, &[("sink", "log")]);
        Ok(Arc::new(Self {
            candidates: ArcSwap::from_pointee(Candidates::default()),
            turns: ArcSwap::from_pointee(TurnMetrics::new(&series, &[])),
            http: HttpMetrics::new(&series),
            sessions: SessionMetrics::new(&series),
            plugins: plugins::LastShown::default(),
            series,
            scrape,
        }))
    }

    /// Resolves the handles of a generation that is about to serve, and touches every series it can produce.
    pub fn install(&self, settings: &Settings) {
        let candidates = Candidates::after(&self.candidates.load(), &self.series, settings);
        self.candidates.store(Arc::new(candidates));
        let agents: Vec<_> = settings.agents.iter().map(|agent| agent.name.clone()).collect();
        self.turns.store(Arc::new(TurnMetrics::new(&self.series, &agents)));
        catalog::touch(&self.series, settings);
    }

    /// Handles by candidate.
    pub fn candidates(&self) -> arc_swap::Guard<Arc<Candidates>> {
        self.candidates.load()
    }

    /// Handles by agent, and those of all turns together.
    pub fn turns(&self) -> arc_swap::Guard<Arc<TurnMetrics>> {
        self.turns.load()
    }

    /// Handles by route.
    pub fn http(&self) -> &HttpMetrics {
        &self.http
    }

    /// Handles of sessions.
    pub const fn sessions(&self) -> &SessionMetrics {
        &self.sessions
    }

    /// Tells which generation serves.
    pub fn generation(&self, number: u64) {
        #[expect(clippy::cast_precision_loss, reason = "a generation number stays far below 2^52")]
        self.series.gauge(&GENERATION, &[]).set(number as f64);
    }

    /// An actor died and was started again.
    pub fn restarted(&self, actor: crate::supervision::ActorKind) {
        self.series
            .counter(&RESTARTS, &[("actor", actor.as_label())])
            .increment(1);
    }

    /// An actor lives until this is dropped.
    pub fn alive(&self, actor: crate::supervision::ActorKind) -> Alive {
        let actors = self.series.gauge(&ACTORS, &[("actor", actor.as_label())]);
        actors.increment(1.0);
        Alive(actors)
    }

    /// Tells how many tasks run.
    pub fn show_tasks(&self, running: usize) {
        #[expect(clippy::cast_precision_loss, reason = "tasks stay far below 2^52")]
        self.series.gauge(&TASKS, &[]).set(running as f64);
    }

    /// A reader of the event tap was too slow for `events` events.
    pub fn events_dropped(&self, sink: &'static str, events: u64) {
        self.series
            .counter(&EVENTS_DROPPED, &[("sink", sink)])
            .increment(events);
    }

    /// Moves recorded samples into their buckets; to be called every few seconds, off the arbiters.
    pub fn upkeep(&self) {
        self.scrape.run_upkeep();
    }

    /// The scrape, in the Prometheus text format. Not for an arbiter: it takes milliseconds.
    pub fn render(&self) -> String {
        self.scrape.render()
    }
}

/// An actor that is counted among those that live.
pub struct Alive(Gauge);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

fn describe(recorder: &PrometheusRecorder, metric: &Metric) {
    let name = KeyName::from_const_str(metric.name);
    match metric.kind {
        Kind::Counter => recorder.describe_counter(name, None, metric.help.into()),
        Kind::Gauge => recorder.describe_gauge(name, None, metric.help.into()),
        Kind::Histogram(_) => recorder.describe_histogram(name, None, metric.help.into()),
    }
}

fn revision() -> &'static str {
    option_env!("UNDERSTUDY_REVISION").unwrap_or("unknown")
}

#[cfg(test)]
mod tests;
