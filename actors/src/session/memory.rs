//! What a session remembers between its turns: what was said, which model was chosen for it, who answered.
//!
//! Shared by the shard, which shows and forgets it, and the session, whose turns read it at their beginning and write it at
//! their end. Its lock is held for moments, never across an await.

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

/// Why a session takes no further turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoRoom {
    /// It has said as much as it may.
    Session,
    /// All sessions together have.
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
    transcript: Vec<Arc<str>>,
    bytes: usize,
    /// Whether something that was said had no room any longer: the transcript is not whole then.
    is_full: bool,
    pinned: Option<Name>,
    agent: Option<Name>,
    last_model: Option<ModelRef>,
    fallback: Option<FallbackNotice>,
    turns: u64,
    created: SystemTime,
    updated: SystemTime,
}

impl Memory {
    /// Of a session that is heard of for the first time.
    pub(super) fn new(room: TranscriptRoom, now: SystemTime) -> Self {
        let state = State {
            transcript: Vec::new(),
            bytes: 0,
            is_full: false,
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

    /// Whether there is room for a turn whose user says this.
    ///
    /// # Errors
    /// [`NoRoom`].
    pub(super) fn admits(&self, said: &[String]) -> Result<(), NoRoom> {
        let (state, more) = (self.state(), size(said));
        if state.is_full || state.bytes + more > MOST {
            return Err(NoRoom::Session);
        }
        match self.room.has(more) {
            true => Ok(()),
            false => Err(NoRoom::Process),
        }
    }

    pub(super) fn recall(&self) -> Recalled {
        let state = self.state();
        Recalled {
            transcript: state.transcript.clone(),
            pinned: state.pinned.clone(),
            agent: state.agent.clone(),
        }
    }

    /// The fallback that was told of last and is not over.
    pub(super) fn fallback(&self) -> Option<FallbackNotice> {
        self.state().fallback.clone()
    }

    /// A turn was taken. What it says is kept whole or not at all.
    pub(super) fn take(&self, taken: Taken, now: SystemTime) {
        let mut state = self.state();
        let more = size(&taken.said);
        if state.bytes + more <= MOST && self.room.take(more) {
            state.bytes += more;
            state.transcript.extend(taken.said.into_iter().map(Arc::from));
        } else {
            state.is_full = true;
        }
        if let Some(notice) = taken.notice {
            state.fallback = (!notice.cleared).then_some(notice);
        }
        state.agent = Some(taken.agent);
        state.last_model = taken.served_by.or(state.last_model.take());
        state.turns += 1;
        state.updated = now;
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
            transcript: state.transcript.clone(),
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
