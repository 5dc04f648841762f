//! The tables of responses in the state file, and what is done in one transaction.
//!
//! A node has a number that no other ever has, larger than that of the node that it goes on from. What is known of it and its
//! texts are records of their own: the first is written again with each child, the second never.

use std::ops::Bound;
use std::sync::Arc;

use redb::{ReadTransaction, ReadableTable, ReadableTableMetadata, TableDefinition, TableError, WriteTransaction};
use understudy_messages::ids::Name;

use super::super::codec::{self, Unreadable};
use super::super::room::{self, Delta, Room};
use super::super::stored::ReadError;
use super::super::tables::Outcome;
use super::record::{self, Known};
use crate::session::transcripts::{Node, Transcript};
use crate::state::copied;

type Bytes = &'static [u8];

/// Which node an id names.
const IDS: TableDefinition<'static, Bytes, u64> = TableDefinition::new("responses");
/// Which node an item of this id was last a part of.
const ITEMS: TableDefinition<'static, Bytes, u64> = TableDefinition::new("response_items");
/// What is known of a node.
const NODES: TableDefinition<'static, u64, Bytes> = TableDefinition::new("response_nodes");
/// What was asked and answered.
const TEXTS: TableDefinition<'static, u64, Bytes> = TableDefinition::new("response_texts");
/// Those that are found, by when they were used.
const USED: TableDefinition<'static, (u64, u64), ()> = TableDefinition::new("responses_by_minute");

pub(in crate::session::store) fn make(write: &WriteTransaction) -> Result<(), redb::Error> {
    write.open_table(IDS)?;
    write.open_table(ITEMS)?;
    write.open_table(NODES)?;
    write.open_table(TEXTS)?;
    write.open_table(USED)?;
    Ok(())
}

pub(in crate::session::store) fn copy(from: &ReadTransaction, to: &WriteTransaction) -> Result<(), redb::Error> {
    copied(from, to, IDS)?;
    copied(from, to, ITEMS)?;
    copied(from, to, NODES)?;
    copied(from, to, TEXTS)?;
    copied(from, to, USED)
}

/// What the keys of its records take, beside the id.
const NODE: usize = 16;
const KEYED: usize = 8;
const USE: usize = 16;
/// What seals the texts, with the number.
const TEXT_KEY: &[u8] = b"response";

/// What all of it takes.
pub(in crate::session::store) fn weigh(write: &WriteTransaction) -> Result<u64, redb::Error> {
    let mut bytes = 0;
    for entry in write.open_table(NODES)?.iter()? {
        bytes += entry?.1.value().len() + NODE;
    }
    for entry in write.open_table(TEXTS)?.iter()? {
        bytes += entry?.1.value().len();
    }
    for table in [IDS, ITEMS] {
        for entry in write.open_table(table)?.iter()? {
            bytes += entry?.0.value().len() + KEYED;
        }
    }
    let used = write.open_table(USED)?.len()?;
    Ok(bytes as u64 + used * USE as u64)
}

pub(in crate::session::store) fn count(write: &WriteTransaction) -> Result<u64, redb::Error> {
    Ok(write.open_table(NODES)?.len()?)
}

/// The minute and number of the one that was used least recently behind another one, of those that are found.
pub(in crate::session::store) fn used_after(
    write: &WriteTransaction,
    after: Option<(u64, u64)>,
) -> Result<Option<(u64, u64)>, redb::Error> {
    let behind = after.map_or(Bound::Unbounded, Bound::Excluded);
    let used = write.open_table(USED)?;
    let next = used.range::<(u64, u64)>((behind, Bound::Unbounded))?.next();
    Ok(next.transpose()?.map(|(place, _)| place.value()))
}

/// What becomes free at least when one is not found any more.
pub(in crate::session::store) fn weight(write: &WriteTransaction, number: u64) -> Result<u64, redb::Error> {
    let mut bytes = USE;
    let nodes = write.open_table(NODES)?;
    if let Some(node) = nodes.get(number)?
        && Known::read(number, node.value()).is_ok_and(|known| known.told.children == 0)
    {
        let texts = write.open_table(TEXTS)?.get(number)?.map(|texts| texts.value().len());
        bytes += node.value().len() + NODE + texts.unwrap_or_default();
    }
    Ok(bytes as u64)
}

/// A response that is to be kept.
pub(super) struct NewNode {
    key: Vec<u8>,
    minute: u64,
    transcript: Transcript,
}

impl NewNode {
    pub(super) fn new(key: Vec<u8>, minute: u64, transcript: Transcript) -> Self {
        Self {
            key,
            minute,
            transcript,
        }
    }

    /// About how many bytes it holds, with what it goes on from.
    pub(super) fn len(&self) -> usize {
        let before = self.transcript.parent.as_ref().map_or(0, |parent| parent.held());
        before + self.transcript.input.len() + self.transcript.response.len()
    }

    /// Keeps it, where there is room or can be made.
    pub(super) fn apply(&self, write: &WriteTransaction, room: &Room) -> Result<Outcome, redb::Error> {
        room.begin();
        if self.is_there(write)? {
            return Ok(Outcome::Made);
        }
        forget(write, &self.key)?;
        let mut parent = self.parent(write)?;
        loop {
            let texts = self.texts(parent);
            let known = self.known(parent);
            let number = room::number(write)?;
            let (node, texts) = (known.written(number)?, codec::written_turn(TEXT_KEY, number, &texts));
            let items: usize = known.item_keys().map(|key| key.len() + KEYED).sum();
            let more = node.len() + NODE + texts.len() + self.key.len() + KEYED + USE + items;
            let short = match room.make_for_response(write)? {
                None => room.make(write, more as u64, &[])?,
                short => short,
            };
            if let Some(short) = short {
                return Ok(short);
            }
            // what it goes on from may have made room
            let still = self.parent(write)?;
            if still == parent {
                self.put(write, number, &known, (&node, &texts))?;
                return Ok(Outcome::Made);
            }
            parent = still;
        }
    }

    /// Whether it was kept before: a change may be made twice.
    fn is_there(&self, write: &WriteTransaction) -> Result<bool, redb::Error> {
        let Some(number) = write.open_table(IDS)?.get(&*self.key)?.map(|number| number.value()) else {
            return Ok(false);
        };
        let Some(Ok(known)) = known(write, number)? else {
            return Ok(false);
        };
        let parent = known.told.parent;
        let texts = write.open_table(TEXTS)?;
        let record = texts.get(number)?;
        let said = record.and_then(|record| codec::turn(TEXT_KEY, number, record.value()).ok());
        let is_same = parent.is_none() || parent == self.parent(write)?;
        Ok(is_same && said.is_some_and(|said| *said == self.texts(parent)))
    }

    /// What it goes on from, if that is there.
    fn parent(&self, write: &WriteTransaction) -> Result<Option<u64>, redb::Error> {
        let place = self.transcript.parent.as_ref().and_then(|parent| parent.place());
        let Some((number, key)) = place else { return Ok(None) };
        // where changes were lost, another one may have come to its number
        let is_there = known(write, number)?.is_some_and(|known| known.is_ok_and(|known| known.key == key));
        Ok(is_there.then_some(number))
    }

    /// Its own texts; where what it goes on from is gone, with the texts of that.
    fn texts(&self, parent: Option<u64>) -> [Arc<str>; 2] {
        let before = self.transcript.parent.as_deref().filter(|_| parent.is_none());
        let history = before.map(Node::history).unwrap_or_default();
        let own = Some(&*self.transcript.input).filter(|own| !own.is_empty());
        let input: Vec<&str> = history.into_iter().chain(own).collect();
        [input.join(",").into(), self.transcript.response.as_ref().into()]
    }

    fn known(&self, parent: Option<u64>) -> Known {
        Known {
            key: self.key.clone(),
            told: record::Told {
                parent,
                children: 0,
                used: Some(self.minute),
                output: self.transcript.output.clone(),
                items: self.transcript.items.clone(),
            },
        }
    }

    fn put(
        &self,
        write: &WriteTransaction,
        number: u64,
        known: &Known,
        (node, texts): (&[u8], &[u8]),
    ) -> Result<(), redb::Error> {
        let mut delta = Delta::default();
        write.open_table(NODES)?.insert(number, node)?;
        write.open_table(TEXTS)?.insert(number, texts)?;
        delta.add(node.len() + NODE + texts.len());
        write.open_table(IDS)?.insert(&*self.key, number)?;
        delta.add(self.key.len() + KEYED);
        write.open_table(USED)?.insert((self.minute, number), ())?;
        delta.add(USE);
        let mut items = write.open_table(ITEMS)?;
        for key in known.item_keys() {
            if items.insert(&*key, number)?.is_none() {
                delta.add(key.len() + KEYED);
            }
        }
        drop(items);
        if let Some(parent) = known.told.parent {
            self.went_on_from(write, parent, &mut delta)?;
        }
        delta.book(write)
    }

    /// That somebody goes on from a node counts as its use.
    fn went_on_from(&self, write: &WriteTransaction, parent: u64, delta: &mut Delta) -> Result<(), redb::Error> {
        let Some(Ok(mut before)) = known(write, parent)? else {
            return Ok(());
        };
        before.told.children += 1;
        if let Some(used) = &mut before.told.used {
            let mut uses = write.open_table(USED)?;
            uses.remove((*used, parent))?;
            uses.insert((self.minute, parent), ())?;
            *used = self.minute;
        }
        put_known(write, parent, &before, delta)
    }
}

fn known(write: &WriteTransaction, number: u64) -> Result<Option<Result<Known, Unreadable>>, redb::Error> {
    let nodes = write.open_table(NODES)?;
    let record = nodes.get(number)?;
    Ok(record.map(|record| Known::read(number, record.value())))
}

fn put_known(write: &WriteTransaction, number: u64, known: &Known, delta: &mut Delta) -> Result<(), redb::Error> {
    let record = known.written(number)?;
    delta.add(record.len());
    let mut nodes = write.open_table(NODES)?;
    if let Some(old) = nodes.insert(number, &*record)? {
        delta.take(old.value().len());
    }
    Ok(())
}

/// Its id leads to it no longer. It goes, and what only it went on from, unless others go on from it.
pub(in crate::session::store) fn hide(write: &WriteTransaction, minute: u64, number: u64) -> Result<(), redb::Error> {
    let mut delta = Delta::default();
    if write.open_table(USED)?.remove((minute, number))?.is_some() {
        delta.take(USE);
    }
    match known(write, number)? {
        Some(Ok(mut found)) => {
            unlink(write, number, &found, &mut delta)?;
            found.told.used = None;
            let_go(write, number, found, &mut delta)?;
        }
        // what it went on from stays
        Some(Err(_damaged)) => take_out(write, number, &mut delta)?,
        None => {}
    }
    delta.book(write)
}

fn unlink(write: &WriteTransaction, number: u64, known: &Known, delta: &mut Delta) -> Result<(), redb::Error> {
    let mut ids = write.open_table(IDS)?;
    let leads_here = ids.get(&*known.key)?.is_some_and(|it| it.value() == number);
    if leads_here {
        ids.remove(&*known.key)?;
        delta.take(known.key.len() + KEYED);
    }
    let mut items = write.open_table(ITEMS)?;
    for key in known.item_keys() {
        // a later response may have an item of the same id
        let leads_here = items.get(&*key)?.is_some_and(|it| it.value() == number);
        if leads_here {
            items.remove(&*key)?;
            delta.take(key.len() + KEYED);
        }
    }
    Ok(())
}

/// A node that is not found any more, or has a child less: it goes where nobody goes on from it.
fn let_go(write: &WriteTransaction, mut number: u64, mut node: Known, delta: &mut Delta) -> Result<(), redb::Error> {
    loop {
        if node.told.children > 0 || node.told.used.is_some() {
            return put_known(write, number, &node, delta);
        }
        take_out(write, number, delta)?;
        let Some(parent) = node.told.parent else { return Ok(()) };
        let Some(Ok(before)) = known(write, parent)? else {
            return Ok(());
        };
        (number, node) = (parent, before);
        node.told.children = node.told.children.saturating_sub(1);
    }
}

fn take_out(write: &WriteTransaction, number: u64, delta: &mut Delta) -> Result<(), redb::Error> {
    if let Some(node) = write.open_table(NODES)?.remove(number)? {
        delta.take(node.value().len() + NODE);
    }
    if let Some(texts) = write.open_table(TEXTS)?.remove(number)? {
        delta.take(texts.value().len());
    }
    Ok(())
}

/// Forgets the response of this id. Tells whether there was one.
pub(super) fn forget(write: &WriteTransaction, key: &[u8]) -> Result<bool, redb::Error> {
    let Some(number) = write.open_table(IDS)?.get(key)?.map(|number| number.value()) else {
        return Ok(false);
    };
    match known(write, number)? {
        Some(Ok(found)) => hide(write, found.told.used.unwrap_or_default(), number)?,
        Some(Err(_damaged)) => hide(write, 0, number)?,
        None => {}
    }
    // that of a damaged one leads nowhere
    if write.open_table(IDS)?.remove(key)?.is_some() {
        let mut delta = Delta::default();
        delta.take(key.len() + KEYED);
        delta.book(write)?;
    }
    Ok(true)
}

/// Forgets responses that nobody has gone on from since a minute: `most` of them. Tells whether there may be more.
pub(in crate::session::store) fn expire(
    write: &WriteTransaction,
    minute: u64,
    most: usize,
    room: &Room,
) -> Result<bool, redb::Error> {
    for _ in 0..most {
        let Some((used, number)) = used_after(write, None)?.filter(|(used, _)| *used < minute) else {
            return Ok(false);
        };
        room.take_response(write, used, number)?;
    }
    Ok(true)
}

/// The response of this id, with the items of all that it goes on from.
pub(super) fn response(read: &ReadTransaction, key: &[u8]) -> Result<Option<Arc<Node>>, ReadError> {
    let (nodes, texts) = (read.open_table(NODES)?, read.open_table(TEXTS)?);
    let Some(tip) = read.open_table(IDS)?.get(key)? else {
        return Ok(None);
    };
    let (mut chain, mut next) = (Vec::new(), Some(tip.value()));
    while let Some(number) = next {
        let Some(record) = nodes.get(number)? else {
            return match chain.is_empty() {
                true => Ok(None),
                false => Err(ReadError::Unreadable(Unreadable::Missing)),
            };
        };
        let known = Known::read(number, record.value()).map_err(ReadError::Unreadable)?;
        next = known.told.parent;
        if next.is_some_and(|parent| parent >= number) {
            return Err(ReadError::Unreadable(Unreadable::Damaged));
        }
        chain.push((number, known));
    }
    let mut node = None;
    while let Some((number, known)) = chain.pop() {
        let record = texts.get(number)?.ok_or(ReadError::Unreadable(Unreadable::Missing))?;
        let (input, response) = said(number, record.value()).map_err(ReadError::Unreadable)?;
        let transcript = Transcript {
            parent: node,
            input,
            response,
            output: known.told.output,
            items: known.told.items,
        };
        let transcript = match chain.is_empty() {
            true => transcript,
            false => transcript.gone_on_from(),
        };
        node = Some(Arc::new(Node::stored(transcript, (number, known.key.into()))));
    }
    Ok(node)
}

fn said(number: u64, record: &[u8]) -> Result<(Box<str>, Box<str>), Unreadable> {
    match &*codec::turn(TEXT_KEY, number, record)? {
        [input, response] => Ok((input.as_ref().into(), response.as_ref().into())),
        _ => Err(Unreadable::Damaged),
    }
}

/// The item of this id; `key` is its place.
pub(super) fn item(read: &ReadTransaction, key: &[u8], id: &Name) -> Result<Option<String>, ReadError> {
    let Some(number) = read.open_table(ITEMS)?.get(key)?.map(|number| number.value()) else {
        return Ok(None);
    };
    let (nodes, texts) = (read.open_table(NODES)?, read.open_table(TEXTS)?);
    let (Some(node), Some(record)) = (nodes.get(number)?, texts.get(number)?) else {
        return Ok(None);
    };
    let known = Known::read(number, node.value()).map_err(ReadError::Unreadable)?;
    let (input, response) = said(number, record.value()).map_err(ReadError::Unreadable)?;
    let alone = Transcript {
        parent: None,
        input,
        response,
        output: known.told.output,
        items: known.told.items,
    };
    Ok(Node::stored(alone, (number, key.into())).item(id).map(str::to_owned))
}

/// Reads every record: how many responses are there, and how many of them cannot be read.
pub(in crate::session::store) fn check(read: &ReadTransaction) -> Result<(u64, u64), redb::Error> {
    let nodes = match read.open_table(NODES) {
        Ok(nodes) => nodes,
        Err(TableError::TableDoesNotExist(_)) => return Ok((0, 0)),
        Err(error) => return Err(error.into()),
    };
    let texts = read.open_table(TEXTS)?;
    let (mut responses, mut damaged) = (0, 0);
    for entry in nodes.iter()? {
        let (number, record) = entry?;
        let number = number.value();
        let parent = Known::read(number, record.value()).map(|known| known.told.parent);
        let has_parent = match parent {
            Ok(Some(parent)) => nodes.get(parent)?.is_some(),
            Ok(None) => true,
            Err(_) => false,
        };
        let texts = texts.get(number)?;
        let has_texts = texts.is_some_and(|record| said(number, record.value()).is_ok());
        responses += 1;
        damaged += u64::from(!(has_parent && has_texts));
    }
    Ok((responses, damaged))
}

/// Changes a bit of a response's texts.
#[cfg(test)]
pub(super) fn damage(write: &WriteTransaction, number: u64) -> Result<(), redb::Error> {
    let mut texts = write.open_table(TEXTS)?;
    let record = texts.get(number)?.map(|record| record.value().to_vec());
    let mut record = record.expect("there");
    *record.last_mut().expect("not empty") ^= 1;
    texts.insert(number, &*record)?;
    Ok(())
}
