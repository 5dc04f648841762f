//! The exchanges of a conversation: what a user said, and all that came of it.

use std::collections::BTreeSet;
use std::ops::Range;

/// What fitting has to know of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) role: Role,
    /// What it takes, in bytes.
    pub(super) size: usize,
}

/// What an item is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Role {
    System,
    User,
    /// A call of a tool, by its id.
    Call(String),
    /// What it returned.
    Result(String),
    Other,
}

/// The exchanges, oldest first, one behind the other. The last `asked` items are the newest one. Another begins with each
/// message of the user, unless a call of a tool still waits for its result there.
pub(super) fn exchanges(items: &[Item], asked: usize) -> Vec<Range<usize>> {
    let newest = items.len().saturating_sub(asked.max(1));
    let (mut began, mut open, mut exchanges) = (0, BTreeSet::new(), Vec::new());
    for (place, item) in items.iter().enumerate() {
        let begins = item.role == Role::User && place <= newest || place == newest;
        if begins && open.is_empty() && place > began {
            exchanges.push(began..place);
            began = place;
        }
        match &item.role {
            Role::Call(id) => {
                open.insert(id);
            }
            Role::Result(id) => {
                open.remove(id);
            }
            Role::System | Role::User | Role::Other => {}
        }
    }
    if began < items.len() {
        exchanges.push(began..items.len());
    }
    exchanges
}
