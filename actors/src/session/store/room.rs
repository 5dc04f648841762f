//! How much sessions and responses take in the state file, and who goes when it is more than they may.
//!
//! The sum is a record of its own, changed together with what it counts: it costs the same however much there is, and is
//! right after whatever end.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redb::{ReadTransaction, ReadableTable, TableDefinition, WriteTransaction};

use super::residence::{Leaving, Residents};
use super::tables::{Outcome, Used};
use super::{responses, tables};
use crate::state::copied;

const COUNTS: TableDefinition<'static, &str, u64> = TableDefinition::new("session_counts");
const BYTES: &str = "bytes";
const NUMBERS: &str = "responses";

/// How many of those that may go one change looks at: others wait for it. Few where that is tested.
const MOST_AT_ONCE: usize = if cfg!(test) { 8 } else { 4_096 };

/// What may be kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// How many responses.
    pub(super) responses: u64,
    /// How many bytes sessions and responses take together.
    pub(super) bytes: u64,
}

/// What one change needs to make room, and whom it has taken away when it is made. A change may be made more than once; what
/// was decided the first time stands.
#[derive(Debug)]
pub(super) struct Room {
    bounds: Bounds,
    residents: Arc<Residents>,
    from: Reached,
    course: Mutex<Course>,
}

/// How far was looked for sessions that may go.
#[derive(Clone, Debug, Default)]
pub(super) struct Reached {
    last: Option<Used>,
    /// What those take that have to stay.
    stay: u64,
}

/// How a change goes.
#[derive(Debug, Default)]
struct Course {
    leaving: Option<Leaving>,
    /// Of each session that was asked about, whether it had no work.
    claimed: HashMap<Box<[u8]>, bool>,
    is_settled: bool,
    reached: Option<Reached>,
    sessions: u64,
    responses: u64,
}

/// Whoever may go.
enum Idle {
    Session(Used),
    Response(u64, u64),
}

/// What a look for room finds.
#[derive(Default)]
struct Found {
    idle: Vec<Idle>,
    reached: Reached,
    /// Whether nobody is left to look at.
    is_all: bool,
}

impl Room {
    /// `from`: how far the changes before this one have looked, if it goes on where they ended.
    pub(super) fn new(bounds: Bounds, residents: Arc<Residents>, from: Reached) -> Self {
        Self {
            bounds,
            residents,
            from,
            course: Mutex::default(),
        }
    }

    /// How many sessions and responses went.
    pub(super) fn gone(&self) -> (u64, u64) {
        let course = self.course();
        (course.sessions, course.responses)
    }

    /// From where another change is to go on, if this one has left something to do.
    pub(super) fn reached(&self) -> Option<Reached> {
        self.course().reached.clone()
    }

    /// Another change is to go on behind this session.
    pub(super) fn go_on_behind(&self, last: Option<Used>) {
        self.course().reached = Some(Reached { last, stay: 0 });
    }

    /// The change is run, perhaps not for the first time. Tells behind which session it begins to look.
    pub(super) fn begin(&self) -> Option<Used> {
        let mut course = self.course();
        (course.sessions, course.responses, course.reached) = (0, 0, None);
        self.from.last.clone()
    }

    /// Whether a session has no work; what is in memory of it is read again before it has some. Of a change that is made once
    /// more, whether it had none: nobody else goes then.
    pub(super) fn claim(&self, key: &[u8]) -> bool {
        let mut course = self.course();
        if let Some(claimed) = course.claimed.get(key) {
            return *claimed;
        }
        if course.is_settled {
            return false;
        }
        course.leaving.get_or_insert_with(|| self.residents.leaving());
        let claimed = self.residents.claim(key);
        course.claimed.insert(key.into(), claimed);
        claimed
    }

    /// The change is committed, or never will be.
    pub(super) fn settled(&self) {
        let mut course = self.course();
        course.is_settled = true;
        course.leaving.take();
    }

    fn course(&self) -> MutexGuard<'_, Course> {
        self.course.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes a session that was claimed, and its row.
    pub(super) fn take(&self, write: &WriteTransaction, minute: u64, key: &[u8]) -> Result<(), redb::Error> {
        let found = tables::remove(write, key)?;
        // that of a damaged one is not known to it
        tables::forget_use(write, minute, key)?;
        self.course().sessions += u64::from(found);
        Ok(())
    }

    /// Makes room for so many bytes more, be it in the place of what was used least recently. Those with work stay, and so does
    /// the session `own`. Where there is too little, it tells what becomes of the change; nobody goes for one that is
    /// [`Outcome::Full`], as far as that can be seen in one look.
    pub(super) fn make(&self, write: &WriteTransaction, more: u64, own: &[u8]) -> Result<Option<Outcome>, redb::Error> {
        let most = self.bounds.bytes;
        let short = |write| Ok::<_, redb::Error>(bytes(write)?.saturating_add(more).saturating_sub(most));
        let missing = short(write)?;
        if missing == 0 {
            return Ok(None);
        }
        if more > most {
            return Ok(Some(Outcome::Full));
        }
        let found = self.look(write, missing, own)?;
        if found.is_all && found.reached.stay.saturating_add(more) > most {
            return Ok(Some(Outcome::Full));
        }
        for idle in found.idle {
            match idle {
                Idle::Session((minute, key)) => self.take(write, minute, &key)?,
                Idle::Response(minute, number) => self.take_response(write, minute, number)?,
            }
            if short(write)? == 0 {
                return Ok(None);
            }
        }
        if found.is_all {
            return Ok(Some(Outcome::Full));
        }
        self.course().reached = Some(found.reached);
        Ok(Some(Outcome::Unfinished))
    }

    /// Looks for those that may go, the least recently used first, until what is `missing` goes with them.
    fn look(&self, write: &WriteTransaction, missing: u64, own: &[u8]) -> Result<Found, redb::Error> {
        let (mut found, mut freed) = (Found::default(), 0);
        found.reached = self.from.clone();
        let mut session = tables::used_after(write, found.reached.last.as_ref())?;
        let mut response = responses::tables::used_after(write, None)?;
        for _ in 0..MOST_AT_ONCE {
            if freed >= missing {
                return Ok(found);
            }
            match (session.take(), response) {
                (Some((minute, key)), response) if response.is_none_or(|(newer, _)| minute <= newer) => {
                    if tables::is_own(write, minute, &key)? {
                        let size = tables::weight(write, &key)?;
                        if key != own && self.claim(&key) {
                            freed += size;
                            found.idle.push(Idle::Session((minute, key.clone())));
                        } else {
                            found.reached.stay += size;
                        }
                    }
                    let last = found.reached.last.insert((minute, key));
                    session = tables::used_after(write, Some(last))?;
                }
                (newer, Some((minute, number))) => {
                    freed += responses::tables::weight(write, number)?;
                    found.idle.push(Idle::Response(minute, number));
                    response = responses::tables::used_after(write, response)?;
                    session = newer;
                }
                (_, None) => {
                    found.is_all = true;
                    break;
                }
            }
        }
        Ok(found)
    }

    /// Makes room for one response more, be it in the place of those that were used least recently. Where there is too little,
    /// it tells what becomes of the change.
    pub(super) fn make_for_response(&self, write: &WriteTransaction) -> Result<Option<Outcome>, redb::Error> {
        for _ in 0..MOST_AT_ONCE {
            if responses::tables::count(write)? < self.bounds.responses {
                return Ok(None);
            }
            let Some((minute, number)) = responses::tables::used_after(write, None)? else {
                return Ok(Some(Outcome::Full));
            };
            self.take_response(write, minute, number)?;
        }
        self.course().reached = Some(self.from.clone());
        Ok(Some(Outcome::Unfinished))
    }

    pub(super) fn take_response(&self, write: &WriteTransaction, minute: u64, number: u64) -> Result<(), redb::Error> {
        responses::tables::hide(write, minute, number)?;
        self.course().responses += 1;
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
