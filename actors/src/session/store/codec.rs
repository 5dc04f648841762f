//! Records of sessions as bytes. Each says in which version it is written and carries a checksum of itself and its key, so
//! that one which was damaged, or stands in another's place, is told from a good one.
//!
//! `version (1 byte), CRC-32 (4), body`. The body of a header is `revision (8), minute of use (8), JSON`; that of a turn is its
//! items, each behind its length (4). Numbers are little-endian. A later version is another arm in [`header`] and [`turn`]: old
//! records stay as they are until their session is next changed.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use understudy_messages::ids::{ModelRef, Name};
use understudy_messages::tools::FallbackNotice;

use super::Header;

/// How records are written.
const VERSION: u8 = 1;
/// Version and checksum.
const ENVELOPE: usize = 5;

/// Why a record cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unreadable {
    /// It is cut off, or its checksum is not its own.
    #[error("a record is not what was written")]
    Damaged,
    /// A turn that should be there is not.
    #[error("a part of the transcript is missing")]
    Missing,
    /// A later version has written it.
    #[error("a record has version {0}, and this gateway knows 1")]
    Newer(u8),
}

/// A header, but for its revision.
#[derive(Serialize, Deserialize)]
pub(super) struct Written {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    agent: Option<Name>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pinned: Option<Name>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_model: Option<(Name, Name)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fallback: Option<Notice>,
    turns: u64,
    created: u64,
    updated: u64,
    first: u64,
    next: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    slots: Vec<(Name, String)>,
}

#[derive(Serialize, Deserialize)]
struct Notice {
    selected: String,
    active: String,
    text: String,
}

/// What of a header can be read without reading it: its revision, and the minute of its last use.
pub(super) fn stamp(record: &[u8]) -> Option<(u64, u64)> {
    let body = record.get(ENVELOPE..)?;
    Some((number(body, 0)?, number(body, 8)?))
}

/// The minute of last use that a header tells; `None`: it is damaged.
pub(super) fn last_used(key: &[u8], record: &[u8]) -> Option<u64> {
    let is_damaged = matches!(opened(&[key], record), Err(Unreadable::Damaged | Unreadable::Missing));
    let (_, minute) = stamp(record).filter(|_| !is_damaged)?;
    Some(minute)
}

/// The minute that a time is in, counted from 1970.
pub(super) fn minute(time: SystemTime) -> u64 {
    millis(time) / 60_000
}

impl Written {
    pub(super) fn of(header: &Header) -> Self {
        Self {
            agent: header.agent.clone(),
            pinned: header.pinned.clone(),
            last_model: header
                .last_model
                .as_ref()
                .map(|model| (model.provider.clone(), model.model.clone())),
            fallback: header.fallback.as_ref().map(|notice| Notice {
                selected: notice.selected.clone(),
                active: notice.active.clone(),
                text: notice.text.clone(),
            }),
            turns: header.turns,
            created: millis(header.created),
            updated: millis(header.updated),
            first: header.first,
            next: header.next,
            slots: header.slots.clone(),
        }
    }

    pub(super) fn header(self, revision: u64) -> Header {
        Header {
            revision,
            agent: self.agent,
            pinned: self.pinned,
            last_model: self.last_model.map(|(provider, model)| ModelRef::new(provider, model)),
            fallback: self.fallback.map(|notice| FallbackNotice {
                selected: notice.selected,
                active: notice.active,
                cleared: false,
                text: notice.text,
            }),
            turns: self.turns,
            created: time(self.created),
            updated: time(self.updated),
            first: self.first,
            next: self.next,
            slots: self.slots,
        }
    }
}

pub(super) fn written_header(key: &[u8], header: &Header) -> Result<Vec<u8>, serde_json::Error> {
    let mut body = Vec::with_capacity(256);
    body.extend_from_slice(&header.revision.to_le_bytes());
    body.extend_from_slice(&minute(header.updated).to_le_bytes());
    serde_json::to_writer(&mut body, &Written::of(header))?;
    Ok(sealed(&[key], &body))
}

pub(super) fn header(key: &[u8], record: &[u8]) -> Result<Header, Unreadable> {
    let body = opened(&[key], record)?;
    let (revision, _) = stamp(record).ok_or(Unreadable::Damaged)?;
    let json = body.get(16..).ok_or(Unreadable::Damaged)?;
    let written: Written = serde_json::from_slice(json).map_err(|_| Unreadable::Damaged)?;
    Ok(written.header(revision))
}

pub(super) fn written_turn(key: &[u8], number: u64, said: &[Arc<str>]) -> Vec<u8> {
    let mut body = Vec::with_capacity(said.iter().map(|item| item.len() + 4).sum());
    for item in said {
        // no item is longer than a transcript may be
        let length = u32::try_from(item.len()).unwrap_or(u32::MAX);
        body.extend_from_slice(&length.to_le_bytes());
        body.extend_from_slice(item.as_bytes());
    }
    sealed(&[key, &number.to_le_bytes()], &body)
}

pub(super) fn turn(key: &[u8], number: u64, record: &[u8]) -> Result<Vec<Arc<str>>, Unreadable> {
    let mut body = opened(&[key, &number.to_le_bytes()], record)?;
    let mut said = Vec::new();
    while !body.is_empty() {
        let (item, rest) = item(body).ok_or(Unreadable::Damaged)?;
        said.push(item.into());
        body = rest;
    }
    Ok(said)
}

fn item(body: &[u8]) -> Option<(&str, &[u8])> {
    let (length, rest) = body.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    let (item, rest) = rest.split_at_checked(length)?;
    Some((std::str::from_utf8(item).ok()?, rest))
}

pub(super) fn sealed(key: &[&[u8]], body: &[u8]) -> Vec<u8> {
    let mut record = Vec::with_capacity(ENVELOPE + body.len());
    record.push(VERSION);
    record.extend_from_slice(&checksum(VERSION, key, body).to_le_bytes());
    record.extend_from_slice(body);
    record
}

/// The body, if it is what was written under this key.
pub(super) fn opened<'a>(key: &[&[u8]], record: &'a [u8]) -> Result<&'a [u8], Unreadable> {
    let (&version, rest) = record.split_first().ok_or(Unreadable::Damaged)?;
    let (sum, body) = rest.split_first_chunk::<4>().ok_or(Unreadable::Damaged)?;
    match u32::from_le_bytes(*sum) == checksum(version, key, body) {
        false => Err(Unreadable::Damaged),
        true if version == VERSION => Ok(body),
        true => Err(Unreadable::Newer(version)),
    }
}

fn checksum(version: u8, key: &[&[u8]], body: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&[version]);
    key.iter().for_each(|part| sum.update(part));
    sum.update(body);
    sum.finalize()
}

fn number(body: &[u8], at: usize) -> Option<u64> {
    let bytes = body.get(at..)?.first_chunk::<8>()?;
    Some(u64::from_le_bytes(*bytes))
}

fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn time(millis: u64) -> SystemTime {
    UNIX_EPOCH
        .checked_add(Duration::from_millis(millis))
        .unwrap_or(UNIX_EPOCH)
}

#[cfg(test)]
mod tests;
