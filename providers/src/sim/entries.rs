//! The state of a journal: newest records, exact counts. Pure.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use serde::{Serialize, Serializer};
use understudy_messages::ids::ModelRef;

use super::call::Then;
use super::headers::{Credential, RequestHeaders};
use super::journal::{JournalLimits, Violation};

/// The most targets with counts of their own; what comes later counts as `other/other`.
const MAX_TARGETS: usize = 10_000;
/// The most violations that are kept.
const MAX_VIOLATIONS: usize = 1_000;

/// One call as the upstream saw it. Times count from the simulator's start.
#[derive(Clone, Debug, Serialize)]
pub struct Record {
    /// Who was asked.
    pub target: ModelRef,
    /// The request's number at its script, from 1.
    pub number: u64,
    /// The bearer token or `x-api-key`; prints as a fingerprint.
    pub credential: Option<Credential>,
    /// When the request had been read.
    #[serde(rename = "started_ms", serialize_with = "millis")]
    pub started: Duration,
    /// The request's method.
    pub method: String,
    /// The request's path with its query.
    pub path: String,
    /// The request's headers.
    pub headers: RequestHeaders,
    /// The request's body.
    #[serde(serialize_with = "lossy_text")]
    pub body: Bytes,
    /// The status sent; `None` while none was.
    pub status: Option<u16>,
    /// Bytes of the response, head and framing included.
    pub bytes_written: u64,
    /// How the script ends the call.
    pub then: Then,
    /// How it did end; `None` while it is being played.
    pub end: Option<End>,
}

/// The end of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct End {
    /// When, since the simulator's start.
    #[serde(rename = "at_ms", serialize_with = "millis")]
    pub at: Duration,
    /// Who ended it.
    pub by: EndedBy,
}

/// Who ended a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EndedBy {
    /// The simulator, as its script says.
    Sim,
    /// The client left first.
    Peer,
    /// The simulator was stopped.
    Stop,
}

/// Exact counts of one target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Requests.
    pub calls: u64,
    /// Ended calls by the status that was sent.
    pub statuses: BTreeMap<u16, u64>,
    /// Ended calls that no status was sent to.
    pub unanswered: u64,
    /// Calls that were played to their end.
    pub played: u64,
    /// Calls that the client left.
    pub left: u64,
    /// Calls that the end of the simulator cut.
    pub stopped: u64,
    /// Connections open now that asked this target last.
    pub open_connections: u64,
}

impl Tally {
    /// Calls that have ended, whoever ended them.
    pub fn ended(&self) -> u64 {
        self.played + self.left + self.stopped
    }
}

/// What a journal holds.
#[derive(Debug)]
pub struct Entries {
    limits: JournalLimits,
    records: VecDeque<Record>,
    /// The id of the record at the front.
    first: u64,
    body_bytes: usize,
    tallies: BTreeMap<ModelRef, Tally>,
    open_connections: u64,
    violations: Vec<Violation>,
}

impl Entries {
    pub(crate) fn new(limits: JournalLimits) -> Self {
        Self {
            limits,
            records: VecDeque::new(),
            first: 0,
            body_bytes: 0,
            tallies: BTreeMap::new(),
            open_connections: 0,
            violations: Vec::new(),
        }
    }

    /// The newest records, oldest first.
    pub fn records(&self) -> impl DoubleEndedIterator<Item = &Record> {
        self.records.iter()
    }

    /// The newest records of one target, oldest first.
    pub fn records_of(&self, target: &ModelRef) -> impl DoubleEndedIterator<Item = &Record> {
        self.records.iter().filter(move |it| it.target == *target)
    }

    /// Requests that a target got.
    pub fn calls(&self, target: &ModelRef) -> u64 {
        self.tallies.get(target).map_or(0, |tally| tally.calls)
    }

    /// The counts of every target that was asked.
    pub fn tallies(&self) -> &BTreeMap<ModelRef, Tally> {
        &self.tallies
    }

    /// Connections open now, idle ones included.
    pub fn open_connections(&self) -> u64 {
        self.open_connections
    }

    /// Requests that broke their scripts; the first thousand.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    pub(crate) fn begin(&mut self, record: Record) -> u64 {
        self.tally(&record.target).calls += 1;
        self.body_bytes += record.body.len();
        self.records.push_back(record);
        while self.records.len() > 1 && self.is_over_limits() {
            if let Some(oldest) = self.records.pop_front() {
                self.body_bytes -= oldest.body.len();
                self.first += 1;
            }
        }
        self.first + self.records.len() as u64 - 1
    }

    pub(crate) fn wrote(&mut self, id: u64, status: Option<u16>, bytes: u64) {
        if let Some(record) = self.record(id) {
            record.status = status;
            record.bytes_written += bytes;
        }
    }

    pub(crate) fn end(&mut self, id: u64, target: &ModelRef, status: Option<u16>, end: End) {
        if let Some(record) = self.record(id) {
            record.end = Some(end);
        }
        let tally = self.tally(target);
        match status {
            Some(status) => *tally.statuses.entry(status).or_default() += 1,
            None => tally.unanswered += 1,
        }
        match end.by {
            EndedBy::Sim => tally.played += 1,
            EndedBy::Peer => tally.left += 1,
            EndedBy::Stop => tally.stopped += 1,
        }
    }

    pub(crate) fn violated(&mut self, violation: Violation) {
        if self.violations.len() < MAX_VIOLATIONS {
            self.violations.push(violation);
        }
    }

    pub(crate) fn connection_opened(&mut self) {
        self.open_connections += 1;
    }

    pub(crate) fn connection_closed(&mut self) {
        self.open_connections -= 1;
    }

    pub(crate) fn connection_moved(&mut self, from: Option<&ModelRef>, to: Option<&ModelRef>) {
        if let Some(from) = from {
            self.tally(from).open_connections -= 1;
        }
        if let Some(to) = to {
            self.tally(to).open_connections += 1;
        }
    }

    fn is_over_limits(&self) -> bool {
        self.records.len() > self.limits.records || self.body_bytes > self.limits.body_bytes
    }

    /// The record with this id, unless it was forgotten.
    fn record(&mut self, id: u64) -> Option<&mut Record> {
        let index = usize::try_from(id.checked_sub(self.first)?).ok()?;
        self.records.get_mut(index)
    }

    fn tally(&mut self, target: &ModelRef) -> &mut Tally {
        if self.tallies.len() < MAX_TARGETS || self.tallies.contains_key(target) {
            return self.tallies.entry(target.clone()).or_default();
        }
        let other = ModelRef::new("other", "other");
        self.tallies.entry(other).or_default()
    }
}

fn millis<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64() * 1000.0)
}

fn lossy_text<S: Serializer>(bytes: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&String::from_utf8_lossy(bytes))
}
