//! Who asks next, and when. Pure: the time is passed in, as what has passed since the beginning.
//!
//! Open loop: turns are due at their times, whatever became of those before; a turn whose session still waits for an answer, or
//! that finds no connection, is late, and its latency counts from when it was due. Closed loop: a session is due again when it
//! has its answer and has thought.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::time::Duration;

use super::scenario::{Scenario, Spacing, Step};

/// The most turns that are due and wait; those beyond are not begun.
const MOST_WAITING: usize = 100_000;
/// A ramp begins with this part of the rate, so that there is a first turn.
const LEAST: f64 = 0.02;

/// A turn that is to be begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Turn {
    /// Since the beginning.
    pub(crate) due: Duration,
    pub(crate) session: u32,
    pub(crate) turn: u32,
    /// The step of the arrivals that it belongs to.
    pub(crate) step: usize,
}

/// The turns of one round.
pub(crate) struct Agenda {
    kind: Kind,
    /// Due, and free to be begun.
    ready: VecDeque<Turn>,
    /// Sessions that have a turn under way, with those that wait for it.
    busy: HashMap<u32, VecDeque<Turn>>,
    waiting: usize,
    not_begun: u64,
    closed: bool,
}

enum Kind {
    Open(Open),
    Closed(Closed),
}

struct Open {
    steps: Vec<Step>,
    spacing: Spacing,
    ramp: Duration,
    sessions: u32,
    most: u64,
    step: usize,
    step_ends: Duration,
    next: Duration,
    count: u64,
    random: fastrand::Rng,
}

struct Closed {
    due: BinaryHeap<Reverse<(Duration, u32, u32)>>,
    think: Duration,
    turns: u32,
    end: Option<Duration>,
}

impl Agenda {
    pub(crate) fn new(scenario: &Scenario, seed: u64) -> Self {
        let kind = match &scenario.arrivals {
            Some(arrivals) => Kind::Open(Open {
                steps: arrivals.steps.clone(),
                spacing: arrivals.spacing,
                ramp: scenario.ramp,
                sessions: scenario.sessions,
                most: scenario
                    .turns
                    .map_or(u64::MAX, |turns| u64::from(turns) * u64::from(scenario.sessions)),
                step: 0,
                step_ends: arrivals.steps.first().map(|step| step.lasts).unwrap_or_default(),
                next: Duration::ZERO,
                count: 0,
                random: fastrand::Rng::with_seed(seed),
            }),
            None => Kind::Closed(Closed::new(scenario)),
        };
        Self {
            kind,
            ready: VecDeque::new(),
            busy: HashMap::new(),
            waiting: 0,
            not_begun: 0,
            closed: false,
        }
    }

    /// The next turn that is due by `now`, if there is one; its session is busy from now on.
    pub(crate) fn take(&mut self, now: Duration) -> Option<Turn> {
        match &mut self.kind {
            Kind::Closed(closed) => closed.take(now).filter(|_| !self.closed),
            Kind::Open(open) => {
                while !self.closed
                    && let Some(turn) = open.take(now)
                {
                    if self.waiting >= MOST_WAITING {
                        self.not_begun += 1;
                        continue;
                    }
                    self.waiting += 1;
                    match self.busy.get_mut(&turn.session) {
                        Some(queue) => queue.push_back(turn),
                        None => {
                            self.busy.insert(turn.session, VecDeque::new());
                            self.ready.push_back(turn);
                        }
                    }
                }
                let turn = self.ready.pop_front()?;
                self.waiting -= 1;
                Some(turn)
            }
        }
    }

    /// When the next turn is due that is not yet; `None` when there is none, or only an answer can bring one.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        if self.closed {
            return None;
        }
        match &self.kind {
            Kind::Open(open) => open.peek(),
            Kind::Closed(closed) => closed.peek(),
        }
    }

    /// A turn has its answer, or none.
    pub(crate) fn ended(&mut self, turn: Turn, now: Duration) {
        match &mut self.kind {
            Kind::Closed(closed) => closed.ended(turn, now),
            Kind::Open(_) => match self.busy.get_mut(&turn.session).and_then(VecDeque::pop_front) {
                Some(next) => self.ready.push_back(next),
                None => {
                    self.busy.remove(&turn.session);
                }
            },
        }
    }

    /// Nothing more is begun; what waits was not.
    pub(crate) fn close(&mut self) {
        self.closed = true;
        self.not_begun += self.waiting as u64;
        self.waiting = 0;
        self.ready.clear();
        self.busy.values_mut().for_each(VecDeque::clear);
    }

    /// How many turns were due and never begun.
    pub(crate) fn not_begun(&self) -> u64 {
        self.not_begun
    }
}

impl Open {
    fn peek(&self) -> Option<Duration> {
        (self.step < self.steps.len() && self.count < self.most).then_some(self.next)
    }

    fn take(&mut self, now: Duration) -> Option<Turn> {
        let due = self.peek().filter(|due| *due <= now)?;
        let sessions = u64::from(self.sessions.max(1));
        let turn = Turn {
            due,
            session: u32::try_from(self.count % sessions).unwrap_or_default(),
            turn: u32::try_from(self.count / sessions).unwrap_or(u32::MAX),
            step: self.step,
        };
        self.count += 1;
        let gap = self.gap();
        self.next += gap;
        while self.next >= self.step_ends && self.step < self.steps.len() {
            self.step += 1;
            // a step begins with a turn of its own
            self.next = self.step_ends;
            self.step_ends += self.steps.get(self.step).map(|step| step.lasts).unwrap_or_default();
        }
        Some(turn)
    }

    fn gap(&mut self) -> Duration {
        let rate = self.steps.get(self.step).map_or(1.0, |step| step.rate);
        let grown = match self.ramp.is_zero() {
            true => 1.0,
            false => self.next.div_duration_f64(self.ramp).clamp(LEAST, 1.0),
        };
        let gap = match self.spacing {
            Spacing::Even => 1.0,
            Spacing::Random => -(1.0 - self.random.f64()).ln(),
        };
        Duration::from_secs_f64(gap / (rate * grown))
    }
}

impl Closed {
    fn new(scenario: &Scenario) -> Self {
        let sessions = scenario.sessions;
        let due = |session| scenario.ramp * session / sessions.max(1);
        Self {
            due: (0..sessions)
                .map(|session| Reverse((due(session), session, 0)))
                .collect(),
            think: scenario.think,
            turns: scenario.turns.unwrap_or(u32::MAX),
            end: scenario.duration,
        }
    }

    fn peek(&self) -> Option<Duration> {
        let Reverse((due, ..)) = self.due.peek()?;
        self.end.is_none_or(|end| *due < end).then_some(*due)
    }

    fn take(&mut self, now: Duration) -> Option<Turn> {
        // one that finds no connection until the end is not begun any more
        if self.end.is_some_and(|end| now >= end) {
            self.due.clear();
        }
        self.peek().filter(|due| *due <= now)?;
        let Reverse((due, session, turn)) = self.due.pop()?;
        Some(Turn {
            due,
            session,
            turn,
            step: 0,
        })
    }

    fn ended(&mut self, turn: Turn, now: Duration) {
        if turn.turn + 1 < self.turns {
            self.due.push(Reverse((now + self.think, turn.session, turn.turn + 1)));
        }
    }
}

#[cfg(test)]
mod tests;
