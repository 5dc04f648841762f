//! The tables of sessions in the state file, and what is done in one transaction.
//!
//! A header lies under the session's key, what was said under key and number of the turn: a turn adds a record, and none is
//! written again. Which session was last used when is known by minutes, so that the oldest are found without looking at all.

use std::sync::atomic::{AtomicBool, Ordering};

use redb::{ReadTransaction, ReadableTable, ReadableTableMetadata, TableDefinition, TableError, WriteTransaction};
use understudy_messages::ids::Name;
use understudy_messages::session::SessionInfo;

use super::codec::{self, Unreadable};
use super::stored::ReadError;
use super::{SessionChange, StoredSession};
use crate::state::copied;

type Bytes = &'static [u8];

const SESSIONS: TableDefinition<'static, Bytes, Bytes> = TableDefinition::new("sessions");
const TURNS: TableDefinition<'static, (Bytes, u64), Bytes> = TableDefinition::new("session_turns");
const USED: TableDefinition<'static, (u64, Bytes), ()> = TableDefinition::new("sessions_by_minute");
const SALT: TableDefinition<'static, (), Bytes> = TableDefinition::new("session_owners");

/// What the keys of one client key's sessions begin with.
pub(super) struct KeyPrefix(Vec<u8>);

impl KeyPrefix {
    /// Where there are no client keys.
    pub(super) fn unowned() -> Self {
        Self(vec![0])
    }

    pub(super) fn of(owner: &[u8; 16]) -> Self {
        Self([&[1], &owner[..]].concat())
    }

    pub(super) fn with(&self, name: &str) -> Vec<u8> {
        [&self.0, name.as_bytes()].concat()
    }
}

/// Makes the tables that are not there.
pub(super) fn make(write: &WriteTransaction, fresh_salt: &[u8]) -> Result<(), redb::Error> {
    write.open_table(SESSIONS)?;
    write.open_table(TURNS)?;
    write.open_table(USED)?;
    let mut salt = write.open_table(SALT)?;
    if salt.get(())?.is_none() {
        salt.insert((), fresh_salt)?;
    }
    Ok(())
}

/// What client keys are mixed with, before they stand in a key.
pub(super) fn salt(read: &ReadTransaction) -> Result<Vec<u8>, redb::Error> {
    let salt = read.open_table(SALT)?.get(())?;
    Ok(salt.map(|salt| salt.value().to_vec()).unwrap_or_default())
}

pub(super) fn count(read: &ReadTransaction) -> Result<u64, redb::Error> {
    Ok(read.open_table(SESSIONS)?.len()?)
}

/// A session and what was said in it.
pub(super) fn session(read: &ReadTransaction, key: &[u8]) -> Result<Option<StoredSession>, ReadError> {
    let Some(record) = read.open_table(SESSIONS)?.get(key)? else {
        return Ok(None);
    };
    let header = codec::header(key, record.value()).map_err(ReadError::Unreadable)?;
    let said = read.open_table(TURNS)?;
    let mut turns = Vec::new();
    for entry in said.range((key, header.first)..(key, header.next))? {
        let (place, record) = entry?;
        let number = place.value().1;
        if number != header.first + turns.len() as u64 {
            return Err(ReadError::Unreadable(Unreadable::Missing));
        }
        turns.push(codec::turn(key, number, record.value()).map_err(ReadError::Unreadable)?);
    }
    match header.first + turns.len() as u64 == header.next {
        true => Ok(Some(StoredSession { header, turns })),
        false => Err(ReadError::Unreadable(Unreadable::Missing)),
    }
}

/// Sessions behind a name, in order. One whose header is damaged is passed over, and said so: asked for by its name it says
/// what is wrong.
pub(super) fn page(
    read: &ReadTransaction,
    prefix: &KeyPrefix,
    after: Option<&str>,
    limit: usize,
) -> Result<Vec<SessionInfo>, ReadError> {
    let sessions = read.open_table(SESSIONS)?;
    let behind = prefix.with(after.unwrap_or_default());
    let mut found = Vec::new();
    for entry in sessions.range(&*behind..)? {
        let (key, record) = entry?;
        let Some(name) = key.value().strip_prefix(&*prefix.0) else {
            break;
        };
        if found.len() >= limit {
            break;
        }
        let name = String::from_utf8_lossy(name);
        if after == Some(&*name) {
            continue;
        }
        match codec::header(key.value(), record.value()) {
            Ok(header) => found.push(header.info(&Name::from(&*name))),
            Err(fault) => tracing::error!(session = &*name, %fault, "a session is not listed"),
        }
    }
    Ok(found)
}

/// Whether a change was made.
#[derive(Debug, Default)]
pub(super) struct Applied(AtomicBool);

impl Applied {
    pub(super) fn is_made(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// A change as it is written.
pub(super) struct Written {
    key: Vec<u8>,
    base: u64,
    header: Vec<u8>,
    minute: u64,
    turn: Option<(u64, Vec<u8>)>,
    forgets: std::ops::Range<u64>,
}

impl Written {
    pub(super) fn new(key: Vec<u8>, change: &SessionChange) -> Result<Self, serde_json::Error> {
        let number = change.header.next.saturating_sub(1);
        let said = !change.said.is_empty();
        Ok(Self {
            base: change.base,
            header: codec::written_header(&key, &change.header)?,
            minute: codec::minute(change.header.updated),
            turn: said.then(|| (number, codec::written_turn(&key, number, &change.said))),
            forgets: change.forgets.clone(),
            key,
        })
    }

    /// About how many bytes it holds.
    pub(super) fn len(&self) -> usize {
        self.header.len() + self.turn.as_ref().map_or(0, |(_, turn)| turn.len())
    }

    /// Makes the change, unless what is stored is not what it was made from.
    pub(super) fn apply(&self, write: &WriteTransaction, applied: &Applied) -> Result<(), redb::Error> {
        let key = &*self.key;
        let mut sessions = write.open_table(SESSIONS)?;
        let before = sessions.get(key)?.map(|record| codec::stamp(record.value()));
        let (revision, minute) = match before {
            None => (0, None),
            Some(Some((revision, minute))) => (revision, Some(minute)),
            Some(None) => (u64::MAX, None),
        };
        applied.0.store(revision == self.base, Ordering::Release);
        if revision != self.base {
            return Ok(());
        }
        sessions.insert(key, &*self.header)?;
        if minute != Some(self.minute) {
            let mut used = write.open_table(USED)?;
            if let Some(minute) = minute {
                used.remove((minute, key))?;
            }
            used.insert((self.minute, key), ())?;
        }
        if self.turn.is_some() || !self.forgets.is_empty() {
            let mut turns = write.open_table(TURNS)?;
            for number in self.forgets.clone() {
                turns.remove((key, number))?;
            }
            if let Some((number, turn)) = &self.turn {
                turns.insert((key, *number), &**turn)?;
            }
        }
        Ok(())
    }
}

/// Puts a session in whole, unless there is one. Tells whether it was put in.
pub(super) fn put(write: &WriteTransaction, whole: &Whole) -> Result<bool, redb::Error> {
    let key = &*whole.key;
    let mut sessions = write.open_table(SESSIONS)?;
    if sessions.get(key)?.is_some() {
        return Ok(false);
    }
    sessions.insert(key, &*whole.header)?;
    write.open_table(USED)?.insert((whole.minute, key), ())?;
    let mut turns = write.open_table(TURNS)?;
    for (number, turn) in &whole.turns {
        turns.insert((key, *number), &**turn)?;
    }
    Ok(true)
}

/// A whole session as it is written.
pub(super) struct Whole {
    key: Vec<u8>,
    header: Vec<u8>,
    minute: u64,
    turns: Vec<(u64, Vec<u8>)>,
}

impl Whole {
    pub(super) fn new(key: Vec<u8>, session: &StoredSession) -> Result<Self, serde_json::Error> {
        let header = &session.header;
        let numbered = (header.first..header.next).zip(&session.turns);
        Ok(Self {
            header: codec::written_header(&key, header)?,
            minute: codec::minute(header.updated),
            turns: numbered
                .map(|(number, said)| (number, codec::written_turn(&key, number, said)))
                .collect(),
            key,
        })
    }

    /// About how many bytes it holds.
    pub(super) fn len(&self) -> usize {
        self.header.len() + self.turns.iter().map(|(_, turn)| turn.len()).sum::<usize>()
    }
}

/// Copies all sessions into another file.
pub(super) fn copy(from: &ReadTransaction, to: &WriteTransaction) -> Result<(), redb::Error> {
    copied(from, to, SESSIONS)?;
    copied(from, to, TURNS)?;
    copied(from, to, USED)?;
    copied(from, to, SALT)
}

/// Reads every record of sessions: how many there are, and how many of them cannot be read.
///
/// # Errors
/// The file cannot be read.
pub fn check(read: &ReadTransaction) -> Result<(u64, u64), redb::Error> {
    let (mut sessions, mut damaged) = (0, 0);
    let table = match read.open_table(SESSIONS) {
        Ok(table) => table,
        Err(TableError::TableDoesNotExist(_)) => return Ok((0, 0)),
        Err(error) => return Err(error.into()),
    };
    for entry in table.iter()? {
        let (key, _) = entry?;
        sessions += 1;
        match session(read, key.value()) {
            Ok(_) => {}
            Err(ReadError::Unreadable(_)) => damaged += 1,
            Err(ReadError::Store(error)) => return Err(error),
        }
    }
    Ok((sessions, damaged))
}

/// Removes a session and what was said in it, damaged or not. Tells whether there was one.
pub(super) fn remove(write: &WriteTransaction, key: &[u8]) -> Result<bool, redb::Error> {
    let before = write
        .open_table(SESSIONS)?
        .remove(key)?
        .map(|record| codec::stamp(record.value()));
    if let Some(Some((_, minute))) = before {
        write.open_table(USED)?.remove((minute, key))?;
    }
    let mut turns = write.open_table(TURNS)?;
    turns.retain_in((key, 0)..=(key, u64::MAX), |_, _| false)?;
    Ok(before.is_some())
}

/// Removes `most` sessions that were last used before a minute. Tells how many went.
pub(super) fn expire(write: &WriteTransaction, before: u64, most: usize) -> Result<usize, redb::Error> {
    let mut old = Vec::new();
    for entry in write
        .open_table(USED)?
        .range((0, &[][..])..(before, &[][..]))?
        .take(most)
    {
        let (place, ()) = entry.map(|(place, _)| (place, ()))?;
        let (minute, key) = place.value();
        old.push((minute, key.to_vec()));
    }
    let mut gone = 0;
    for (minute, key) in old {
        gone += usize::from(remove(write, &key)?);
        write.open_table(USED)?.remove((minute, &*key))?;
    }
    Ok(gone)
}

#[cfg(test)]
pub(super) mod tests {
    //! Damage, done on purpose.

    use super::*;

    fn flipped(record: &[u8]) -> Vec<u8> {
        let mut record = record.to_vec();
        if let Some(last) = record.last_mut() {
            *last ^= 1;
        }
        record
    }

    pub(in crate::session::store) fn flip_a_bit_of_turn(
        write: &WriteTransaction,
        key: &[u8],
        number: u64,
    ) -> Result<(), redb::Error> {
        let mut turns = write.open_table(TURNS)?;
        let record = turns.get((key, number))?.map(|record| flipped(record.value()));
        turns.insert((key, number), &*record.expect("there"))?;
        Ok(())
    }

    pub(in crate::session::store) fn flip_a_bit_of_header(
        write: &WriteTransaction,
        key: &[u8],
    ) -> Result<(), redb::Error> {
        let mut sessions = write.open_table(SESSIONS)?;
        let record = sessions.get(key)?.map(|record| flipped(record.value()));
        sessions.insert(key, &*record.expect("there"))?;
        Ok(())
    }

    pub(in crate::session::store) fn drop_turn(
        write: &WriteTransaction,
        key: &[u8],
        number: u64,
    ) -> Result<(), redb::Error> {
        write.open_table(TURNS)?.remove((key, number))?;
        Ok(())
    }
}
