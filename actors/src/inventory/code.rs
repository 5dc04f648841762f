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

#[cfg(test)]
mod tests {
    use super::*;

    const DOCS: &str = include_str!("../../../docs/plugins.md");

    /// The one that is listed after it: a new one does not compile until it has its place.
    const fn after(code: Code) -> Option<Code> {
        Some(match code {
            Code::LoadFailed => Code::OffAndBlocked,
            Code::OffAndBlocked => Code::Discovery,
            Code::Discovery => Code::Hidden,
            Code::Hidden => Code::EntryNotFound,
            Code::EntryNotFound => Code::NameNotFound,
            Code::NameNotFound => Code::ServesFromCopy,
            Code::ServesFromCopy => Code::NoImage,
            Code::NoImage => Code::SettingNotUsed,
            Code::SettingNotUsed => Code::SlowRegistration,
            Code::SlowRegistration => Code::RegistrationRefused,
            Code::RegistrationRefused => Code::RegistrationWarning,
            Code::RegistrationWarning => Code::GuardUnknown,
            Code::GuardUnknown => Code::EngineNotChosen,
            Code::EngineNotChosen => Code::EngineMissing,
            Code::EngineMissing => Code::LeftOut,
            Code::LeftOut => Code::DoneTwice,
            Code::DoneTwice => return None,
        })
    }

    #[test]
    fn the_documents_list_every_code_and_no_other() {
        let (_, table) = DOCS.split_once("<!-- codes: begin -->").expect("begins");
        let (table, _) = table.split_once("<!-- codes: end -->").expect("ends");
        let listed = table
            .lines()
            .filter_map(|line| line.strip_prefix("| `")?.split('`').next());
        let all = std::iter::successors(Some(Code::LoadFailed), |code| after(*code));
        let spelt = all.map(|code| serde_json::to_value(code).expect("a word"));
        assert_eq!(listed.collect::<Vec<_>>(), spelt.collect::<Vec<_>>());
    }
}
