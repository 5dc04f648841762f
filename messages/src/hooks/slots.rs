//! What native plugins keep with a session: it goes where the session goes, to the store and back.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::ids::Name;

/// How many slots a session has: plugins, or what one plugin tells apart.
const MOST: usize = 16;
/// How much of one is stored, in bytes.
const MOST_STORED: usize = 16 << 10;

/// What one plugin keeps with one session.
pub trait SlotValue: Any + Send + Sync {
    /// What is to be there when the session comes back, as text; `None`: nothing. Asked at the end of every turn, so it is
    /// quick and short.
    fn stored(&self) -> Option<String>;
}

/// What all plugins keep with one session. Clones are the same slots.
#[derive(Clone, Default)]
pub struct SessionSlots(Arc<Mutex<BTreeMap<Name, Slot>>>);

enum Slot {
    /// Nobody has asked for it since the session came back.
    Stored(String),
    Open(Arc<dyn SlotValue>),
}

impl SessionSlots {
    /// As they were stored.
    pub fn restored(stored: impl IntoIterator<Item = (Name, String)>) -> Self {
        let slots = stored.into_iter().map(|(name, text)| (name, Slot::Stored(text)));
        Self(Arc::new(Mutex::new(slots.collect())))
    }

    /// What is kept under a name; `open` makes it, of what was stored if anything was. `None`: there is no room for one
    /// more, or something else is kept under the name.
    pub fn open<T: SlotValue>(&self, name: &str, open: impl FnOnce(Option<&str>) -> T) -> Option<Arc<T>> {
        let mut slots = self.slots();
        let full = slots.len() >= MOST;
        let value = match slots.get(name) {
            Some(Slot::Open(value)) => {
                let value: Arc<dyn Any + Send + Sync> = value.clone();
                return value.downcast().ok();
            }
            Some(Slot::Stored(text)) => Arc::new(open(Some(text))),
            None if full => return None,
            None => Arc::new(open(None)),
        };
        slots.insert(name.into(), Slot::Open(value.clone()));
        Some(value)
    }

    /// All of it, as it is to be stored.
    pub fn stored(&self) -> Vec<(Name, String)> {
        let slots = self.slots();
        let stored = slots.iter().filter_map(|(name, slot)| match slot {
            Slot::Stored(text) => Some((name.clone(), text.clone())),
            Slot::Open(value) => Some((name.clone(), value.stored()?)),
        });
        stored.filter(|(_, text)| text.len() <= MOST_STORED).collect()
    }

    fn slots(&self) -> MutexGuard<'_, BTreeMap<Name, Slot>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for SessionSlots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionSlots({})", self.slots().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Text(Mutex<String>);

    impl SlotValue for Text {
        fn stored(&self) -> Option<String> {
            let text = self.0.lock().expect("whole").clone();
            (!text.is_empty()).then_some(text)
        }
    }

    fn text(slots: &SessionSlots, name: &str) -> Option<Arc<Text>> {
        slots.open(name, |stored| Text(Mutex::new(stored.unwrap_or_default().to_owned())))
    }

    #[test]
    fn what_a_plugin_keeps_is_there_when_the_session_comes_back_asked_for_or_not() {
        let slots = SessionSlots::default();
        let one = text(&slots, "one").expect("room");
        *one.0.lock().expect("whole") = "kept".to_owned();
        assert!(Arc::ptr_eq(&one, &text(&slots, "one").expect("the same")));
        assert!(text(&slots, "empty").is_some());
        let stored = slots.stored();
        assert_eq!(stored, [("one".into(), "kept".to_owned())]);
        let back = SessionSlots::restored(stored.clone());
        assert_eq!(back.stored(), stored, "nobody has asked for it");
        let one = text(&back, "one").expect("there");
        assert_eq!(*one.0.lock().expect("whole"), "kept");
        assert_eq!(back.stored(), stored);
    }

    #[test]
    fn slots_are_bounded_in_number_and_in_what_is_stored() {
        let slots = SessionSlots::default();
        let made = (0..MOST + 3).filter(|number| text(&slots, &number.to_string()).is_some());
        assert_eq!(made.count(), MOST);
        let large = text(&slots, "0").expect("there");
        *large.0.lock().expect("whole") = "x".repeat(MOST_STORED + 1);
        assert_eq!(slots.stored(), []);
    }
}
