//! The conversation as hooks see it: immutable, shared, and not made before somebody looks.

use std::fmt;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

/// A conversation taken apart for hooks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parsed {
    /// The newest text of the user.
    pub prompt: Arc<str>,
    /// The system prompt, where there is one.
    pub system_prompt: Option<Arc<str>>,
    /// The messages, oldest first: `{role, content: […]}`, the system prompt apart.
    pub messages: Arc<[Value]>,
    /// The tools that the model may call: `{name, description?, parameters?}`; `None` where they could not be read.
    pub tools: Option<Arc<[Value]>>,
}

/// What a turn knows of its conversation at one moment. It never changes; looking at it costs once.
pub struct Snapshot {
    make: Box<dyn Fn() -> Parsed + Send + Sync>,
    parsed: OnceLock<Parsed>,
}

impl Snapshot {
    /// A snapshot that `make` takes when somebody looks.
    pub fn new(make: impl Fn() -> Parsed + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            make: Box::new(make),
            parsed: OnceLock::new(),
        })
    }

    /// The conversation.
    pub fn look(&self) -> &Parsed {
        self.parsed.get_or_init(|| (self.make)())
    }

    /// Whether somebody has looked.
    pub fn was_looked_at(&self) -> bool {
        self.parsed.get().is_some()
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Snapshot(withheld)")
    }
}
