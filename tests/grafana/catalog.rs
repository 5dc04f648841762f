//! Every series that an expression may name: those of the table, of the process and of Prometheus itself, and what rules record.

use std::collections::{BTreeMap, BTreeSet};

use understudy_actors::telemetry::{Kind, METRICS};

/// What may be done with a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Only grows: `rate` and `increase`.
    Counter,
    /// Goes up and down.
    Gauge,
    /// A counter by `le`: quantiles.
    Bucket,
}

/// One name, and the labels of its series.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) usage: Use,
    pub(crate) labels: BTreeSet<String>,
}

/// What Prometheus adds to each series of a scrape.
const TARGET: [&str; 2] = ["job", "instance"];

/// Rows that the table of metrics does not have yet.
const AHEAD: [(&str, Use, &[&str]); 6] = [
    ("understudy_hooks_in_flight", Use::Gauge, &["hook"]),
    ("understudy_mailbox_depth", Use::Gauge, &["actor"]),
    ("understudy_mailbox_depth_max", Use::Gauge, &["actor"]),
    ("understudy_mailbox_wait_seconds", Use::Bucket, &["actor"]),
    ("understudy_mailbox_rejections_total", Use::Counter, &["actor", "cause"]),
    ("understudy_metrics_series_overflow_total", Use::Counter, &["metric"]),
];

/// What a library exports about the process, and what Prometheus writes about each scrape.
const OTHERS: [(&str, Use); 9] = [
    ("process_cpu_seconds_total", Use::Counter),
    ("process_resident_memory_bytes", Use::Gauge),
    ("process_open_fds", Use::Gauge),
    ("process_max_fds", Use::Gauge),
    ("process_threads", Use::Gauge),
    ("process_start_time_seconds", Use::Gauge),
    ("up", Use::Gauge),
    ("scrape_samples_scraped", Use::Gauge),
    ("scrape_duration_seconds", Use::Gauge),
];

/// The series by name.
pub(crate) struct Catalog(BTreeMap<String, Series>);

impl Catalog {
    /// Without recorded ones.
    pub(crate) fn new() -> Self {
        let mut catalog = Self(BTreeMap::new());
        for (name, usage, labels) in AHEAD {
            catalog.metric(name, usage, labels);
        }
        for (name, usage) in OTHERS {
            catalog.metric(name, usage, &[]);
        }
        for metric in METRICS {
            let usage = match metric.kind {
                Kind::Counter => Use::Counter,
                Kind::Gauge => Use::Gauge,
                Kind::Histogram(_) => Use::Bucket,
            };
            catalog.metric(metric.name, usage, metric.labels);
        }
        catalog
    }

    fn metric(&mut self, name: &str, usage: Use, own: &[&str]) {
        let labels = || own.iter().chain(&TARGET).map(|label| (*label).to_owned());
        if usage != Use::Bucket {
            return self.add(name, usage, labels().collect());
        }
        self.add(
            &format!("{name}_bucket"),
            usage,
            labels().chain(["le".to_owned()]).collect(),
        );
        for part in ["sum", "count"] {
            self.add(&format!("{name}_{part}"), Use::Counter, labels().collect());
        }
    }

    fn add(&mut self, name: &str, usage: Use, labels: BTreeSet<String>) {
        self.0.insert(name.to_owned(), Series { usage, labels });
    }

    /// A rule records under this name.
    pub(crate) fn record(&mut self, name: &str, labels: BTreeSet<String>) {
        self.add(name, Use::Gauge, labels);
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Series> {
        self.0.get(name)
    }
}

/// The names of the gateway's own metrics.
pub(crate) fn own() -> impl Iterator<Item = &'static str> {
    let table = METRICS.iter().map(|metric| metric.name);
    table.chain(AHEAD.iter().map(|(name, ..)| *name))
}

/// The names of what the gateway does not export yet: its own, and those of its process.
pub(crate) fn absent() -> impl Iterator<Item = &'static str> {
    let of_process = OTHERS.iter().map(|(name, _)| *name);
    let own = AHEAD.iter().map(|(name, ..)| *name);
    own.chain(of_process.filter(|name| name.starts_with("process_")))
}

#[test]
fn a_row_of_the_table_is_not_listed_beside_it() {
    let known = |name: &&str| METRICS.iter().any(|metric| metric.name == *name);
    let twice: Vec<_> = AHEAD.iter().map(|(name, ..)| *name).filter(known).collect();
    assert!(
        twice.is_empty(),
        "the table has them by now, take them out of AHEAD: {twice:?}"
    );
}

#[test]
fn a_histogram_is_known_by_its_parts_alone() {
    let catalog = Catalog::new();
    assert!(catalog.find("understudy_turn_duration_seconds").is_none());
    let bucket = catalog
        .find("understudy_turn_duration_seconds_bucket")
        .expect("is there");
    assert_eq!(bucket.usage, Use::Bucket);
    assert!(bucket.labels.contains("le") && bucket.labels.contains("outcome"));
}
