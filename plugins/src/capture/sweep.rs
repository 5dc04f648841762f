//! Captures that nobody holds any more.
//!
//! Whose they were does not matter: the owner of the state directory is the only process that takes captures there.

use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::{Captures, gone_already};

/// What a sweep did.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// How many captures it removed.
    pub removed: usize,
    /// What it could not remove.
    pub failures: Vec<String>,
}

impl Captures {
    /// Removes the captures of the first place that nobody holds and that are at least so old: links, files and other folders
    /// stay. Only for who owns the place. It blocks.
    pub fn sweep(&self, age: Duration, now: SystemTime) -> Swept {
        let mut swept = Swept::default();
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) => {
                swept.failures = told(&self.folder, gone_already(error));
                return swept;
            }
        };
        for entry in entries.filter_map(Result::ok) {
            let path = entry.path();
            // as it is, not what a link leads to
            let is_one = fs::symlink_metadata(&path).is_ok_and(|it| is_capture(&entry.file_name(), &it, age, now));
            if !is_one {
                continue;
            }
            // whoever takes one now waits, so that what is looked at here is not held a moment later
            let held = self.remover.held();
            if held.contains(&path) {
                continue;
            }
            match fs::remove_dir_all(&path) {
                Ok(()) => swept.removed += 1,
                Err(error) => swept.failures.extend(told(&path, Err(error))),
            }
        }
        swept
    }
}

fn is_capture(name: &OsStr, facts: &Metadata, age: Duration, now: SystemTime) -> bool {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let ours = name.to_str().and_then(|name| name.split_once('-'));
    let ours = ours.is_some_and(|(process, count)| number(process) && number(count));
    let old = facts
        .modified()
        .is_ok_and(|made| age.is_zero() || now.duration_since(made).is_ok_and(|it| it >= age));
    ours && facts.is_dir() && old
}

fn told(path: &Path, ended: io::Result<()>) -> Vec<String> {
    let failure = ended.err().map(|error| format!("{}: {}", path.display(), error.kind()));
    failure.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::process;

    use super::*;

    /// A folder that goes with its test.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("understudy-sweep-{}-{name}", process::id()));
            let _old = fs::remove_dir_all(&path);
            fs::create_dir_all(path.join("plugin")).expect("a folder");
            fs::create_dir_all(path.join("captures")).expect("a folder");
            Self(path.canonicalize().expect("real"))
        }

        fn captures(&self) -> Captures {
            Captures::below(self.0.join("captures"))
        }

        fn left(&self) -> Vec<String> {
            let left = fs::read_dir(self.0.join("captures")).expect("there");
            let mut left: Vec<String> = left
                .map(|it| it.expect("one").file_name().to_string_lossy().into_owned())
                .collect();
            left.sort();
            left
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _gone = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn what_an_earlier_process_left_goes_and_what_is_held_or_foreign_stays() {
        let place = Place::new("left");
        let captures = place.captures();
        let held = captures.take(&place.0.join("plugin")).expect("captured");
        let below = place.0.join("captures");
        fs::create_dir_all(below.join("7-0/lib")).expect("a folder");
        fs::write(below.join("7-0/lib/index.js"), "old").expect("written");
        fs::create_dir(below.join("notes")).expect("a folder");
        fs::write(below.join("7-1"), "a file").expect("written");
        std::os::unix::fs::symlink(&place.0, below.join("7-2")).expect("linked");
        let swept = captures.sweep(Duration::ZERO, SystemTime::now());
        assert_eq!((swept.removed, swept.failures.len()), (1, 0));
        let own = held
            .folder()
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let mut expected = vec!["7-1".to_owned(), "7-2".to_owned(), own, "notes".to_owned()];
        expected.sort();
        assert_eq!(place.left(), expected);
        assert!(place.0.join("plugin").exists(), "a link is not followed");
    }

    #[test]
    fn an_orphan_stays_until_it_is_old_enough() {
        let place = Place::new("young");
        fs::create_dir(place.0.join("captures/7-0")).expect("a folder");
        let (captures, hour) = (place.captures(), Duration::from_secs(3_600));
        assert_eq!(captures.sweep(hour, SystemTime::now()), Swept::default());
        assert_eq!(place.left(), ["7-0"]);
        let later = SystemTime::now() + hour + Duration::from_secs(60);
        assert_eq!(captures.sweep(hour, later).removed, 1);
        assert!(place.left().is_empty());
    }

    #[test]
    fn where_there_is_nothing_a_sweep_says_and_makes_nothing() {
        let place = Place::new("nothing");
        let captures = Captures::below(place.0.join("never"));
        assert_eq!(captures.sweep(Duration::ZERO, SystemTime::now()), Swept::default());
        assert!(!place.0.join("never").exists());
    }

    #[test]
    fn a_folder_that_could_not_be_swept_away_is_not_used_again() {
        let place = Place::new("again");
        let captures = place.captures();
        let first = captures.take(&place.0.join("plugin")).expect("captured");
        let name = first
            .folder()
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let number: u64 = name.split_once('-').expect("ours").1.parse().expect("a number");
        // the ones that would come next, with something in them
        for next in 1..200 {
            let folder = place.0.join(format!("captures/{}-{}", process::id(), number + next));
            fs::create_dir(&folder).expect("a folder");
            fs::write(folder.join("stale"), "x").expect("written");
        }
        let next = captures.take(&place.0.join("plugin")).expect("captured");
        assert!(!next.folder().join("stale").exists());
    }
}
