//! Responses that later requests may go on from, by id, where they end with the process: `store::responses` keeps them in the
//! state file.
//!
//! A node is immutable and points to the one that it goes on from, so that forks share what came before. The store is
//! bounded in number, bytes and idle time: what was used least recently is forgotten first. What is forgotten can no longer be
//! found, but stays a part of the nodes that go on from it, and counts as long as it does.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use understudy_messages::clock::Instant;
use understudy_messages::ids::Name;

#[cfg(test)]
mod tests;

/// What a node takes beside its texts, about.
const OVERHEAD: usize = 512;
/// What finding one of its items takes, about.
const ITEM_OVERHEAD: usize = 256;

/// What the store may hold.
#[derive(Clone, Copy, Debug)]
pub struct TranscriptLimits {
    /// How many responses can be found.
    pub count: usize,
    /// How many bytes all of them take, with everything that they go on from.
    pub bytes: usize,
    /// How long one is found after it was last used.
    pub idle: Duration,
}

/// What was asked and answered in one turn. Texts are JSON as it was written.
#[derive(Debug)]
pub struct Transcript {
    /// What it goes on from.
    pub parent: Option<Arc<Node>>,
    /// The turn's own items, separated by commas.
    pub input: Box<str>,
    /// The whole response.
    pub response: Box<str>,
    /// Where its items stand in it, separated by commas.
    pub output: Range<usize>,
    /// Where each of these that has an id stands among them.
    pub items: Vec<(Name, Range<usize>)>,
}

impl Transcript {
    /// What of it is needed to go on from it: of the response its items alone.
    pub(in crate::session) fn gone_on_from(self) -> Self {
        let items = self.response.get(self.output).unwrap_or_default();
        Self {
            output: 0..items.len(),
            response: items.into(),
            items: Vec::new(),
            ..self
        }
    }
}

/// What a node is called where it is stored: its number, and the key that it was read under.
pub(in crate::session) type Place = (u64, Box<[u8]>);

/// A transcript that is kept.
#[derive(Debug)]
pub struct Node {
    transcript: Transcript,
    /// Bytes of all items up to and with this node's.
    history: usize,
    /// Bytes of all nodes of the store.
    held: Arc<AtomicUsize>,
    place: Option<Place>,
}

impl Node {
    fn new(transcript: Transcript, held: Arc<AtomicUsize>, place: Option<Place>) -> Self {
        let before = transcript.parent.as_ref().map_or(0, |node| node.history);
        let node = Self {
            history: before + transcript.input.len() + transcript.output.len() + 2,
            transcript,
            held,
            place,
        };
        node.held.fetch_add(node.size(), Ordering::Relaxed);
        node
    }

    /// One that was read, and is counted nowhere.
    pub(in crate::session) fn stored(transcript: Transcript, place: Place) -> Self {
        Self::new(transcript, Arc::default(), Some(place))
    }

    pub(in crate::session) fn place(&self) -> Option<(u64, &[u8])> {
        self.place.as_ref().map(|(number, key)| (*number, &**key))
    }

    /// How many bytes of texts it holds, with all that it goes on from.
    pub(in crate::session) fn held(&self) -> usize {
        let (mut held, mut next) = (0, Some(self));
        while let Some(node) = next {
            held += node.transcript.input.len() + node.transcript.response.len();
            next = node.transcript.parent.as_deref();
        }
        held
    }

    /// The whole response.
    pub fn response(&self) -> &str {
        &self.transcript.response
    }

    /// How long all items up to and with this node's are, commas included.
    pub fn history_len(&self) -> usize {
        self.history
    }

    /// The items that the response answers, oldest first, in lists separated by commas; none is empty.
    pub fn input(&self) -> Vec<&str> {
        let mut lists = vec![&*self.transcript.input];
        let mut before = self.transcript.parent.as_deref();
        while let Some(node) = before {
            lists.extend([node.output(), &*node.transcript.input]);
            before = node.transcript.parent.as_deref();
        }
        lists.retain(|list| !list.is_empty());
        lists.reverse();
        lists
    }

    /// All items up to and with the response's own, oldest first, in lists separated by commas; none is empty.
    pub fn history(&self) -> Vec<&str> {
        let mut lists = self.input();
        lists.extend(Some(self.output()).filter(|list| !list.is_empty()));
        lists
    }

    /// The item of the response that has this id.
    pub fn item(&self, id: &str) -> Option<&str> {
        let (_, span) = self.transcript.items.iter().find(|(name, _)| **name == *id)?;
        self.output().get(span.clone())
    }

    fn output(&self) -> &str {
        self.transcript
            .response
            .get(self.transcript.output.clone())
            .unwrap_or_default()
    }

    fn size(&self) -> usize {
        let transcript = &self.transcript;
        transcript.input.len() + transcript.response.len() + OVERHEAD + ITEM_OVERHEAD * transcript.items.len()
    }
}

impl Drop for Node {
    /// One after the other: a long conversation must not be as many calls deep.
    fn drop(&mut self) {
        self.held.fetch_sub(self.size(), Ordering::Relaxed);
        let mut before = self.transcript.parent.take();
        while let Some(mut node) = before.and_then(Arc::into_inner) {
            before = node.transcript.parent.take();
        }
    }
}

/// Whose response, and which.
type Key = (Option<u32>, Name);

/// The responses that can be found.
#[derive(Debug)]
pub struct Transcripts {
    limits: TranscriptLimits,
    entries: HashMap<Key, Entry>,
    /// Which response an item was last a part of.
    items: HashMap<Key, Name>,
    /// Their keys by when they were used, the least recent first.
    order: BTreeMap<u64, Key>,
    uses: u64,
    held: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct Entry {
    node: Arc<Node>,
    use_number: u64,
    used: Instant,
}

impl Transcripts {
    /// Without any.
    pub fn new(limits: TranscriptLimits) -> Self {
        Self {
            limits,
            entries: HashMap::new(),
            items: HashMap::new(),
            order: BTreeMap::new(),
            uses: 0,
            held: Arc::default(),
        }
    }

    /// The response of this id, if this client key was given it.
    pub fn find(&mut self, owner: Option<u32>, id: &str, now: Instant) -> Option<Arc<Node>> {
        self.forget_idle(now);
        let key = (owner, Name::from(id));
        let number = self.next_use();
        let entry = self.entries.get_mut(&key)?;
        self.order.remove(&entry.use_number);
        (entry.use_number, entry.used) = (number, now);
        self.order.insert(number, key);
        Some(entry.node.clone())
    }

    /// The response that an item of this id is a part of, if this client key was given it.
    pub fn find_item(&mut self, owner: Option<u32>, id: &str, now: Instant) -> Option<Arc<Node>> {
        let response = self.items.get(&(owner, Name::from(id)))?.clone();
        self.find(owner, &response, now)
    }

    /// Keeps a response; another one of this id is forgotten.
    pub fn keep(&mut self, owner: Option<u32>, id: &str, transcript: Transcript, now: Instant) {
        self.forget_idle(now);
        self.forget(owner, id);
        let node = Node::new(transcript, self.held.clone(), None);
        let (key, number) = ((owner, Name::from(id)), self.next_use());
        for (item, _) in &node.transcript.items {
            self.items.insert((owner, item.clone()), key.1.clone());
        }
        self.order.insert(number, key.clone());
        let entry = Entry {
            node: Arc::new(node),
            use_number: number,
            used: now,
        };
        self.entries.insert(key, entry);
        while self.entries.len() > self.limits.count || self.held() > self.limits.bytes {
            let Some((_, key)) = self.order.pop_first() else { return };
            self.remove(&key);
        }
    }

    /// Forgets a response; whether there was one of this client key's.
    pub fn forget(&mut self, owner: Option<u32>, id: &str) -> bool {
        let entry = self.remove(&(owner, Name::from(id)));
        if let Some(entry) = &entry {
            self.order.remove(&entry.use_number);
        }
        entry.is_some()
    }

    /// How many can be found.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether none can be found.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many bytes are held.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    fn next_use(&mut self) -> u64 {
        self.uses += 1;
        self.uses
    }

    fn forget_idle(&mut self, now: Instant) {
        while let Some(oldest) = self.order.first_entry() {
            let used = self.entries.get(oldest.get()).map(|entry| entry.used);
            if used.is_some_and(|used| now.duration_since(used) < self.limits.idle) {
                return;
            }
            let key = oldest.remove();
            self.remove(&key);
        }
    }

    fn remove(&mut self, key: &Key) -> Option<Entry> {
        let entry = self.entries.remove(key)?;
        for (item, _) in &entry.node.transcript.items {
            let item = (key.0, item.clone());
            // a later response may have an item of the same id
            if self.items.get(&item) == Some(&key.1) {
                self.items.remove(&item);
            }
        }
        Some(entry)
    }
}
