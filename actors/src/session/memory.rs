//! What a session remembers between its turns: what was said, which model was chosen for it, who answered.
//!
//! Shared by the shard, which shows and forgets it, and the session, whose turns read it at their beginning and write it at
//! their end. Its lock is held for moments, never across an await.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use understudy_messages::ids::{ModelRef, Name};
use understudy_messages::session::{SessionInfo, SessionView};
use understudy_messages::tools::FallbackNotice;

/// The most that is kept of what was said in one session, in bytes.
const MOST: usize = 4 << 20;
/// The most that all sessions of the process keep.
const MOST_OF_ALL: usize = 256 << 20;
/// What an item takes beside its text, about.
const OVERHEAD: usize = 48;

/// The room that all transcripts of the process share.
#[derive(Clone, Debug)]
pub struct TranscriptRoom {
    held: Arc<AtomicUsize>,
    most: usize,
}

impl Default for TranscriptRoom {
    fn default() -> Self {
        Self::of(MOST_OF_ALL)
    }
}

impl TranscriptRoom {
    fn of(most: usize) -> Self {
        let held = Arc::default();
        Self { held, most }
    }

    fn has(&self, size: usize) -> bool {
        self.held.load(Ordering::Relaxed).saturating_add(size) <= self.most
    }

    fn take(&self, size: usize) -> bool {
        let more = |held: usize| held.checked_add(size).filter(|sum| *sum <= self.most);
        let taken = self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.is_ok()
    }

    fn give_back(&self, size: usize) {
        self.held.fetch_sub(size, Ordering::Relaxed);
    }
}

/// Why a turn is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoRoom {
    /// Its user says more than a session may remember.
    Session,
    /// All sessions together remember as much as they may.
    Process,
}

/// What a turn begins with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Recalled {
    pub(super) transcript: Vec<Arc<str>>,
    pub(super) pinned: Option<Name>,
    pub(super) agent: Option<Name>,
}

/// What a turn leaves behind.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) agent: Name,
    pub(super) served_by: Option<ModelRef>,
    /// What it adds to the transcript.
    pub(super) said: Vec<String>,
    pub(super) notice: Option<FallbackNotice>,
}

/// One session's.
#[derive(Debug)]
pub(super) struct Memory {
    state: Mutex<State>,
    room: TranscriptRoom,
}

#[derive(Debug)]
struct State {
    transcript: VecDeque<Arc<str>>,
    /// How much each remembered turn has added to it: the oldest is forgotten whole.
    added: VecDeque<Added>,
    bytes: usize,
    pinned: Option<Name>,
    agent: Option<Name>,
    last_model: Option<ModelRef>,
    fallback: Option<FallbackNotice>,
    turns: u64,
    created: SystemTime,
    updated: SystemTime,
}

#[derive(Debug)]
struct Added {
    items: usize,
    bytes: usize,
}

impl Memory {
    /// Of a session that is heard of for the first time.
    pub(super) fn new(room: TranscriptRoom, now: SystemTime) -> Self {
        let state = State {
            transcript: VecDeque::new(),
            added: VecDeque::new(),
            bytes: 0,
            pinned: None,
            agent: None,
            last_model: None,
            fallback: None,
            turns: 0,
            created: now,
            updated: now,
        };
        Self {
            state: Mutex::new(state),
            room,
        }
    }

    /// Whether there is room for a turn whose user says this, be it in the place of what was said long ago.
    ///
    /// # Errors
    /// [`NoRoom`].
    pub(super) fn admits(&self, said: &[String]) -> Result<(), NoRoom> {
        let (held, more) = (self.state().bytes, size(said));
        if more > MOST {
            return Err(NoRoom::Session);
        }
        let grows = more.saturating_sub((held + more).saturating_sub(MOST));
        match self.room.has(grows) {
            true => Ok(()),
            false => Err(NoRoom::Process),
        }
    }

    pub(super) fn recall(&self) -> Recalled {
        let state = self.state();
        Recalled {
            transcript: state.transcript.iter().cloned().collect(),
            pinned: state.pinned.clone(),
            agent: state.agent.clone(),
        }
    }

    /// The fallback that was told of last and is not over.
    pub(super) fn fallback(&self) -> Option<FallbackNotice> {
        self.state().fallback.clone()
    }

    /// A turn was taken. What it says is kept whole, in the place of the oldest turns where there is no other, or not at all.
    /// Tells how many items were forgotten, or not kept.
    pub(super) fn take(&self, taken: Taken, now: SystemTime) -> usize {
        let mut state = self.state();
        let forgotten = self.keep(&mut state, taken.said);
        if let Some(notice) = taken.notice {
            state.fallback = (!notice.cleared).then_some(notice);
        }
        state.agent = Some(taken.agent);
        state.last_model = taken.served_by.or(state.last_model.take());
        state.turns += 1;
        state.updated = now;
        forgotten
    }

    fn keep(&self, state: &mut State, said: Vec<String>) -> usize {
        let (more, items, mut forgotten) = (size(&said), said.len(), 0);
        if items == 0 || more > MOST {
            return items;
        }
        while state.bytes + more > MOST || !self.room.take(more) {
            let Some(oldest) = state.added.pop_front() else {
                return forgotten + items;
            };
            state.transcript.drain(..oldest.items);
            state.bytes -= oldest.bytes;
            self.room.give_back(oldest.bytes);
            forgotten += oldest.items;
        }
        state.bytes += more;
        state.added.push_back(Added { items, bytes: more });
        state.transcript.extend(said.into_iter().map(Arc::from));
        forgotten
    }

    pub(super) fn pin(&self, model: Option<Name>, now: SystemTime) {
        let mut state = self.state();
        (state.pinned, state.updated) = (model, now);
    }

    /// Whether nothing has come of it yet: no turn was taken.
    pub(super) fn is_blank(&self) -> bool {
        self.state().turns == 0
    }

    pub(super) fn info(&self, id: &Name) -> SessionInfo {
        self.state().info(id)
    }

    pub(super) fn view(&self, id: &Name) -> SessionView {
        let state = self.state();
        SessionView {
            info: state.info(id),
            transcript: state.transcript.iter().cloned().collect(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let bytes = self.state().bytes;
        self.room.give_back(bytes);
    }
}

impl State {
    fn info(&self, id: &Name) -> SessionInfo {
        SessionInfo {
            id: id.clone(),
            agent: self.agent.clone(),
            pinned: self.pinned.clone(),
            last_model: self.last_model.clone(),
            fallback: self.fallback.clone(),
            turns: self.turns,
            created: self.created,
            updated: self.updated,
        }
    }
}

fn size(items: &[String]) -> usize {
    items.iter().map(|item| item.len() + OVERHEAD).sum()
}

#[cfg(test)]
mod tests;
