//! What diagnostics are about: a closed set, for whoever reads them by program.

use serde::Serialize;

/// What a diagnostic is about. Its spelling stays; its message may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Code {
    /// The plugin is not loaded: its error says why.
    LoadFailed,
    /// It is off, and could not be loaded either.
    OffAndBlocked,
    /// Something is odd about a folder in `load_paths`.
    Discovery,
    /// Another one with the same id is used in its place.
    Hidden,
    /// Its entry names a plugin that is nowhere.
    EntryNotFound,
    /// A list names a plugin that is nowhere.
    NameNotFound,
    /// Its folder does not hold what serves: the copy serves on.
    ServesFromCopy,
    /// What it was loaded from is gone: it could not be put back.
    NoImage,
    /// Its entry says something that its host does not take.
    SettingNotUsed,
    /// It took long to register.
    SlowRegistration,
    /// It registered what is not its own to register.
    RegistrationRefused,
    /// It registered something that is not taken as it is, or promised something that is not there.
    RegistrationWarning,
    /// Whether it guards is not known.
    GuardUnknown,
    /// Nobody chose its context engine.
    EngineNotChosen,
    /// The context engine that was chosen is not there.
    EngineMissing,
    /// One of its handlers or tools is left out.
    LeftOut,
    /// Two plugins do the same.
    DoneTwice,
}
