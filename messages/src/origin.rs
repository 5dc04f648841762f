//! Where a request comes from that a plugin makes in the midst of its own call.

use std::fmt;
use std::sync::{Arc, Weak};

use serde::{Serialize, Serializer};
use uuid::Uuid;

/// The header in which a plugin names the turn or call that it asks from.
pub const ORIGIN_HEADER: &str = "x-understudy-origin";
/// The name of one turn or call. Nobody can guess it, it is good as long as what it names, and it is a secret.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct OriginToken(Uuid);

impl OriginToken {
    /// A new one.
    pub fn random() -> Self {
        Self(Uuid::new_v4())
    }

    /// Reads the header's value; `None` for one that is no name.
    pub fn read(header: &str) -> Option<Self> {
        Uuid::try_parse(header).ok().map(Self)
    }

    /// As plugins are told it: 32 hexadecimal digits.
    pub fn expose(self) -> String {
        self.0.simple().to_string()
    }
}

impl fmt::Debug for OriginToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OriginToken(withheld)")
    }
}

/// Something that a plugin is called in: a turn, or a call that is no turn's.
pub trait Originating: Send + Sync {
    /// Its name, made when it is first asked for; `None` where there are too many already.
    fn token(self: Arc<Self>) -> Option<OriginToken>;
}

/// The turn or call that a plugin is called in. It keeps nothing alive.
#[derive(Clone)]
pub struct Origin(Weak<dyn Originating>);

impl Origin {
    /// Of a turn or call.
    pub fn of(originating: &Arc<impl Originating + 'static>) -> Self {
        let originating: Arc<dyn Originating> = originating.clone();
        Self(Arc::downgrade(&originating))
    }

    /// Its name; `None` once it is over.
    pub fn token(&self) -> Option<OriginToken> {
        self.0.upgrade()?.token()
    }

    /// Whether it has no name to tell.
    pub fn is_untold(origin: &Option<Self>) -> bool {
        origin.as_ref().and_then(Self::token).is_none()
    }
}

impl Serialize for Origin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.token().map(OriginToken::expose).serialize(serializer)
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Origin(withheld)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_told_as_it_is_read_and_shown_to_no_log() {
        let token = OriginToken::random();
        let told = token.expose();
        assert_eq!((told.len(), OriginToken::read(&told)), (32, Some(token)));
        assert_eq!(OriginToken::read("nonsense"), None);
        assert!(!format!("{token:?}").contains(&told));
    }

    /// Something with a name.
    struct Named(OriginToken);

    impl Originating for Named {
        fn token(self: Arc<Self>) -> Option<OriginToken> {
            Some(self.0)
        }
    }

    #[test]
    fn what_is_over_has_no_name_though_somebody_remembers_it() {
        let named = Arc::new(Named(OriginToken::random()));
        let origin = Some(Origin::of(&named));
        assert_eq!(origin.as_ref().and_then(Origin::token), Some(named.0));
        drop(named);
        assert!(Origin::is_untold(&origin));
    }
}
