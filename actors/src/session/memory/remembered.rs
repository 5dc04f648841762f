//! What one session remembers, and what a turn makes of it. Pure: a change is made of it, stored, and only then taken over.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::SystemTime;

use understudy_messages::hooks::SessionSlots;
use understudy_messages::ids::Name;
use understudy_messages::session::{SessionInfo, SessionView};

use super::room::TranscriptRoom;
use super::{Recalled, Taken};
use crate::session::store::{Header, SessionChange, StoredSession};

/// The most that is kept of what was said in one session, in bytes.
pub(in crate::session) const MOST: usize = 4 << 20;
/// What an item takes beside its text, about.
pub(in crate::session) const OVERHEAD: usize = 48;

/// What one session remembers.
#[derive(Debug)]
pub(super) struct Remembered {
    pub(super) header: Header,
    pub(super) slots: SessionSlots,
    transcript: VecDeque<Arc<str>>,
    /// How much each remembered turn has added to it: the oldest is forgotten whole.
    added: VecDeque<Added>,
    bytes: usize,
}

#[derive(Clone, Copy, Debug)]
struct Added {
    items: usize,
    bytes: usize,
}

/// A change that was planned. What it needs of the room is taken.
#[derive(Debug)]
pub(super) struct Plan {
    header: Header,
    said: Vec<Arc<str>>,
    added: Option<Added>,
    /// How many of the oldest turns go.
    oldest: usize,
    reserved: usize,
    /// How many items are forgotten, or not kept.
    pub(super) forgotten: usize,
}

impl Plan {
    /// As it is stored: the record, and what was said in the turn.
    pub(super) fn change(&self, before: &Header) -> SessionChange {
        SessionChange {
            base: before.revision,
            forgets: before.first..self.header.first,
            header: self.header.clone(),
            said: self.said.clone(),
        }
    }

    /// It will not be made.
    pub(super) fn give_up(self, room: &TranscriptRoom) {
        room.give_back(self.reserved);
    }
}

impl Remembered {
    /// Of a session that is heard of for the first time.
    pub(super) fn new(now: SystemTime) -> Self {
        Self {
            header: Header::new(now),
            slots: SessionSlots::default(),
            transcript: VecDeque::new(),
            added: VecDeque::new(),
            bytes: 0,
        }
    }

    /// Of one that was stored; `None` where there is no room for it.
    pub(super) fn restored(stored: StoredSession, room: &TranscriptRoom) -> Option<Self> {
        let size = |turn: &Vec<Arc<str>>| Added {
            items: turn.len(),
            bytes: turn.iter().map(|item| item.len() + OVERHEAD).sum(),
        };
        let added: VecDeque<Added> = stored.turns.iter().map(size).collect();
        let bytes = added.iter().map(|turn| turn.bytes).sum();
        room.take(bytes).then(|| Self {
            slots: SessionSlots::restored(stored.header.slots.iter().cloned()),
            header: stored.header,
            transcript: stored.turns.into_iter().flatten().collect(),
            added,
            bytes,
        })
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// What a turn that was taken comes to. What it says is kept whole, in the place of the oldest turns where there is no
    /// other, or not at all.
    pub(super) fn taken(&self, taken: Taken, now: SystemTime, room: &TranscriptRoom) -> Plan {
        let mut header = self.header.clone();
        if let Some(notice) = taken.notice {
            header.fallback = (!notice.cleared).then_some(notice);
        }
        header.agent = Some(taken.agent);
        header.last_model = taken.served_by.or(header.last_model.take());
        header.turns += 1;
        self.with(header, taken.said, now, room)
    }

    /// What the choice of a model comes to.
    pub(super) fn pinned(&self, model: Option<Name>, now: SystemTime, room: &TranscriptRoom) -> Plan {
        let pinned = Header {
            pinned: model,
            ..self.header.clone()
        };
        self.with(pinned, Vec::new(), now, room)
    }

    fn with(&self, mut header: Header, said: Vec<String>, now: SystemTime, room: &TranscriptRoom) -> Plan {
        let added = Added {
            items: said.len(),
            bytes: size(&said),
        };
        let (fits, forgotten) = self.fit(added, room);
        header.updated = now;
        header.revision += 1;
        header.slots = self.slots.stored();
        let Some((oldest, reserved)) = fits else {
            return Plan {
                header,
                said: Vec::new(),
                added: None,
                oldest: 0,
                reserved: 0,
                forgotten: added.items,
            };
        };
        header.first += oldest as u64;
        header.next += 1;
        Plan {
            header,
            said: said.into_iter().map(Arc::from).collect(),
            added: Some(added),
            oldest,
            reserved,
            forgotten,
        }
    }

    /// How many of the oldest turns have to go for a new one, what is taken of the room for it, and how many items go.
    fn fit(&self, new: Added, room: &TranscriptRoom) -> (Option<(usize, usize)>, usize) {
        let (mut freed, mut forgotten) = (0, 0);
        if new.items == 0 || new.bytes > MOST {
            return (None, 0);
        }
        for oldest in 0..=self.added.len() {
            let reserve = new.bytes.saturating_sub(freed);
            if self.bytes - freed + new.bytes <= MOST && room.take(reserve) {
                return (Some((oldest, reserve)), forgotten);
            }
            if let Some(turn) = self.added.get(oldest) {
                freed += turn.bytes;
                forgotten += turn.items;
            }
        }
        (None, 0)
    }

    /// The change was made.
    pub(super) fn take_over(&mut self, plan: Plan, room: &TranscriptRoom) {
        let mut freed = 0;
        for turn in self.added.drain(..plan.oldest) {
            self.transcript.drain(..turn.items);
            freed += turn.bytes;
        }
        self.bytes -= freed;
        self.header = plan.header;
        if let Some(added) = plan.added {
            self.bytes += added.bytes;
            self.added.push_back(added);
            self.transcript.extend(plan.said);
            room.give_back(freed.saturating_sub(added.bytes));
        }
    }

    pub(super) fn recalled(&self) -> Recalled {
        Recalled {
            transcript: self.transcript.iter().cloned().collect(),
            pinned: self.header.pinned.clone(),
            agent: self.header.agent.clone(),
        }
    }

    pub(super) fn info(&self, id: &Name) -> SessionInfo {
        self.header.info(id)
    }

    pub(super) fn view(&self, id: &Name) -> SessionView {
        SessionView {
            info: self.info(id),
            transcript: self.transcript.iter().cloned().collect(),
        }
    }
}

pub(super) fn size(items: &[String]) -> usize {
    items.iter().map(|item| item.len() + OVERHEAD).sum()
}
