//! What an app begins with: its file as it is, or the last configuration that was published from it where that cannot be used.

use std::path::{Path, PathBuf, absolute};

use understudy_actors::state::records::{self, Pending, Published};
use understudy_actors::state::{State, StateError};
use understudy_messages::clock::Clock;

use super::Fault;
use crate::config::compiled::Compiled;
use crate::config::source::{revision_of, sweep, write};
use crate::config::{ConfigError, ServerConfig, Store, report};

/// What an app begins with.
pub(crate) struct Beginning {
    /// What it serves first.
    pub(crate) config: ServerConfig,
    /// What it knows from before.
    pub(crate) state: State,
    /// Why it is not what the file holds.
    pub(crate) fault: Option<Fault>,
}

/// Why there is nothing to begin with.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoBeginning {
    /// Neither the file nor what was published from it can be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The state cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
}

impl Beginning {
    /// A configuration that somebody has read, and the state that it names.
    pub(crate) fn of(config: ServerConfig, clock: &Clock) -> Result<Self, StateError> {
        let state = open(&config, None, clock)?;
        let fault = None;
        Ok(Self { config, state, fault })
    }

    /// What a file holds, once what was under way when its last gateway died has been settled.
    pub(crate) fn from_file(file: &Path, state: State, compiled: &Compiled) -> Result<Self, NoBeginning> {
        sweep(file);
        let (published, pending) = records::kept(state.file())?;
        if let Some(pending) = pending {
            settle(&state, &pending)?;
        }
        let error = match ServerConfig::load_knowing(file, compiled) {
            Ok(config) => {
                let fault = None;
                return Ok(Self { config, state, fault });
            }
            Err(error) => error,
        };
        let Some(config) = published.and_then(|published| last_published(&published, file, compiled)) else {
            return Err(error.into());
        };
        let message = report::for_people(&file.display().to_string(), &error);
        tracing::error!(
            revision = config.source.revision(),
            "the configuration was not taken; what was published last serves\n{message}"
        );
        let problems = super::keeper::problems(error);
        let fault = Some(Fault { message, problems });
        Ok(Self { config, state, fault })
    }
}

/// The state of a configuration: in `usual` where it names no folder, and in memory where there is none either.
pub(crate) fn open(config: &ServerConfig, usual: Option<PathBuf>, clock: &Clock) -> Result<State, StateError> {
    let dir = match config.state.store {
        Store::Memory => None,
        Store::File => config.state.dir.clone().or(usual),
    };
    dir.map_or_else(State::in_memory, |dir| State::open(&dir, clock))
}

/// The text that was published last, where it belongs to this file and can still be read.
fn last_published(published: &Published, file: &Path, compiled: &Compiled) -> Option<ServerConfig> {
    let text = published.serving.text.as_ref().filter(|_| is_of(published, file))?;
    ServerConfig::read(text, Some(file), compiled).ok()
}

/// Whether something was published from a file.
pub(super) fn is_of(published: &Published, file: &Path) -> bool {
    absolute(file).is_ok_and(|file| file == published.file)
}

/// A change was begun that nobody ended: a file that still holds what never served gets back what served.
fn settle(state: &State, pending: &Pending) -> Result<(), StateError> {
    let holds = ServerConfig::text_of(&pending.file);
    let unpublished = holds.is_ok_and(|text| revision_of(&text) == pending.wanted);
    let (file, wanted, before) = (pending.file.display(), &*pending.wanted, &*pending.before.id);
    match pending.before.text.as_ref().filter(|_| unpublished) {
        Some(text) => match write(&pending.file, text) {
            Ok(()) => tracing::warn!(%file, wanted, before, "a change was not ended: the file holds again what served"),
            Err(error) => {
                tracing::error!(%file, %error, wanted, "a change was not ended, and the file cannot be put back")
            }
        },
        None if unpublished => tracing::error!(
            %file, wanted, before,
            "a change was not ended; what served before holds a secret and was not kept: going on with what the file holds"
        ),
        None => {}
    }
    records::end_now(state.file())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use understudy_actors::state::records::Stored;

    use super::*;

    const GOOD: &str = "providers: { a: { api: openai-chat, base_url: \"http://a.example\", models: [m] } }\n";
    const OTHER: &str = "providers: { b: { api: openai-chat, base_url: \"http://b.example\", models: [m] } }\n";

    /// A folder with a configuration; it goes with its test.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("understudy-beginning-{}-{name}", std::process::id()));
            fs::create_dir_all(&path).expect("a folder");
            Self(path)
        }

        fn file(&self) -> PathBuf {
            self.0.join("understudy.yaml")
        }

        fn holds(&self, text: &str) {
            fs::write(self.file(), text).expect("written");
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _gone = fs::remove_dir_all(&self.0);
        }
    }

    fn stored(text: &str, kept: bool) -> Stored {
        Stored {
            id: revision_of(text),
            text: kept.then(|| text.into()),
        }
    }

    async fn published(file: PathBuf, text: &str) -> State {
        let state = State::in_memory().expect("state");
        let published = Published {
            file,
            serving: stored(text, true),
            previous: None,
            waiting: None,
            generation: 1,
            at: 0,
        };
        records::publish(state.file(), published).await.expect("kept");
        state
    }

    async fn pending(place: &Place, wanted: &str, before: Stored) -> State {
        let state = published(place.file(), GOOD).await;
        let pending = Pending {
            file: place.file(),
            wanted: revision_of(wanted),
            before,
        };
        records::begin(state.file(), pending).await.expect("kept");
        state
    }

    fn begun(place: &Place, state: State) -> Result<Beginning, NoBeginning> {
        Beginning::from_file(&place.file(), state, &Compiled::default())
    }

    fn serves(beginning: &Beginning) -> Arc<str> {
        beginning.config.source.text.clone()
    }

    #[tokio::test]
    async fn a_file_that_is_gone_or_wrong_gives_way_to_what_was_published_from_it() {
        let place = Place::new("gone");
        for text in [None, Some("providers: ["), Some("unknown: 1")] {
            if let Some(text) = text {
                place.holds(text);
            }
            let state = published(place.file(), GOOD).await;
            let beginning = begun(&place, state).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(&*serves(&beginning), GOOD);
            let fault = beginning.fault.expect("a fault");
            assert!(fault.message.contains("understudy.yaml"), "{}", fault.message);
        }
    }

    #[tokio::test]
    async fn what_was_published_from_another_file_is_no_beginning() {
        let place = Place::new("another");
        let state = published(place.0.join("other.yaml"), GOOD).await;
        let refused = begun(&place, state).err().expect("nothing to begin with");
        assert!(matches!(refused, NoBeginning::Config(ConfigError::Unreadable(_))));
    }

    #[tokio::test]
    async fn a_file_that_was_edited_meanwhile_is_the_operator_s_word() {
        let place = Place::new("edited");
        place.holds(OTHER);
        let state = published(place.file(), GOOD).await;
        let beginning = begun(&place, state).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((&*serves(&beginning), beginning.fault.is_none()), (OTHER, true));
        // also in the midst of a change
        let state = pending(&place, "something else", stored(GOOD, true)).await;
        let beginning = begun(&place, state).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(&*serves(&beginning), OTHER);
    }

    #[tokio::test]
    async fn a_file_that_holds_what_never_served_gets_back_what_served() {
        let place = Place::new("put-back");
        place.holds(OTHER);
        let state = pending(&place, OTHER, stored(GOOD, true)).await;
        let beginning = begun(&place, state).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(&*serves(&beginning), GOOD);
        assert_eq!(fs::read_to_string(place.file()).expect("read"), GOOD);
        assert_eq!(records::kept(beginning.state.file()).expect("read").1, None);
    }

    #[tokio::test]
    async fn what_was_not_kept_cannot_be_put_back_and_the_file_counts() {
        let place = Place::new("not-kept");
        place.holds(OTHER);
        let state = pending(&place, OTHER, stored(GOOD, false)).await;
        let beginning = begun(&place, state).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(&*serves(&beginning), OTHER);
    }
}
