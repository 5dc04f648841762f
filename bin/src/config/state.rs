//! `state`: what outlives the process, and where.

use std::path::PathBuf;

use super::Environment;

/// What outlives the process, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StateSettings {
    /// What holds it.
    pub store: Store,
    /// The folder; `None`: where `serve` puts it, and memory for everybody else.
    pub dir: Option<PathBuf>,
}

/// What holds state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Store {
    /// A file in a folder.
    #[default]
    File,
    /// Memory: it ends with the process.
    Memory,
}

/// Where `serve` puts state unless somebody says otherwise: the folder that a service manager gives, else the one that is
/// usual for its user; `None` where there is neither.
pub(crate) fn usual_dir(env: &Environment<'_>) -> Option<PathBuf> {
    let folder = |name: &str| env(name).map(PathBuf::from).filter(|path| path.is_absolute());
    // systemd names several, divided by colons: the first is as good as any
    let given = env("STATE_DIRECTORY").and_then(|all| Some(PathBuf::from(all.split(':').next()?)));
    let given = given.filter(|path| path.is_absolute());
    given
        .or_else(|| Some(folder("XDG_STATE_HOME")?.join("understudy")))
        .or_else(|| Some(folder("HOME")?.join(".local/state/understudy")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_manager_s_folder_comes_before_those_of_the_user() {
        let all = [
            ("STATE_DIRECTORY", "/var/a:/var/b"),
            ("XDG_STATE_HOME", "/x"),
            ("HOME", "/h"),
        ];
        let usual = |from: usize| {
            usual_dir(&|name| {
                let found = all[from..].iter().find(|(variable, _)| *variable == name)?;
                Some(found.1.to_owned())
            })
        };
        let expected = [
            Some("/var/a"),
            Some("/x/understudy"),
            Some("/h/.local/state/understudy"),
            None,
        ];
        assert_eq!([0, 1, 2, 3].map(usual), expected.map(|it| it.map(PathBuf::from)));
        assert_eq!(usual_dir(&|_| Some("relative".to_owned())), None);
    }
}
