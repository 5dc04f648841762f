//! Who is told what the canon does: this crate counts nothing itself.

use super::decide::Cause;

/// What came of one decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evaluation {
    /// The canon was read and added.
    Injected,
    /// What had been read was added again.
    Repeated,
    /// Nothing was due.
    Skipped,
    /// It was due, and the workspace has none.
    Empty,
    /// The agent has no workspace.
    NoWorkspace,
}

impl Evaluation {
    /// A label for metrics.
    pub const fn as_label(self) -> &'static str {
        match self {
            Self::Injected => "injected",
            Self::Repeated => "repeated",
            Self::Skipped => "skipped",
            Self::Empty => "empty",
            Self::NoWorkspace => "no_workspace",
        }
    }
}

/// Who is told what the canon does.
pub trait CanonObserver: Send + Sync {
    /// A prompt was about to be built, and this came of it.
    fn evaluated(&self, result: Evaluation);

    /// So many bytes were added to a prompt.
    fn injected(&self, cause: Cause, bytes: usize);
}
