//! `state`: what outlives the process, and where.

use std::path::{Path, PathBuf};

use super::Environment;
use super::raw::{self, Value};

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

/// The folder that a text names, whatever else is wrong with it; `None` where that much cannot be read either.
pub(crate) fn dir_of(text: &str, file: &Path) -> Option<PathBuf> {
    let Value::Map(sections) = raw::parse(text).ok()?.value else {
        return None;
    };
    let (_, section) = sections.into_iter().find(|(name, _)| name == "state")?;
    let Value::Map(keys) = section.value else { return None };
    let (_, dir) = keys.into_iter().find(|(name, _)| name == "dir")?;
    match dir.value {
        Value::Text(dir) => Some(file.parent().unwrap_or(file).join(dir)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::List(_) | Value::Map(_) => None,
    }
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

    #[test]
    fn the_folder_is_found_in_a_text_that_is_wrong_elsewhere() {
        let file = Path::new("/etc/understudy.yaml");
        let found = dir_of("unknown: 1\nstate: { dir: kept }\n", file);
        assert_eq!(found, Some(PathBuf::from("/etc/kept")));
        for text in ["state: { dir: 1 }", "state: 1", "1", "providers: [", ""] {
            assert_eq!(dir_of(text, file), None, "{text}");
        }
    }
}
