//! Responses that later requests may go on from, in the state file.
//!
//! Each is a node of a tree: what was asked and answered in one turn, and the node that it goes on from. What several go on from
//! is stored once, and stays as long as one of them does; by its own id it is not found any more when it was deleted, or nobody
//! had gone on from it for too long. None is in memory but for those that read it, or go on from it: these hold what was asked, and
//! of each earlier response its items.

mod record;
pub(super) mod tables;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use redb::WriteTransaction;
use understudy_messages::ids::Name;
use understudy_messages::session::SessionFault;

use self::tables::NewNode;
use super::codec;
use super::stored::{StateSessions, told};
use super::tables::{Applied, KeyPrefix, Outcome};
use crate::session::transcripts::{Node, Transcript};
use crate::telemetry::StoreOp;

impl StateSessions {
    /// Keeps a response under its id, as durably as is promised; another one of this id is not found any more. What was used
    /// least recently makes room. It is kept although nobody waits for it any longer, but what went for it is counted only where
    /// somebody does.
    ///
    /// # Errors
    /// [`SessionFault`]; then nothing of it is kept.
    pub async fn keep_response(
        &self,
        owner: Option<u32>,
        id: &Name,
        transcript: Transcript,
    ) -> Result<(), SessionFault> {
        let began = self.options.clock.now();
        let kept = self.kept_response(owner, id, transcript).await;
        self.noted(StoreOp::Save, began, None, kept)
    }

    async fn kept_response(&self, owner: Option<u32>, id: &Name, transcript: Transcript) -> Result<(), SessionFault> {
        let key = self.response_key(owner, id)?;
        let minute = codec::minute(self.options.clock.wall());
        let new = NewNode::new(key, minute, transcript);
        let kept = self.changed(false, new.len(), move |write, room| new.apply(write, room));
        told(kept.await?)
    }

    /// The response of this id with all that it goes on from, if this client key was given it.
    ///
    /// # Errors
    /// [`SessionFault`].
    pub async fn response(&self, owner: Option<u32>, id: &Name) -> Result<Option<Arc<Node>>, SessionFault> {
        let began = self.options.clock.now();
        let key = self.response_key(owner, id)?;
        let found = self.read(move |read| tables::response(read, &key)).await;
        self.noted(StoreOp::Load, began, None, found)
    }

    /// Those of some items that this client key was given, each of the response that it was last a part of; no more when they
    /// are longer than `most` together.
    ///
    /// # Errors
    /// [`SessionFault`].
    pub async fn items(
        &self,
        owner: Option<u32>,
        ids: BTreeSet<Name>,
        most: usize,
    ) -> Result<BTreeMap<Name, String>, SessionFault> {
        let began = self.options.clock.now();
        let prefix = self.owned(owner)?;
        let found = self.read(move |read| {
            let (mut found, mut length) = (BTreeMap::new(), 0);
            for id in ids {
                let Some(item) = tables::item(read, &prefix.with(&id), &id)? else {
                    continue;
                };
                length += item.len();
                found.insert(id, item);
                if length > most {
                    break;
                }
            }
            Ok(found)
        });
        self.noted(StoreOp::Load, began, None, found.await)
    }

    /// Forgets a response, at once; what goes on from it stays whole. Tells whether there was one of this client key's.
    ///
    /// # Errors
    /// [`SessionFault`].
    pub async fn forget_response(&self, owner: Option<u32>, id: &Name) -> Result<bool, SessionFault> {
        let began = self.options.clock.now();
        let key = self.response_key(owner, id)?;
        let applied = Arc::new(Applied::default());
        let told = applied.clone();
        let change = move |write: &WriteTransaction| {
            let found = tables::forget(write, &key)?;
            told.set(if found { Outcome::Made } else { Outcome::Changed });
            Ok(())
        };
        let forgotten = self.write(true, 0, change).await;
        self.noted(StoreOp::Delete, began, None, forgotten)?;
        Ok(applied.get() == Outcome::Made)
    }

    fn response_key(&self, owner: Option<u32>, id: &Name) -> Result<Vec<u8>, SessionFault> {
        Ok(self.owned(owner)?.with(id))
    }

    fn owned(&self, owner: Option<u32>) -> Result<KeyPrefix, SessionFault> {
        let prefix = self.prefix(owner);
        prefix.ok_or_else(|| SessionFault::Store("the client key is not known".into()))
    }
}
