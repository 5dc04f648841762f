//! What is asked from inside of a turn or of a plugin's call: each has a name as long as it lives, once a plugin was told it.
//!
//! Whoever names one holds nothing by it. A turn that asks from inside of another is let in beside it, and a reload that asks
//! from inside of what it would wait for is told so.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use understudy_messages::ids::{Name, TurnId};
use understudy_messages::origin::{Origin, OriginToken, Originating};

use super::held::Holder;

/// As many may have a name at one time; what comes then is asked from nowhere.
const MOST: usize = 65_536;
/// How deep turns and calls may ask from inside of each other.
const DEEPEST: u8 = 8;

/// The turns and calls that have a name.
#[derive(Debug, Default)]
pub struct Origins(Mutex<HashMap<OriginToken, Root>>);

/// A turn or call, whether or not it lives.
#[derive(Clone, Debug)]
enum Root {
    Turn(Weak<Holder>),
    Call(Weak<Calling>),
}

/// One that lives.
#[derive(Debug)]
pub(super) enum Parent {
    Turn(Arc<Holder>),
    Call(Arc<Calling>),
}

/// What a turn or call was asked from.
#[derive(Clone, Debug, Default)]
pub(super) struct Within {
    root: Option<Root>,
    depth: u8,
}

/// Turns and calls ask from inside of each other without an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("calls of plugins and turns are nested more than {DEEPEST} deep")]
pub struct TooDeep;

/// How a turn or call is known, and what it was asked from.
#[derive(Debug)]
pub(super) struct Known {
    token: OnceLock<Option<OriginToken>>,
    within: Within,
}

/// A call of a plugin that is no turn's, for as long as it is held.
#[derive(Debug)]
pub struct Calling {
    plugin: Name,
    origins: Arc<Origins>,
    known: Known,
}

impl Origins {
    /// Whatever has this name; `None` when it is over.
    pub(super) fn find(&self, token: OriginToken) -> Option<Parent> {
        // one that is let go here may be the last, and takes its name back
        let root = self.known().get(&token).cloned();
        root?.alive()
    }

    /// A call of `plugin` that is asked for from inside of what has this name.
    ///
    /// # Errors
    /// [`TooDeep`]
    pub fn call(self: &Arc<Self>, plugin: &str, origin: Option<OriginToken>) -> Result<Arc<Calling>, TooDeep> {
        let parent = origin.and_then(|token| self.find(token));
        Ok(Arc::new(Calling {
            plugin: plugin.into(),
            origins: self.clone(),
            known: Known::new(Within::of(parent.as_ref())?),
        }))
    }

    fn name(&self, root: Root) -> Option<OriginToken> {
        let token = OriginToken::random();
        let mut known = self.known();
        (known.len() < MOST).then(|| known.insert(token, root))?;
        Some(token)
    }

    pub(super) fn forget(&self, known: &Known) {
        if let Some(Some(token)) = known.token.get() {
            self.known().remove(token);
        }
    }

    pub(super) fn name_turn(&self, turn: &Arc<Holder>, known: &Known) -> Option<OriginToken> {
        *known.token.get_or_init(|| self.name(Root::Turn(Arc::downgrade(turn))))
    }

    fn known(&self) -> MutexGuard<'_, HashMap<OriginToken, Root>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Root {
    fn alive(&self) -> Option<Parent> {
        match self {
            Self::Turn(turn) => turn.upgrade().map(Parent::Turn),
            Self::Call(call) => call.upgrade().map(Parent::Call),
        }
    }
}

impl Parent {
    /// The turn, where it is one.
    pub(super) fn turn(&self) -> Option<&Arc<Holder>> {
        match self {
            Self::Turn(turn) => Some(turn),
            Self::Call(_) => None,
        }
    }

    /// Whether it, or anything that it was asked from and that waits for it, uses one of these plugins.
    pub(super) fn uses(self, plugins: &[Name]) -> bool {
        let mut next = Some(self);
        while let Some(one) = next {
            let uses = match &one {
                Self::Turn(turn) => turn.uses(plugins),
                Self::Call(call) => plugins.iter().any(|plugin| plugin.eq_ignore_ascii_case(&call.plugin)),
            };
            if uses {
                return true;
            }
            next = one.known().within.root.as_ref().and_then(Root::alive);
        }
        false
    }

    fn known(&self) -> &Known {
        match self {
            Self::Turn(turn) => turn.known(),
            Self::Call(call) => &call.known,
        }
    }

    fn downgrade(&self) -> Root {
        match self {
            Self::Turn(turn) => Root::Turn(Arc::downgrade(turn)),
            Self::Call(call) => Root::Call(Arc::downgrade(call)),
        }
    }
}

impl Within {
    /// Inside of `parent`.
    ///
    /// # Errors
    /// [`TooDeep`]
    pub(super) fn of(parent: Option<&Parent>) -> Result<Self, TooDeep> {
        let Some(parent) = parent else {
            return Ok(Self::default());
        };
        let depth = parent.known().within.depth + 1;
        let root = Some(parent.downgrade());
        (depth <= DEEPEST).then_some(Self { root, depth }).ok_or(TooDeep)
    }

    /// The turn that it names, where it is one and lives.
    pub(super) fn turn(&self) -> Option<TurnId> {
        let parent = self.root.as_ref()?.alive()?;
        parent.turn().map(|turn| turn.id())
    }
}

impl Known {
    pub(super) fn new(within: Within) -> Self {
        Self {
            token: OnceLock::new(),
            within,
        }
    }
}

impl Calling {
    /// What the plugin may name the call by.
    pub fn origin(self: &Arc<Self>) -> Origin {
        Origin::of(self)
    }
}

impl Originating for Calling {
    fn token(self: Arc<Self>) -> Option<OriginToken> {
        let root = || Root::Call(Arc::downgrade(&self));
        *self.known.token.get_or_init(|| self.origins.name(root()))
    }
}

impl Drop for Calling {
    fn drop(&mut self) {
        self.origins.forget(&self.known);
    }
}

#[cfg(test)]
mod tests;
