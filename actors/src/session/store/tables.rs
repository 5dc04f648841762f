//! The tables of sessions in the state file, and what is done in one transaction.
//!
//! A header lies under the session's key, what was said under key and number of the turn: a turn adds a record, and none is
//! written again. Which session was last used when is known by minutes, so that the oldest are found without looking at all.

use std::ops::Bound;
use std::sync::atomic::{AtomicU8, Ordering};

use redb::{ReadTransaction, ReadableTable, ReadableTableMetadata, TableDefinition, TableError, WriteTransaction};
use understudy_messages::ids::Name;
use understudy_messages::session::SessionInfo;

use super::codec::{self, Unreadable};
use super::room::{self, Delta, Room};
use super::stored::ReadError;
use super::{SessionChange, StoredSession, responses};
use crate::state::{Backup, copied};

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
    responses::tables::make(write)?;
    room::make(write)
}

/// What a header takes, with the places where its key stands.
fn header_size(key: &[u8], record: usize) -> usize {
    record + 2 * key.len() + 8
}

/// What a turn takes.
fn turn_size(key: &[u8], record: usize) -> usize {
    record + key.len() + 8
}

/// What a session takes.
pub(super) fn weight(write: &WriteTransaction, key: &[u8]) -> Result<u64, redb::Error> {
    let header = write.open_table(SESSIONS)?.get(key)?.map(|record| record.value().len());
    let mut bytes = header.map_or(0, |record| header_size(key, record));
    for entry in write.open_table(TURNS)?.range((key, 0)..=(key, u64::MAX))? {
        bytes += turn_size(key, entry?.1.value().len());
    }
    Ok(bytes as u64)
}

/// What all of them take.
pub(super) fn weigh(write: &WriteTransaction) -> Result<u64, redb::Error> {
    let mut bytes = 0;
    for entry in write.open_table(SESSIONS)?.iter()? {
        let (key, record) = entry?;
        bytes += header_size(key.value(), record.value().len()) as u64;
    }
    for entry in write.open_table(TURNS)?.iter()? {
        let (place, record) = entry?;
        bytes += turn_size(place.value().0, record.value().len()) as u64;
    }
    Ok(bytes)
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
    let said = read.open_table(TURNS)?;
    let Some(record) = read.open_table(SESSIONS)?.get(key)? else {
        // what was said in a session goes with it
        let is_none = said.range((key, 0)..=(key, u64::MAX))?.next().is_none();
        return match is_none {
            true => Ok(None),
            false => Err(ReadError::Unreadable(Unreadable::Missing)),
        };
    };
    let header = codec::header(key, record.value()).map_err(ReadError::Unreadable)?;
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

/// What became of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// What is stored is not what it was made from.
    Changed,
    /// It was made.
    Made,
    /// It was made in the place of what was there.
    Replaced,
    /// There is no room for it.
    Full,
    /// The session has work.
    Busy,
    /// Some have made room, and it takes more of them: it is to be made in another transaction.
    Unfinished,
}

/// What became of the change that was run last.
#[derive(Debug, Default)]
pub(super) struct Applied(AtomicU8);

impl Applied {
    const ALL: [Outcome; 6] = [
        Outcome::Changed,
        Outcome::Made,
        Outcome::Replaced,
        Outcome::Full,
        Outcome::Busy,
        Outcome::Unfinished,
    ];

    pub(super) fn set(&self, outcome: Outcome) {
        self.0.store(outcome as u8, Ordering::Release);
    }

    pub(super) fn get(&self) -> Outcome {
        let place = usize::from(self.0.load(Ordering::Acquire));
        Self::ALL.get(place).copied().unwrap_or(Outcome::Changed)
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

    /// Makes the change, unless what is stored is not what it was made from, or there is no room for it.
    pub(super) fn apply(&self, write: &WriteTransaction, room: &Room) -> Result<Outcome, redb::Error> {
        room.begin();
        let before = before(write, &self.key)?;
        let (revision, old) = before.map_or((0, 0), |before| (before.revision, before.size));
        if revision != self.base {
            return Ok(Outcome::Changed);
        }
        let turn = self
            .turn
            .as_ref()
            .map_or(0, |(_, turn)| turn_size(&self.key, turn.len()));
        let more = (header_size(&self.key, self.header.len()) + turn).saturating_sub(old);
        if let Some(short) = room.make(write, more as u64, &self.key)? {
            return Ok(short);
        }
        let mut delta = Delta::default();
        self.put_header(write, before.and_then(|before| before.minute))?;
        delta.add(header_size(&self.key, self.header.len()));
        delta.take(old);
        self.put_turn(write, &mut delta)?;
        delta.book(write)?;
        Ok(Outcome::Made)
    }

    fn put_header(&self, write: &WriteTransaction, before: Option<u64>) -> Result<(), redb::Error> {
        let key = &*self.key;
        write.open_table(SESSIONS)?.insert(key, &*self.header)?;
        if before != Some(self.minute) {
            let mut used = write.open_table(USED)?;
            if let Some(minute) = before {
                used.remove((minute, key))?;
            }
            used.insert((self.minute, key), ())?;
        }
        Ok(())
    }

    fn put_turn(&self, write: &WriteTransaction, delta: &mut Delta) -> Result<(), redb::Error> {
        if self.turn.is_none() && self.forgets.is_empty() {
            return Ok(());
        }
        let key = &*self.key;
        let mut turns = write.open_table(TURNS)?;
        for number in self.forgets.clone() {
            if let Some(turn) = turns.remove((key, number))? {
                delta.take(turn_size(key, turn.value().len()));
            }
        }
        if let Some((number, turn)) = &self.turn {
            delta.add(turn_size(key, turn.len()));
            if let Some(old) = turns.insert((key, *number), &**turn)? {
                delta.take(turn_size(key, old.value().len()));
            }
        }
        Ok(())
    }
}

/// What a change finds.
#[derive(Clone, Copy)]
struct Before {
    revision: u64,
    minute: Option<u64>,
    size: usize,
}

fn before(write: &WriteTransaction, key: &[u8]) -> Result<Option<Before>, redb::Error> {
    let sessions = write.open_table(SESSIONS)?;
    let record = sessions.get(key)?;
    Ok(record.map(|record| {
        let stamp = codec::stamp(record.value());
        Before {
            // of one that is damaged nothing was made
            revision: stamp.map_or(u64::MAX, |(revision, _)| revision),
            minute: stamp.map(|(_, minute)| minute),
            size: header_size(key, record.value().len()),
        }
    }))
}

/// Puts a session in whole; one that is there stays, unless this one is to `replace` it.
pub(super) fn put(write: &WriteTransaction, whole: &Whole, replace: bool, room: &Room) -> Result<Outcome, redb::Error> {
    room.begin();
    let key = &*whole.key;
    let is_there = before(write, key)?.is_some();
    if is_there && !replace {
        return Ok(Outcome::Changed);
    }
    if is_there && !room.claim(key) {
        return Ok(Outcome::Busy);
    }
    let more = (whole.size() as u64).saturating_sub(weight(write, key)?);
    if let Some(short) = room.make(write, more, key)? {
        return Ok(short);
    }
    remove(write, key)?;
    let mut delta = Delta::default();
    delta.add(whole.size());
    write.open_table(SESSIONS)?.insert(key, &*whole.header)?;
    write.open_table(USED)?.insert((whole.minute, key), ())?;
    let mut turns = write.open_table(TURNS)?;
    for (number, turn) in &whole.turns {
        turns.insert((key, *number), &**turn)?;
    }
    drop(turns);
    delta.book(write)?;
    Ok(if is_there { Outcome::Replaced } else { Outcome::Made })
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

    /// How many bytes it takes.
    pub(super) fn size(&self) -> usize {
        let turns = self.turns.iter().map(|(_, turn)| turn_size(&self.key, turn.len()));
        header_size(&self.key, self.header.len()) + turns.sum::<usize>()
    }
}

/// Copies all sessions into another file.
pub(super) fn copy(from: &ReadTransaction, to: &WriteTransaction) -> Result<(), redb::Error> {
    copied(from, to, SESSIONS)?;
    copied(from, to, TURNS)?;
    copied(from, to, USED)?;
    copied(from, to, SALT)?;
    responses::tables::copy(from, to)?;
    room::copy(from, to)
}

/// Reads every record of sessions and responses: how many there are, and how many of them cannot be read.
///
/// # Errors
/// The file cannot be read.
pub fn check(read: &ReadTransaction) -> Result<Backup, redb::Error> {
    let (responses, mut damaged) = responses::tables::check(read)?;
    let mut sessions = 0;
    match read.open_table(SESSIONS) {
        Ok(table) => {
            for entry in table.iter()? {
                let (key, _) = entry?;
                sessions += 1;
                match session(read, key.value()) {
                    Ok(_) => {}
                    Err(ReadError::Unreadable(_)) => damaged += 1,
                    Err(ReadError::Store(error)) => return Err(error),
                }
            }
        }
        Err(TableError::TableDoesNotExist(_)) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(Backup {
        sessions,
        responses,
        damaged,
    })
}

/// Removes a session and what was said in it, damaged or not. Tells whether there was one.
pub(super) fn remove(write: &WriteTransaction, key: &[u8]) -> Result<bool, redb::Error> {
    let before = before(write, key)?;
    let mut delta = Delta::default();
    if let Some(before) = before {
        write.open_table(SESSIONS)?.remove(key)?;
        delta.take(before.size);
        if let Some(minute) = before.minute {
            write.open_table(USED)?.remove((minute, key))?;
        }
    }
    let mut turns = write.open_table(TURNS)?;
    turns.retain_in((key, 0)..=(key, u64::MAX), |_, turn| {
        delta.take(turn_size(key, turn.len()));
        false
    })?;
    drop(turns);
    delta.book(write)?;
    Ok(before.is_some())
}

/// When a session was used, and its key.
pub(super) type Used = (u64, Vec<u8>);

/// The session that was used least recently behind another one.
pub(super) fn used_after(write: &WriteTransaction, after: Option<&Used>) -> Result<Option<Used>, redb::Error> {
    let behind = after.map_or(Bound::Unbounded, |(minute, key)| Bound::Excluded((*minute, &**key)));
    let used = write.open_table(USED)?;
    let mut range = used.range::<(u64, &[u8])>((behind, Bound::Unbounded))?;
    let Some(entry) = range.next() else { return Ok(None) };
    let (place, _) = entry?;
    let (minute, key) = place.value();
    Ok(Some((minute, key.to_vec())))
}

/// Whether a row of those by minute is that of its session. One that is not, which damage has left, goes: the session has
/// another one.
pub(super) fn is_own(write: &WriteTransaction, minute: u64, key: &[u8]) -> Result<bool, redb::Error> {
    let is_own = match write.open_table(SESSIONS)?.get(key)? {
        Some(record) => codec::last_used(key, record.value()).is_none_or(|used| used == minute),
        None => false,
    };
    if !is_own {
        forget_use(write, minute, key)?;
    }
    Ok(is_own)
}

pub(super) fn forget_use(write: &WriteTransaction, minute: u64, key: &[u8]) -> Result<(), redb::Error> {
    write.open_table(USED)?.remove((minute, key))?;
    Ok(())
}

/// Removes sessions without work that were last used before a minute; it looks at `most` of them. Tells how far it has looked
/// where there may be more.
pub(super) fn expire(
    write: &WriteTransaction,
    minute: u64,
    most: usize,
    room: &Room,
) -> Result<Option<Used>, redb::Error> {
    let mut last = room.begin();
    for _ in 0..most {
        let next = used_after(write, last.as_ref())?.filter(|(used, _)| *used < minute);
        let Some((used, key)) = next else { return Ok(None) };
        if is_own(write, used, &key)? && room.claim(&key) {
            room.take(write, used, &key)?;
        }
        last = Some((used, key));
    }
    Ok(last)
}

#[cfg(test)]
pub(super) mod tests;
