//! The shape of the tables: what a row may conclude and what it listens for.

use understudy_messages::failure::{Nuance, Reason};

use super::pattern::Text;

/// What was found out: the reason and what it alone does not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) reason: Reason,
    pub(super) nuance: Option<Nuance>,
}

impl Verdict {
    pub(super) const fn of(reason: Reason) -> Self {
        Self { reason, nuance: None }
    }

    pub(super) const CONTENT_FILTER: Self = Self {
        reason: Reason::Format,
        nuance: Some(Nuance::ContentFilter),
    };

    pub(super) const PREFILL_REFUSED: Self = Self {
        reason: Reason::Format,
        nuance: Some(Nuance::PrefillRefused),
    };

    pub(super) const REQUEST_SIZE_CEILING: Self = Self {
        reason: Reason::ContextOverflow,
        nuance: Some(Nuance::RequestSizeCeiling),
    };
}

/// What a row concludes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Outcome {
    /// This and nothing else.
    Is(Verdict),
    /// Whatever this status would mean with the same words.
    LikeStatus(u16),
}

impl Outcome {
    pub(super) const fn of(reason: Reason) -> Self {
        Self::Is(Verdict::of(reason))
    }
}

/// One family of wordings. The patterns are explained in [`super::pattern`].
#[derive(Debug)]
pub(super) struct Class {
    pub(super) outcome: Outcome,
    /// Any of these makes the text a member …
    pub(super) says: &'static str,
    /// … unless it also says any of these.
    pub(super) unless: &'static str,
}

impl Class {
    pub(super) const fn of(reason: Reason, says: &'static str) -> Self {
        Self {
            outcome: Outcome::of(reason),
            says,
            unless: "",
        }
    }

    pub(super) const fn unless(self, unless: &'static str) -> Self {
        Self { unless, ..self }
    }

    pub(super) fn has(&self, text: &Text) -> bool {
        text.says_any(self.says) && !text.says_any(self.unless)
    }
}
