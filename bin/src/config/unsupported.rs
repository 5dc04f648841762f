//! What the configuration format has a name for and this release does not do yet (design §9).
//!
//! Such keys are refused by name: whoever writes one must not believe that it works.

use super::path::Path;

/// Keys, by the place where they may stand; `*` is any one name.
pub(crate) const KEYS: [&str; 6] = [
    "plugins",
    "agents.*.workspace",
    "agents.*.plugins",
    "models.*.prefill",
    "models.*.embedding_space",
    "providers.*.max_concurrent",
];

/// Values of keys that are supported with other values.
pub(crate) const VALUES: [(&str, &str); 5] = [
    ("agents.*.on_broken_stream", "continue"),
    ("agents.*.on_broken_stream", "hold"),
    ("providers.*.api", "anthropic-messages"),
    ("providers.*.api", "gemini"),
    ("providers.*.api", "openai-responses"),
];

/// Whether the key at `path` belongs to a later release.
pub(crate) fn is_key(path: &Path) -> bool {
    KEYS.iter().any(|pattern| path.matches(pattern))
}

/// Whether `value` at `path` belongs to a later release.
pub(crate) fn is_value(path: &Path, value: &str) -> bool {
    VALUES
        .iter()
        .any(|(pattern, later)| *later == value && path.matches(pattern))
}
