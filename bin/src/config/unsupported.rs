//! What the configuration format has a name for and this release does not do yet (design §9).
//!
//! Such keys are refused by name: whoever writes one must not believe that it works.

use super::path::Path;

/// Keys, by the place where they may stand; `*` is any one name.
pub(crate) const KEYS: [&str; 0] = [];

/// Whether the key at `path` belongs to a later release.
pub(crate) fn is_key(path: &Path) -> bool {
    KEYS.iter().any(|pattern| path.matches(pattern))
}
