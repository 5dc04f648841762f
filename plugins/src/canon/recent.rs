//! A map that keeps what was used last.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

/// Keeps at least the `limit` entries that were used last, and at most twice as many.
///
/// Two maps stand for the ages: when the young one is full it becomes the old one, and what was still in that is forgotten.
/// Whatever is used is young again. Every operation takes constant time.
pub(super) struct Recent<K, V> {
    limit: usize,
    young: HashMap<K, V>,
    old: HashMap<K, V>,
}

impl<K: Eq + Hash, V> Recent<K, V> {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit: limit.max(1),
            young: HashMap::new(),
            old: HashMap::new(),
        }
    }

    /// The entry of `key`, if it is still here.
    pub(super) fn get<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
        V: Default,
    {
        match self.old.remove_entry(key) {
            Some((key, value)) => {
                let entry = self.entry(key);
                *entry = value;
                Some(entry)
            }
            None => self.young.get_mut(key),
        }
    }

    /// The entry of `key`, made if it is not here.
    pub(super) fn entry(&mut self, key: K) -> &mut V
    where
        V: Default,
    {
        let kept = self.old.remove(&key);
        if !self.young.contains_key(&key) && self.young.len() >= self.limit {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.entry(key).or_insert_with(|| kept.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_last_is_kept_and_the_number_is_bounded() {
        let mut recent = Recent::new(10);
        for number in 0..1_000_u32 {
            *recent.entry(number) = number;
            assert_eq!(recent.get(&0), Some(&mut 0), "used every time");
            assert!(recent.young.len() + recent.old.len() <= 20);
        }
        for number in 991..1_000 {
            assert!(recent.get(&number).is_some(), "{number}");
        }
        assert!(recent.get(&500).is_none());
    }

    #[test]
    fn the_newest_value_of_a_key_is_the_only_one() {
        let mut recent = Recent::new(1);
        *recent.entry("a") = 1;
        *recent.entry("b") = 1;
        *recent.entry("a") = 2;
        *recent.entry("b") = 2;
        assert_eq!(recent.get("a"), Some(&mut 2));
        assert_eq!(recent.get("b"), Some(&mut 2));
    }
}
