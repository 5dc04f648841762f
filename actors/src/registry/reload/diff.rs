//! What a new generation keeps of the old one. Pure.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;
use sha2::{Digest, Sha256};
use understudy_messages::ids::Name;

/// What makes a plugin the same plugin: its settings, where it comes from, what it may do. Its code is looked at only when it
/// is loaded anew: for another of these, or because somebody asks for it by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Of its settings, keys sorted.
    pub settings: [u8; 32],
    /// Its folder.
    pub folder: Option<PathBuf>,
    /// What operators let it do, in words that are compared.
    pub access: String,
}

/// What becomes of the plugins of a generation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diff {
    /// They stay as they are: same instance, not registered again.
    pub retained: Vec<Name>,
    /// They are new, or come anew in the place of an instance that serves.
    pub started: Vec<Name>,
    /// Their instance goes: nobody or another one takes its place.
    pub ended: Vec<Name>,
}

impl Diff {
    /// From `old` to `new`. Those that were `asked` for by name are replaced though nothing of them has changed.
    pub fn between(old: &BTreeMap<Name, Identity>, new: &BTreeMap<Name, Identity>, asked: &[Name]) -> Self {
        let mut diff = Self::default();
        for (id, identity) in new {
            let forced = asked.contains(id);
            match old.get(id) {
                Some(served) if served == identity && !forced => diff.retained.push(id.clone()),
                Some(_) => {
                    diff.started.push(id.clone());
                    diff.ended.push(id.clone());
                }
                None => diff.started.push(id.clone()),
            }
        }
        diff.ended
            .extend(old.keys().filter(|id| !new.contains_key(*id)).cloned());
        diff
    }

    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.started.is_empty() && self.ended.is_empty()
    }
}

/// A hash of a value in which the order of keys makes no difference, and that of lists does.
pub fn canonical_hash(value: &Value) -> [u8; 32] {
    let mut hasher = Sha256::new();
    add(value, &mut hasher);
    hasher.finalize().into()
}

fn add(value: &Value, hasher: &mut Sha256) {
    match value {
        Value::Object(members) => {
            hasher.update(b"{");
            let sorted: BTreeMap<&String, &Value> = members.iter().collect();
            for (key, value) in sorted {
                hasher.update(Value::from(key.as_str()).to_string());
                hasher.update(b":");
                add(value, hasher);
                hasher.update(b",");
            }
            hasher.update(b"}");
        }
        Value::Array(values) => {
            hasher.update(b"[");
            for value in values {
                add(value, hasher);
                hasher.update(b",");
            }
            hasher.update(b"]");
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => hasher.update(value.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn identity(settings: &Value) -> Identity {
        Identity {
            settings: canonical_hash(settings),
            folder: None,
            access: String::new(),
        }
    }

    fn set(entries: &[(&str, Value)]) -> BTreeMap<Name, Identity> {
        entries
            .iter()
            .map(|(id, settings)| (Name::from(*id), identity(settings)))
            .collect()
    }

    #[test]
    fn the_order_of_keys_is_no_change_and_that_of_lists_is_case_t18() {
        let hash = |text: &str| canonical_hash(&serde_json::from_str(text).expect("JSON"));
        assert_eq!(
            hash(r#"{"a":1,"b":{"c":2,"d":3}}"#),
            hash(r#"{"b":{"d":3,"c":2},"a":1}"#)
        );
        assert_ne!(hash(r#"{"a":[1,2]}"#), hash(r#"{"a":[2,1]}"#));
        assert_ne!(hash(r#"{"a":"1"}"#), hash(r#"{"a":1}"#));
        assert_ne!(hash(r#"["a,b"]"#), hash(r#"["a","b"]"#));
    }

    #[test]
    fn what_is_unchanged_stays_unless_it_is_asked_for_case_t1_t18() {
        let old = set(&[("a", json!({ "x": 1 })), ("b", json!({}))]);
        let diff = Diff::between(&old, &old, &["a".into()]);
        assert_eq!(
            (diff.retained, diff.started.clone(), diff.ended),
            (vec!["b".into()], vec!["a".into()], diff.started)
        );
        assert!(Diff::between(&old, &old, &[]).is_empty());
    }

    #[test]
    fn what_is_new_starts_and_what_is_gone_ends() {
        let (old, new) = (
            set(&[("a", json!({})), ("b", json!({}))]),
            set(&[("b", json!({ "x": 1 })), ("c", json!({}))]),
        );
        let diff = Diff::between(&old, &new, &[]);
        assert_eq!(diff.started, ["b".into(), "c".into()] as [Name; 2]);
        assert_eq!(diff.ended, ["b".into(), "a".into()] as [Name; 2]);
        assert!(diff.retained.is_empty());
    }
}
