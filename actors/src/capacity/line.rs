//! Who is inside of a bound, who waits to be, and whose turn it is. Pure.
//!
//! Those who wait stand in lanes, one for each agent. A place that becomes free goes to the lanes in turn, and within a lane to who
//! came first. A queue that is too long loses the last of its longest lane. So a crowd of one agent lengthens its own wait alone: it
//! neither delays the others by more than a place each, nor takes their places in the queue.

use std::collections::VecDeque;

use understudy_messages::ids::Name;
use understudy_messages::settings::Bound;

/// Those inside and those who wait; `W` is how one that waits is told.
#[derive(Debug)]
pub(super) struct Line<W> {
    inside: usize,
    waiting: usize,
    next: u64,
    lanes: VecDeque<Lane<W>>,
}

/// Those of one agent; never empty.
#[derive(Debug)]
struct Lane<W> {
    name: Name,
    waiting: VecDeque<Waiting<W>>,
}

#[derive(Debug)]
struct Waiting<W> {
    id: u64,
    /// The most inside, by the settings that its turn is served from.
    most: usize,
    who: W,
}

/// What becomes of one that comes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Entry<W> {
    /// It is inside.
    Inside,
    /// It waits under this number; another one may have lost its place to it.
    Waits { id: u64, lost: Option<W> },
    /// Too many wait.
    Full,
}

impl<W> Default for Line<W> {
    fn default() -> Self {
        Self {
            inside: 0,
            waiting: 0,
            next: 0,
            lanes: VecDeque::new(),
        }
    }
}

impl<W> Line<W> {
    pub(super) const fn inside(&self) -> usize {
        self.inside
    }

    pub(super) const fn waiting(&self) -> usize {
        self.waiting
    }

    /// Whether one that came now would have to wait.
    pub(super) const fn is_full(&self, most: usize) -> bool {
        self.waiting > 0 || self.inside >= most
    }

    /// Lets one in that need not wait.
    pub(super) fn try_enter(&mut self, most: usize) -> bool {
        let free = !self.is_full(most);
        self.inside += usize::from(free);
        free
    }

    /// Lets one in, or has it wait behind those of its lane.
    pub(super) fn enter(&mut self, bound: &Bound, lane: &Name, who: W) -> Entry<W> {
        if self.try_enter(bound.most) {
            return Entry::Inside;
        }
        let id = self.next;
        self.next += 1;
        let most = bound.most;
        self.lane(lane).waiting.push_back(Waiting { id, most, who });
        self.waiting += 1;
        let lost = (self.waiting > bound.queue).then(|| self.shorten(lane)).flatten();
        match lost {
            Some(lost) if lost.id == id => Entry::Full,
            lost => Entry::Waits {
                id,
                lost: lost.map(|lost| lost.who),
            },
        }
    }

    /// One that was inside is gone.
    pub(super) fn leave(&mut self) {
        self.inside = self.inside.saturating_sub(1);
    }

    /// One that waited is gone. Whoever is no longer there has left nothing.
    pub(super) fn give_up(&mut self, lane: &Name, id: u64) {
        let Some(at) = self.lanes.iter().position(|it| it.name == *lane) else {
            return;
        };
        let waiting = &mut self.lanes[at].waiting;
        let before = waiting.len();
        waiting.retain(|one| one.id != id);
        self.waiting -= before - waiting.len();
        if waiting.is_empty() {
            self.lanes.remove(at);
        }
    }

    /// Lets the next one in, if there is a place and somebody waits: to be asked until there is none.
    pub(super) fn next(&mut self) -> Option<W> {
        let most = self.lanes.front()?.waiting.front()?.most;
        if self.inside >= most {
            return None;
        }
        let mut lane = self.lanes.pop_front()?;
        let next = lane.waiting.pop_front()?;
        self.inside += 1;
        self.waiting -= 1;
        if !lane.waiting.is_empty() {
            self.lanes.push_back(lane);
        }
        Some(next.who)
    }

    /// Nobody waits any longer: those who did.
    pub(super) fn turn_away(&mut self) -> Vec<W> {
        self.waiting = 0;
        let waiting = self.lanes.drain(..).flat_map(|lane| lane.waiting);
        waiting.map(|one| one.who).collect()
    }

    fn lane(&mut self, name: &Name) -> &mut Lane<W> {
        let at = self.lanes.iter().position(|lane| lane.name == *name);
        let at = at.unwrap_or_else(|| {
            self.lanes.push_back(Lane {
                name: name.clone(),
                waiting: VecDeque::new(),
            });
            self.lanes.len() - 1
        });
        &mut self.lanes[at]
    }

    /// Takes the last of the longest lane away; of equal ones that of `newest`.
    fn shorten(&mut self, newest: &Name) -> Option<Waiting<W>> {
        let length = |lane: &Lane<W>| (lane.waiting.len(), lane.name == *newest);
        let (at, _) = self.lanes.iter().enumerate().max_by_key(|(_, lane)| length(lane))?;
        let lost = self.lanes[at].waiting.pop_back();
        self.waiting -= usize::from(lost.is_some());
        if self.lanes[at].waiting.is_empty() {
            self.lanes.remove(at);
        }
        lost
    }
}

#[cfg(test)]
mod tests;
