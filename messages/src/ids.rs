//! Names of things. Cheap to clone, compared by value, safe to print.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use uuid::Uuid;

/// A short name that comes from configuration: a provider, a model, an agent.
pub type Name = Arc<str>;

/// One model at one provider, written `provider/model`.
///
/// The model part may itself contain slashes (`openrouter/meta/llama`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModelRef {
    /// The provider's name in the configuration.
    pub provider: Name,
    /// The name the provider knows the model by.
    pub model: Name,
}

impl ModelRef {
    /// A reference from its two parts.
    pub fn new(provider: impl Into<Name>, model: impl Into<Name>) -> Self {
        Self {
            provider: provider.into(),
            model: model.into(),
        }
    }

    /// Reads `provider/model`; `None` when either part is missing, when it is longer than 256 bytes, or when a control
    /// character is in it: such a name must reach no log line and no header.
    pub fn parse(text: &str) -> Option<Self> {
        const LONGEST: usize = 256;
        let plain = text.len() <= LONGEST && !text.chars().any(char::is_control);
        let (provider, model) = text.split_once('/').filter(|_| plain)?;
        (!provider.is_empty() && !model.is_empty()).then(|| Self::new(provider, model))
    }
}

impl fmt::Display for ModelRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.model)
    }
}

impl Serialize for ModelRef {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// One turn of one session: unique for the life of the deployment, ordered by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct TurnId(Uuid);

impl TurnId {
    /// A new id, later than every id made before it.
    pub fn new() -> Self {
        Self(Uuid::now_v7())
    }
}

impl Default for TurnId {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Display for TurnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.simple().fmt(f)
    }
}

/// Whose conversation this is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SessionKey {
    /// No key came with the request: the session lives for one turn and keeps nothing.
    Ephemeral,
    /// A key chosen by the client, valid only inside the client key that sent it.
    Keyed {
        /// Which client key sent it (its place in the list; `None` when none are configured).
        owner: Option<u32>,
        /// The key as it came.
        key: Name,
    },
}

impl SessionKey {
    /// The key to echo to the client, if there is one.
    pub fn key(&self) -> Option<&Name> {
        match self {
            Self::Ephemeral => None,
            Self::Keyed { key, .. } => Some(key),
        }
    }
}

/// The number of a published generation of settings and plugins; 1 is the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct GenerationId(pub u64);

impl fmt::Display for GenerationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Which session arbiter: the index of its shard in the generation's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShardIndex(pub usize);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_name_may_contain_slashes() {
        let model = ModelRef::parse("openrouter/meta/llama").expect("parses");
        assert_eq!((&*model.provider, &*model.model), ("openrouter", "meta/llama"));
    }

    #[test]
    fn half_a_reference_is_none() {
        assert_eq!(ModelRef::parse("gpt"), None);
        assert_eq!(ModelRef::parse("/gpt"), None);
        assert_eq!(ModelRef::parse("openai/"), None);
    }

    #[test]
    fn control_characters_in_a_model_id_never_reach_a_log_line_case_42() {
        for hostile in ["a/m\n2026 ERROR forged", "a/\u{1b}[2Jm", "a/m\u{7f}", "a/m\r"] {
            assert_eq!(ModelRef::parse(hostile), None, "{hostile:?}");
        }
        assert_eq!(ModelRef::parse(&format!("a/{}", "x".repeat(255))), None);
        assert!(ModelRef::parse("a/模型").is_some());
    }

    #[test]
    fn later_turns_have_greater_ids() {
        let ids: Vec<TurnId> = (0..100).map(|_| TurnId::new()).collect();
        assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
