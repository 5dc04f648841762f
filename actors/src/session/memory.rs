//! What a session remembers between its turns: what was said, which model was chosen for it, who answered.
//!
//! Shared by the shard, which shows and forgets it, and the session, whose turns read it at their beginning and write it at
//! their end. What it remembers is read from the store by the first who needs it. A change is stored first and remembered
//! then; one at a time reads or writes.

mod remembered;
mod room;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use tokio::sync::{Semaphore, SemaphorePermit};
use understudy_messages::hooks::SessionSlots;
use understudy_messages::ids::{ModelRef, Name, SessionKey};
use understudy_messages::session::{SessionFault, SessionInfo, SessionView};
use understudy_messages::tools::FallbackNotice;

pub(super) use self::remembered::{MOST, OVERHEAD};
use self::remembered::{Plan, Remembered, size};
pub use self::room::TranscriptRoom;
use super::store::{Residence, SessionStore};

/// Where sessions are stored, if they are.
pub(super) type Store = Option<Arc<dyn SessionStore>>;

/// Why a turn is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoRoom {
    /// Its user says more than a session may remember.
    Session,
    /// All sessions together have as much in memory as they may.
    Process,
    /// There are as many sessions as there may be.
    Sessions,
}

/// Why it is not known what a session remembers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unread {
    /// The store cannot say.
    Fault(SessionFault),
    /// It has no place in memory.
    Room(NoRoom),
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
pub(super) struct Memory {
    key: SessionKey,
    remembered: Mutex<Remembered>,
    /// Whether that is what the store has.
    read: Mutex<bool>,
    /// Whoever reads or writes the store for the session has it.
    alone: Semaphore,
    store: Store,
    /// How the store knows whether it has work.
    residence: Arc<Residence>,
    room: TranscriptRoom,
    /// When it came into memory.
    since: SystemTime,
}

impl Memory {
    /// Of a session of which only the store may know something.
    pub(super) fn new(key: SessionKey, store: Store, room: TranscriptRoom, now: SystemTime) -> Self {
        let residence = store
            .as_ref()
            .map_or_else(Residence::untracked, |store| store.reside(&key));
        Self {
            key,
            residence,
            remembered: Mutex::new(Remembered::new(now)),
            read: Mutex::new(store.is_none()),
            alone: Semaphore::new(1),
            store,
            room,
            since: now,
        }
    }

    /// Makes sure that it remembers what the store has: asked for by several at once, that is read once.
    ///
    /// # Errors
    /// [`Unread`].
    pub(super) async fn open(&self) -> Result<(), Unread> {
        if self.is_read() {
            return Ok(());
        }
        let _alone = self.alone().await;
        match &self.store {
            Some(store) if !self.is_read() => self.read(&**store).await,
            Some(_) | None => Ok(()),
        }
    }

    /// Work begins: what is stored of it stays until the work has ended.
    pub(super) fn enter(&self) {
        self.residence.enter();
    }

    /// No work is left.
    pub(super) fn leave(&self) {
        self.residence.leave();
    }

    async fn read(&self, store: &dyn SessionStore) -> Result<(), Unread> {
        if self.residence.is_stale() {
            *self.read_mark() = false;
            self.residence.refresh();
        }
        let was_stored = self.is_stored();
        let found = store.load(&self.key).await.map_err(Unread::Fault)?;
        let is_stored = found.is_some();
        if let Some(stored) = found {
            let remembered = Remembered::restored(stored, &self.room).ok_or(Unread::Room(NoRoom::Process))?;
            self.replace(remembered);
        } else if was_stored {
            self.replace(Remembered::new(self.since));
        } else if store.is_full() {
            return Err(Unread::Room(NoRoom::Sessions));
        }
        match (was_stored, is_stored) {
            (false, true) => store.restored(),
            (true, false) => store.left(),
            (true, true) | (false, false) => {}
        }
        *self.read_mark() = true;
        Ok(())
    }

    /// Whether it remembers what the store has.
    pub(super) fn is_read(&self) -> bool {
        *self.read_mark() && !self.residence.is_stale()
    }

    /// Whether there is room for a turn whose user says this, be it in the place of what was said long ago.
    ///
    /// # Errors
    /// [`NoRoom`].
    pub(super) fn admits(&self, said: &[String]) -> Result<(), NoRoom> {
        let (held, more) = (self.remembered().bytes(), size(said));
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
        self.remembered().recalled()
    }

    /// The fallback that was told of last and is not over.
    pub(super) fn fallback(&self) -> Option<FallbackNotice> {
        self.remembered().header.fallback.clone()
    }

    /// What plugins keep with the session.
    pub(super) fn slots(&self) -> SessionSlots {
        self.remembered().slots.clone()
    }

    /// A turn was taken: keeps it, as durably as the store promises. Tells how many items were forgotten, or not kept.
    ///
    /// # Errors
    /// [`SessionFault`]; then nothing of the turn is remembered.
    pub(super) async fn take(&self, taken: Taken, now: SystemTime) -> Result<usize, SessionFault> {
        let _alone = self.alone().await;
        let plan = self.remembered().taken(taken, now, &self.room);
        let forgotten = plan.forgotten;
        self.keep(plan).await?;
        Ok(forgotten)
    }

    /// Chooses a model. In a session that had no turn yet it stands with its first one.
    ///
    /// # Errors
    /// [`SessionFault`]; then the choice is as it was.
    pub(super) async fn pin(&self, model: Option<Name>, now: SystemTime) -> Result<(), SessionFault> {
        let _alone = self.alone().await;
        if self.is_blank() {
            self.remembered().header.pinned = model;
            return Ok(());
        }
        let plan = self.remembered().pinned(model, now, &self.room);
        self.keep(plan).await
    }

    async fn keep(&self, plan: Plan) -> Result<(), SessionFault> {
        if let Some(store) = &self.store {
            let change = plan.change(&self.remembered().header);
            if let Err(fault) = store.commit(&self.key, change).await {
                plan.give_up(&self.room);
                // what the store has by now is read before the next turn
                *self.read_mark() = false;
                return Err(fault);
            }
        }
        self.remembered().take_over(plan, &self.room);
        Ok(())
    }

    /// Forgets everything, in the store too. Tells whether there was anything.
    ///
    /// # Errors
    /// [`SessionFault`]; then all of it is still there.
    pub(super) async fn forget(&self, now: SystemTime) -> Result<bool, SessionFault> {
        let _alone = self.alone().await;
        let (known, was_stored) = (!self.is_blank(), self.is_stored());
        let stored = match &self.store {
            Some(store) => store.delete(&self.key, was_stored).await?,
            None => false,
        };
        if let Some(store) = self.store.as_ref().filter(|_| was_stored && !stored) {
            store.left();
        }
        self.replace(Remembered::new(now));
        *self.read_mark() = true;
        Ok(stored || known && !was_stored)
    }

    fn replace(&self, remembered: Remembered) {
        let before = std::mem::replace(&mut *self.remembered(), remembered);
        self.room.give_back(before.bytes());
    }

    /// Whether nothing has come of it yet: no turn was taken.
    pub(super) fn is_blank(&self) -> bool {
        self.remembered().header.turns == 0
    }

    /// Whether it is in the store, and in memory because it was read from there or written to it.
    fn is_stored(&self) -> bool {
        self.store.is_some() && self.remembered().header.revision > 0
    }

    pub(super) fn info(&self, id: &Name) -> SessionInfo {
        self.remembered().info(id)
    }

    pub(super) fn view(&self, id: &Name) -> SessionView {
        self.remembered().view(id)
    }

    async fn alone(&self) -> Option<SemaphorePermit<'_>> {
        self.alone.acquire().await.ok()
    }

    fn remembered(&self) -> MutexGuard<'_, Remembered> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read_mark(&self) -> MutexGuard<'_, bool> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.room.give_back(self.remembered().bytes());
        if let Some(store) = self.store.as_ref().filter(|_| self.is_stored()) {
            store.left();
        }
    }
}

#[cfg(test)]
mod tests;
