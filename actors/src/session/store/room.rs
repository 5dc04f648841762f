//! How much sessions and responses take in the state file, and who goes when it is more than they may.
//!
//! The sum is a record of its own, changed together with what it counts: it costs the same however much there is, and is
//! right after whatever end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redb::{ReadTransaction, ReadableTable, TableDefinition, WriteTransaction};

use super::residence::{Leaving, Residents};
use super::{responses, tables};
use crate::state::copied;

const COUNTS: TableDefinition<'static, &str, u64> = TableDefinition::new("session_counts");
const BYTES: &str = "bytes";
const NUMBERS: &str = "responses";

/// How many of those that go one change looks at.
const MOST_AT_ONCE: usize = 4_096;

/// What may be kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// How many responses.
    pub(super) responses: u64,
    /// How many bytes sessions and responses take together.
    pub(super) bytes: u64,
}

/// What one change needs to make room, and whom it has taken away when it is made.
#[derive(Debug)]
pub(super) struct Room {
    bounds: Bounds,
    residents: Arc<Residents>,
    leaving: Mutex<Option<Leaving>>,
    sessions: AtomicU64,
    responses: AtomicU64,
}

impl Room {
    pub(super) fn new(bounds: Bounds, residents: Arc<Residents>) -> Self {
        Self {
            bounds,
            residents,
            leaving: Mutex::default(),
            sessions: AtomicU64::default(),
            responses: AtomicU64::default(),
        }
    }

    /// How many sessions and responses went.
    pub(super) fn gone(&self) -> (u64, u64) {
        (
            self.sessions.load(Ordering::Acquire),
            self.responses.load(Ordering::Acquire),
        )
    }

    /// The change is run, perhaps not for the first time.
    pub(super) fn begin(&self) {
        self.sessions.store(0, Ordering::Release);
        self.responses.store(0, Ordering::Release);
    }

    /// Whether a session has no work; what is in memory of it is read again before it has some.
    pub(super) fn claim(&self, key: &[u8]) -> bool {
        self.leaving().get_or_insert_with(|| self.residents.leaving());
        self.residents.claim(key)
    }

    /// The change is committed, or never will be.
    pub(super) fn settled(&self) {
        self.leaving().take();
    }

    fn leaving(&self) -> MutexGuard<'_, Option<Leaving>> {
        self.leaving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes a session, unless it has work. Tells whether there was one.
    pub(super) fn take(&self, write: &WriteTransaction, key: &[u8]) -> Result<bool, redb::Error> {
        if !self.claim(key) {
            return Ok(false);
        }
        let found = tables::remove(write, key)?;
        self.sessions.fetch_add(u64::from(found), Ordering::AcqRel);
        Ok(found)
    }

    /// Whether there is room for so many bytes more, be it in the place of what was used least recently. Those with work stay,
    /// and so does the session `own`.
    pub(super) fn make(&self, write: &WriteTransaction, more: u64, own: &[u8]) -> Result<bool, redb::Error> {
        let fits = |write| Ok::<_, redb::Error>(bytes(write)?.saturating_add(more) <= self.bounds.bytes);
        if fits(write)? {
            return Ok(true);
        }
        if more > self.bounds.bytes {
            return Ok(false);
        }
        let mut session = tables::used_after(write, None)?;
        for _ in 0..MOST_AT_ONCE {
            match (session.take(), responses::tables::oldest(write)?) {
                (Some(oldest), response) if response.is_none_or(|(minute, _)| oldest.0 <= minute) => {
                    if oldest.1 != own {
                        self.take(write, &oldest.1)?;
                    }
                    session = tables::used_after(write, Some(&oldest))?;
                }
                (newer, Some((minute, number))) => {
                    self.take_response(write, minute, number)?;
                    session = newer;
                }
                (_, None) => return Ok(false),
            }
            if fits(write)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether there may be one response more, be it in the place of those that were used least recently.
    pub(super) fn make_for_response(&self, write: &WriteTransaction) -> Result<bool, redb::Error> {
        for _ in 0..MOST_AT_ONCE {
            if responses::tables::count(write)? < self.bounds.responses {
                return Ok(true);
            }
            let Some((minute, number)) = responses::tables::oldest(write)? else {
                return Ok(false);
            };
            self.take_response(write, minute, number)?;
        }
        Ok(false)
    }

    pub(super) fn take_response(&self, write: &WriteTransaction, minute: u64, number: u64) -> Result<(), redb::Error> {
        responses::tables::hide(write, minute, number)?;
        self.responses.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }
}

/// What a change adds and takes away.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Delta {
    added: u64,
    taken: u64,
}

impl Delta {
    pub(super) fn add(&mut self, bytes: usize) {
        self.added += bytes as u64;
    }

    pub(super) fn take(&mut self, bytes: usize) {
        self.taken += bytes as u64;
    }

    /// Counts it.
    pub(super) fn book(self, write: &WriteTransaction) -> Result<(), redb::Error> {
        if self.added == self.taken {
            return Ok(());
        }
        let before = bytes(write)?;
        let after = before.saturating_add(self.added).saturating_sub(self.taken);
        write.open_table(COUNTS)?.insert(BYTES, after)?;
        Ok(())
    }
}

/// Makes the record that is not there: of a file that was written before there was one everything is looked at, once.
pub(super) fn make(write: &WriteTransaction) -> Result<(), redb::Error> {
    let known = write.open_table(COUNTS)?.get(BYTES)?.is_some();
    if !known {
        let counted = tables::weigh(write)? + responses::tables::weigh(write)?;
        write.open_table(COUNTS)?.insert(BYTES, counted)?;
    }
    Ok(())
}

/// How many bytes sessions and responses take.
pub(super) fn bytes(write: &WriteTransaction) -> Result<u64, redb::Error> {
    Ok(write.open_table(COUNTS)?.get(BYTES)?.map_or(0, |bytes| bytes.value()))
}

/// A number that no response has had.
pub(super) fn number(write: &WriteTransaction) -> Result<u64, redb::Error> {
    let mut counts = write.open_table(COUNTS)?;
    let number = counts.get(NUMBERS)?.map_or(0, |number| number.value());
    counts.insert(NUMBERS, number + 1)?;
    Ok(number)
}

/// What all of it takes, counted anew.
#[cfg(test)]
pub(super) fn weighed(write: &WriteTransaction) -> Result<u64, redb::Error> {
    Ok(tables::weigh(write)? + responses::tables::weigh(write)?)
}

pub(super) fn copy(from: &ReadTransaction, to: &WriteTransaction) -> Result<(), redb::Error> {
    copied(from, to, COUNTS)
}

#[cfg(test)]
mod tests;
