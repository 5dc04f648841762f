//! Sessions in the state file.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use futures::FutureExt;
use futures::future::BoxFuture;
use redb::{ReadTransaction, WriteTransaction};
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use understudy_messages::clock::{Clock, Instant};
use understudy_messages::events::Event;
use understudy_messages::ids::{Name, SessionKey};
use understudy_messages::session::{SessionFault, SessionInfo};

use super::codec::{self, Unreadable};
use super::residence::{Residence, Residents};
use super::room::{Bounds, Reached, Room};
use super::tables::{self, Applied, KeyPrefix, Outcome, Whole, Written};
use super::{SessionChange, SessionStore, StoredSession, responses};
use crate::state::{State, StateError};
use crate::supervision::Tasks;
use crate::tap::EventTap;
use crate::telemetry::{SessionEvent, StoreOp, Telemetry};

/// How many threads may read, or hang on a disk that does not answer.
const READERS: usize = 16;
/// How often sessions that are too old are looked for.
const EXPIRE_EVERY: Duration = Duration::from_secs(60);
/// How many of them go in one transaction: others wait for it.
const EXPIRED_AT_ONCE: usize = 256;

/// How sessions are kept in a state file.
#[derive(Clone)]
pub struct StateSessionsOptions {
    /// Whose file.
    pub state: State,
    /// The time.
    pub clock: Clock,
    /// Where operations are booked.
    pub telemetry: Arc<Telemetry>,
    /// Where faults are told.
    pub tap: EventTap,
    /// `None`: a commit ends when it is on the disk. Else that happens so often, and a commit ends when it is visible.
    pub interval: Option<Duration>,
    /// How long a session is kept after it was last changed.
    pub ttl: Duration,
    /// How many sessions are kept, and as many responses.
    pub most: usize,
    /// How many bytes they take together.
    pub disk: u64,
}

/// Sessions in the state file.
pub struct StateSessions {
    pub(super) options: StateSessionsOptions,
    /// What stands for a client key, by its place.
    owners: Vec<[u8; 16]>,
    readers: Arc<Semaphore>,
    known: AtomicU64,
    /// Whether something is visible and perhaps not yet on the disk.
    unwritten: AtomicBool,
    residents: Arc<Residents>,
}

impl StateSessions {
    /// Opens the tables of a file, which are made if there are none. `client_keys` are those that may ask, in their order:
    /// the sessions of each are found again wherever it stands. It blocks.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn open<'a>(
        options: StateSessionsOptions,
        client_keys: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, StateError> {
        let file = options.state.file();
        let fresh: [u8; 16] = std::array::from_fn(|_| fastrand::u8(..));
        file.write_now(|write| tables::make(write, &fresh))?;
        let read = file.read()?;
        let salt = tables::salt(&read)?;
        let known = tables::count(&read)?;
        options.telemetry.sessions().passivated(known as f64);
        Ok(Self {
            owners: client_keys.into_iter().map(|key| owner(&salt, key)).collect(),
            readers: Arc::new(Semaphore::new(READERS)),
            known: AtomicU64::new(known),
            unwritten: AtomicBool::new(false),
            residents: Arc::default(),
            options,
        })
    }

    /// Puts on the disk what nobody waits for, and forgets what is too old, until the app stops.
    pub fn maintain(self: &Arc<Self>, tasks: &Tasks) {
        if let Some(interval) = self.options.interval {
            let store = self.clone();
            tasks.spawn_until_stop("session writes", async move {
                loop {
                    store.options.clock.sleep(interval).await;
                    store.flush().await;
                }
            });
        }
        let store = self.clone();
        tasks.spawn_until_stop("session expiry", async move {
            loop {
                store.options.clock.sleep(EXPIRE_EVERY).await;
                store.expire_all().await;
            }
        });
    }

    async fn flush(&self) {
        if self.unwritten.swap(false, Ordering::AcqRel) {
            let began = self.options.clock.now();
            let flushed = self.options.state.file().write(0, |_| Ok(())).await;
            if self.noted(StoreOp::Save, began, None, flushed.map_err(fault)).is_err() {
                self.unwritten.store(true, Ordering::Release);
            }
        }
    }

    pub(super) async fn expire_all(&self) {
        let Some(before) = self.options.clock.wall().checked_sub(self.options.ttl) else {
            return;
        };
        let mut from = Some(Reached::default());
        while let Some(reached) = from {
            from = self.expire(before, reached).await.unwrap_or_default();
        }
    }

    /// Forgets some of what was last used before a time, but no session with work. Tells from where to go on.
    async fn expire(&self, before: SystemTime, from: Reached) -> Result<Option<Reached>, SessionFault> {
        let (began, room) = (self.options.clock.now(), self.room(from));
        let (minute, gone) = (codec::minute(before), room.clone());
        let change = move |write: &WriteTransaction| {
            let last = tables::expire(write, minute, EXPIRED_AT_ONCE, &gone)?;
            let are_left = responses::tables::expire(write, minute, EXPIRED_AT_ONCE, &gone)?;
            if last.is_some() || are_left {
                gone.go_on_behind(last);
            }
            Ok(())
        };
        let written = self.write(false, 0, change).await;
        room.settled();
        self.noted(StoreOp::Delete, began, None, written)?;
        let (sessions, responses) = room.gone();
        self.gone(sessions);
        let metrics = self.options.telemetry.sessions();
        metrics.happened(SessionEvent::Expired, sessions + responses);
        Ok(room.reached())
    }

    /// What a change needs to make room.
    pub(super) fn room(&self, from: Reached) -> Arc<Room> {
        let bounds = Bounds {
            responses: self.options.most as u64,
            bytes: self.options.disk,
        };
        Arc::new(Room::new(bounds, self.residents.clone(), from))
    }

    /// Books those that a change has taken away to make room.
    fn went(&self, room: &Room) {
        let (sessions, responses) = room.gone();
        self.gone(sessions);
        let metrics = self.options.telemetry.sessions();
        metrics.happened(SessionEvent::Displaced, sessions + responses);
    }

    /// So many are no longer in the store.
    fn gone(&self, sessions: u64) {
        self.known.fetch_sub(sessions, Ordering::Relaxed);
        self.options.telemetry.sessions().passivated(-(sessions as f64));
    }

    /// The key of a session in the tables.
    fn key(&self, session: &SessionKey) -> Result<Vec<u8>, SessionFault> {
        let name = session.key().map(|key| &**key);
        let prefix = match session {
            SessionKey::Keyed { owner, .. } => self.prefix(*owner),
            SessionKey::Ephemeral => None,
        };
        let (prefix, name) = prefix
            .zip(name)
            .ok_or_else(|| SessionFault::Store("the session has no key".into()))?;
        Ok(prefix.with(name))
    }

    pub(super) fn prefix(&self, owner: Option<u32>) -> Option<KeyPrefix> {
        match owner {
            None => Some(KeyPrefix::unowned()),
            Some(place) => self.owners.get(place as usize).map(KeyPrefix::of),
        }
    }

    /// Reads, on a thread that may block.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&ReadTransaction) -> Result<T, ReadError> + Send + 'static,
    ) -> Result<T, SessionFault> {
        let permit = self.readers.clone().acquire_owned().await;
        let state = self.options.state.clone();
        let reading = spawn_blocking(move || {
            let _permit = permit;
            let snapshot = state.file().read().map_err(fault)?;
            // the file's pages may be damaged in a way that its reader does not expect
            let read = catch_unwind(AssertUnwindSafe(|| read(&snapshot)));
            read.unwrap_or(Err(ReadError::Unreadable(Unreadable::Damaged)))
                .map_err(SessionFault::from)
        });
        reading
            .await
            .unwrap_or_else(|_lost| Err(SessionFault::Store("its reader was lost".into())))
    }

    /// Writes as durably as is promised, or `at once`.
    pub(super) async fn write(
        &self,
        at_once: bool,
        bytes: usize,
        change: impl Fn(&WriteTransaction) -> Result<(), redb::Error> + Send + 'static,
    ) -> Result<(), SessionFault> {
        let file = self.options.state.file();
        let written = match self.options.interval {
            Some(_) if !at_once => {
                let written = file.write_soon(bytes, change).await;
                self.unwritten.store(true, Ordering::Release);
                written
            }
            Some(_) | None => file.write(bytes, change).await,
        };
        written.map_err(fault)
    }

    /// Books an operation that has ended, and says what failed. That there is no room, or another one was there first, is no
    /// fault of the store.
    pub(super) fn noted<T>(
        &self,
        op: StoreOp,
        began: Instant,
        session: Option<&SessionKey>,
        result: Result<T, SessionFault>,
    ) -> Result<T, SessionFault> {
        let took = self.options.clock.now().duration_since(began);
        let metrics = self.options.telemetry.sessions();
        metrics.stored(op, took);
        result.inspect_err(|fault| {
            if matches!(fault, SessionFault::Full | SessionFault::Busy | SessionFault::Changed) {
                return;
            }
            metrics.failed(op);
            let name = session.and_then(SessionKey::key).cloned();
            tracing::error!(session = name.as_deref(), op = op.as_label(), %fault, "sessions: the store failed");
            self.options.tap.publish(|| Event::SessionFault {
                session: session.cloned().unwrap_or(SessionKey::Ephemeral),
                op: op.as_label(),
                fault: fault.to_string(),
            });
        })
    }

    async fn loaded(&self, session: &SessionKey) -> Result<Option<StoredSession>, SessionFault> {
        let key = self.key(session)?;
        if self.residents.is_leaving() {
            // it is perhaps about to be taken away by what stands before this
            let file = self.options.state.file();
            file.write_soon(0, |_| Ok(())).await.map_err(fault)?;
        }
        self.read(move |read| tables::session(read, &key)).await
    }

    async fn committed(&self, session: &SessionKey, change: &SessionChange) -> Result<(), SessionFault> {
        let key = self.key(session)?;
        let unwritable = |error: serde_json::Error| SessionFault::Store(error.to_string().into());
        let written = Written::new(key, change).map_err(unwritable)?;
        let made = self.changed(false, written.len(), move |write, room| written.apply(write, room));
        told(made.await?)
    }

    async fn put(&self, session: &SessionKey, whole: &StoredSession, replace: bool) -> Result<Outcome, SessionFault> {
        let key = self.key(session)?;
        let unwritable = |error: serde_json::Error| SessionFault::Store(error.to_string().into());
        let whole = Whole::new(key, whole).map_err(unwritable)?;
        let size = whole.size();
        let put = move |write: &WriteTransaction, room: &Room| tables::put(write, &whole, replace, room);
        self.changed(true, size, put).await
    }

    /// Makes a change that may need room, and books who went for it. As long as others may go, it is made once more.
    pub(super) async fn changed(
        &self,
        at_once: bool,
        bytes: usize,
        change: impl Fn(&WriteTransaction, &Room) -> Result<Outcome, redb::Error> + Send + Sync + 'static,
    ) -> Result<Outcome, SessionFault> {
        let (change, mut from) = (Arc::new(change), Reached::default());
        loop {
            let (room, applied) = (self.room(from), Arc::new(Applied::default()));
            let (change, made_room, outcome) = (change.clone(), room.clone(), applied.clone());
            let change = move |write: &WriteTransaction| {
                outcome.set(change(write, &made_room)?);
                Ok(())
            };
            let written = self.write(at_once, bytes, change).await;
            room.settled();
            written?;
            self.went(&room);
            match (applied.get(), room.reached()) {
                (Outcome::Unfinished, Some(reached)) => from = reached,
                (outcome, _) => return Ok(outcome),
            }
        }
    }

    async fn deleted(&self, session: &SessionKey) -> Result<bool, SessionFault> {
        let key = self.key(session)?;
        let found = Arc::new(AtomicBool::new(false));
        let told = found.clone();
        let change = move |write: &WriteTransaction| {
            told.store(tables::remove(write, &key)?, Ordering::Release);
            Ok(())
        };
        self.write(true, 0, change).await?;
        Ok(found.load(Ordering::Acquire))
    }
}

impl SessionStore for StateSessions {
    fn load<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Option<StoredSession>, SessionFault>> {
        async move {
            let began = self.options.clock.now();
            let loaded = self.loaded(key).await;
            self.noted(StoreOp::Load, began, Some(key), loaded)
        }
        .boxed()
    }

    fn commit<'a>(&'a self, key: &'a SessionKey, change: SessionChange) -> BoxFuture<'a, Result<(), SessionFault>> {
        async move {
            let began = self.options.clock.now();
            let committed = self.committed(key, &change).await;
            self.noted(StoreOp::Save, began, Some(key), committed)?;
            if change.base == 0 {
                self.known.fetch_add(1, Ordering::Relaxed);
                self.options.telemetry.sessions().happened(SessionEvent::Created, 1);
            }
            Ok(())
        }
        .boxed()
    }

    fn restore<'a>(
        &'a self,
        key: &'a SessionKey,
        session: StoredSession,
        replace: bool,
    ) -> BoxFuture<'a, Result<(), SessionFault>> {
        async move {
            let began = self.options.clock.now();
            let put = self.put(key, &session, replace).await;
            let put = self.noted(StoreOp::Save, began, Some(key), put)?;
            told(put)?;
            if put == Outcome::Replaced {
                return Ok(());
            }
            let metrics = self.options.telemetry.sessions();
            self.known.fetch_add(1, Ordering::Relaxed);
            metrics.happened(SessionEvent::Created, 1);
            metrics.passivated(1.0);
            Ok(())
        }
        .boxed()
    }

    fn delete<'a>(&'a self, key: &'a SessionKey, resident: bool) -> BoxFuture<'a, Result<bool, SessionFault>> {
        async move {
            let began = self.options.clock.now();
            let deleted = self.deleted(key).await;
            let found = self.noted(StoreOp::Delete, began, Some(key), deleted)?;
            if found {
                self.known.fetch_sub(1, Ordering::Relaxed);
            }
            if found && !resident {
                self.options.telemetry.sessions().passivated(-1.0);
            }
            Ok(found)
        }
        .boxed()
    }

    fn page(
        &self,
        owner: Option<u32>,
        after: Option<Name>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<SessionInfo>, SessionFault>> {
        async move {
            let Some(prefix) = self.prefix(owner) else {
                return Ok(Vec::new());
            };
            let began = self.options.clock.now();
            let page = self.read(move |read| tables::page(read, &prefix, after.as_deref(), limit));
            let page = page.await;
            self.noted(StoreOp::Scan, began, None, page)
        }
        .boxed()
    }

    fn is_full(&self) -> bool {
        self.known.load(Ordering::Relaxed) >= self.options.most as u64
    }

    fn reside(&self, key: &SessionKey) -> Arc<Residence> {
        let key = self.key(key);
        key.map_or_else(|_none| Residence::untracked(), |key| self.residents.reside(key))
    }

    fn restored(&self) {
        let metrics = self.options.telemetry.sessions();
        metrics.happened(SessionEvent::Restored, 1);
        metrics.passivated(-1.0);
    }

    fn left(&self) {
        self.options.telemetry.sessions().passivated(1.0);
    }
}

/// Why something was not read.
pub(super) enum ReadError {
    Unreadable(Unreadable),
    Store(redb::Error),
}

impl<E: Into<redb::Error>> From<E> for ReadError {
    fn from(error: E) -> Self {
        Self::Store(error.into())
    }
}

impl From<ReadError> for SessionFault {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Unreadable(why) => Self::Damaged(why.to_string().into()),
            ReadError::Store(error) => fault(StateError::from(error)),
        }
    }
}

/// What whoever asked for a change is told of it.
pub(super) fn told(outcome: Outcome) -> Result<(), SessionFault> {
    match outcome {
        Outcome::Made | Outcome::Replaced => Ok(()),
        Outcome::Changed => Err(SessionFault::Changed),
        Outcome::Full | Outcome::Unfinished => Err(SessionFault::Full),
        Outcome::Busy => Err(SessionFault::Busy),
    }
}

fn fault(error: StateError) -> SessionFault {
    SessionFault::Store(error.to_string().into())
}

/// What stands for a client key in the tables: it is found again with the key, and the key is not found with it.
fn owner(salt: &[u8], key: &str) -> [u8; 16] {
    let digest = Sha256::new().chain_update(salt).chain_update(key).finalize();
    let mut owner = [0; 16];
    owner.iter_mut().zip(digest).for_each(|(to, from)| *to = from);
    owner
}

#[cfg(test)]
pub(super) mod tests;
