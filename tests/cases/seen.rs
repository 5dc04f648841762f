//! Everything that was seen of a case, as data: what clients got, what upstreams received, what the gateway told.

use std::collections::BTreeMap;
use std::time::Duration;

use understudy::scrape::Scrape;
use understudy_providers::sim::entries::{End, Record};
use understudy_providers::sim::headers::RequestHeaders;
use understudy_providers::sim::journal::Journal;

use crate::hooks::Fired;
use crate::log::Log;
use crate::reply::{Ending, Reply};
use crate::windows::Window;

/// What was seen of one case.
pub(crate) struct Seen {
    /// By request id.
    pub(crate) replies: BTreeMap<String, Reply>,
    pub(crate) calls: Vec<Call>,
    /// By target, idle ones included.
    pub(crate) open_connections: BTreeMap<String, u64>,
    /// Targets that were asked past the end of their script.
    pub(crate) violations: Vec<String>,
    /// When clients left, since the simulator's start.
    pub(crate) leaves: Vec<Duration>,
    pub(crate) fired: Vec<Fired>,
    /// In the order of their steps.
    pub(crate) reloads: Vec<Reloaded>,
    /// Who said what, by session, where a case wants to know.
    pub(crate) transcripts: BTreeMap<String, Vec<String>>,
    pub(crate) loads: Loads,
    /// The most memory that the gateway's process has held until the end of each load, in bytes.
    pub(crate) peaks: Vec<u64>,
    pub(crate) events_missed: u64,
    /// All events, as JSON.
    pub(crate) event_texts: String,
    pub(crate) before: Page,
    pub(crate) after: Page,
    pub(crate) windows: Result<Vec<Window>, String>,
    pub(crate) config_debug: String,
    pub(crate) log: Log,
}

/// One upstream call. Times count from the simulator's start.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) target: String,
    pub(crate) started: Duration,
    pub(crate) end: Option<End>,
    pub(crate) headers: RequestHeaders,
    pub(crate) body: String,
}

/// How the requests of all loads ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loads {
    /// Those that were sent.
    pub(crate) sent: u64,
    /// Those that were answered, to their end.
    pub(crate) answered: u64,
    /// A few of the others.
    pub(crate) failed: Vec<Reply>,
}

impl Loads {
    /// The most replies that are kept.
    const FAILED: usize = 3;

    /// Counts a request by its reply.
    pub(crate) fn note(&mut self, reply: Reply) {
        self.sent += 1;
        let is_answer = reply.status == Some(200) && reply.whole && reply.answer().ending == Ending::Done;
        match is_answer {
            true => self.answered += 1,
            false if self.failed.len() < Self::FAILED => self.failed.push(reply),
            false => {}
        }
    }

    /// Counts those of another client as well.
    pub(crate) fn add(&mut self, other: Self) {
        self.sent += other.sent;
        self.answered += other.answered;
        self.failed.extend(other.failed);
        self.failed.truncate(Self::FAILED);
    }
}

/// How a step that reloads ended.
#[derive(Clone, Debug)]
pub(crate) struct Reloaded {
    pub(crate) step: String,
    /// Whether the case's script makes it fail.
    pub(crate) fails: bool,
    pub(crate) status: u16,
    pub(crate) told: String,
}

/// The metrics page.
#[derive(Default)]
pub(crate) struct Page {
    pub(crate) text: String,
    pub(crate) scrape: Scrape,
}

impl Seen {
    /// The calls of one target, in order.
    pub(crate) fn calls_of(&self, target: &str) -> impl Iterator<Item = &Call> {
        self.calls.iter().filter(move |call| call.target == target)
    }
}

impl Page {
    pub(crate) fn new(text: String) -> Self {
        Self {
            scrape: Scrape::parse(&text),
            text,
        }
    }
}

impl From<&Record> for Call {
    fn from(record: &Record) -> Self {
        Self {
            target: record.target.to_string(),
            started: record.started,
            end: record.end,
            headers: record.headers.clone(),
            body: String::from_utf8_lossy(&record.body).into_owned(),
        }
    }
}

/// The calls of a journal, in order.
pub(crate) fn calls(journal: &Journal) -> Vec<Call> {
    journal.read(|entries| entries.records().map(Call::from).collect())
}

/// Connections open now, by target.
pub(crate) fn open_connections(journal: &Journal) -> BTreeMap<String, u64> {
    journal.read(|entries| {
        let tallies = entries.tallies().iter();
        tallies
            .map(|(target, tally)| (target.to_string(), tally.open_connections))
            .collect()
    })
}
