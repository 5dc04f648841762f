//! The guards that have to serve: a guard that is gone over a restart is no open gate.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use understudy_messages::ids::Name;

use super::{Table, all, put, remove};
use crate::state::{StateError, StateFile};

pub(super) const TABLE: Table = Table::new("guards");

/// Nothing but that it is there.
#[derive(Serialize, Deserialize)]
struct Guard {}

/// The plugins that have guarded, until somebody switches them off. Read from memory: it never blocks.
#[derive(Debug, Default)]
pub struct Guards(Mutex<BTreeSet<Name>>);

impl Guards {
    pub(in crate::state) fn read(file: &StateFile) -> Result<Self, StateError> {
        let guards = all::<Guard>(&file.read()?, TABLE)?;
        let ids = guards.into_iter().map(|(id, _)| Name::from(id)).collect();
        Ok(Self(Mutex::new(ids)))
    }

    /// All of them, in order.
    pub fn all(&self) -> Vec<Name> {
        self.known().iter().cloned().collect()
    }

    /// Whether a plugin is one of them.
    pub fn has(&self, id: &str) -> bool {
        self.known().iter().any(|known| known.eq_ignore_ascii_case(id))
    }

    /// Remembers some, and returns when they are remembered over a restart too.
    ///
    /// # Errors
    /// [`StateError`]; until a restart they are remembered all the same.
    pub async fn remember(&self, file: &StateFile, ids: Vec<Name>) -> Result<(), StateError> {
        let new: Vec<Name> = ids.into_iter().filter(|id| !self.has(id)).collect();
        if new.is_empty() {
            return Ok(());
        }
        self.known().extend(new.iter().cloned());
        let write =
            move |write: &redb::WriteTransaction| new.iter().try_for_each(|id| put(write, TABLE, id, &Guard {}));
        file.write(0, write).await
    }

    /// Forgets those that somebody has switched off.
    ///
    /// # Errors
    /// [`StateError`]; after a restart they are asked for again.
    pub async fn forget(&self, file: &StateFile, off: impl Fn(&Name) -> bool) -> Result<(), StateError> {
        let gone: Vec<Name> = self.all().into_iter().filter(|id| off(id)).collect();
        if gone.is_empty() {
            return Ok(());
        }
        self.known().retain(|id| !gone.contains(id));
        let write = move |write: &redb::WriteTransaction| gone.iter().try_for_each(|id| remove(write, TABLE, id));
        file.write(0, write).await
    }

    fn known(&self) -> std::sync::MutexGuard<'_, BTreeSet<Name>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
