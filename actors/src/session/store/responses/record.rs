//! What is known of a node, as bytes: `length of its key (2), key, JSON` in the envelope of all records, sealed with its number.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use understudy_messages::ids::Name;

use super::super::codec::{Unreadable, opened, sealed};

/// What the keys of one client key begin with: see `KeyPrefix`.
const UNOWNED: usize = 1;
const OWNED: usize = 17;

/// What is known of a node, beside its texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Known {
    /// Its place among the ids: that of its client key, and its id.
    pub(super) key: Vec<u8>,
    pub(super) told: Told,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Told {
    /// What it goes on from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) parent: Option<u64>,
    /// How many go on from it.
    pub(super) children: u64,
    /// The minute in which it was used last; `None`: its id does not lead to it any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) used: Option<u64>,
    /// Where its items stand in the response.
    pub(super) output: Range<usize>,
    /// Where each of these that has an id stands among them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) items: Vec<(Name, Range<usize>)>,
}

impl Known {
    /// The places of its items among those of all.
    pub(super) fn item_keys(&self) -> impl Iterator<Item = Vec<u8>> + '_ {
        let owner = match self.key.first() {
            Some(0) | None => UNOWNED,
            Some(_) => OWNED,
        };
        let prefix = self.key.get(..owner).unwrap_or_default();
        let items = self.told.items.iter();
        items.map(move |(id, _)| [prefix, id.as_bytes()].concat())
    }

    pub(super) fn written(&self, number: u64) -> Result<Vec<u8>, redb::Error> {
        let too_long = |_| redb::Error::Corrupted("the id of a response is too long".to_owned());
        let length = u16::try_from(self.key.len()).map_err(too_long)?;
        let mut body = length.to_le_bytes().to_vec();
        body.extend_from_slice(&self.key);
        let json = serde_json::to_vec(&self.told);
        body.extend(json.map_err(|error| redb::Error::Corrupted(error.to_string()))?);
        Ok(sealed(&[&number.to_le_bytes()], &body))
    }

    pub(super) fn read(number: u64, record: &[u8]) -> Result<Self, Unreadable> {
        let body = opened(&[&number.to_le_bytes()], record)?;
        let (length, rest) = body.split_first_chunk::<2>().ok_or(Unreadable::Damaged)?;
        let length = usize::from(u16::from_le_bytes(*length));
        let (key, json) = rest.split_at_checked(length).ok_or(Unreadable::Damaged)?;
        Ok(Self {
            key: key.to_vec(),
            told: serde_json::from_slice(json).map_err(|_| Unreadable::Damaged)?,
        })
    }
}
