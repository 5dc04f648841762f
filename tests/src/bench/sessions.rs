//! Stores of sessions, and turns that are kept in them.

use std::path::PathBuf;
use std::time::Duration;

use understudy_actors::session::store::{Header, SessionChange, SessionStore, StateSessions, StateSessionsOptions};
use understudy_actors::state::State;
use understudy_actors::tap::EventTap;
use understudy_actors::telemetry::Telemetry;
use understudy_messages::clock::Clock;
use understudy_messages::ids::SessionKey;

/// What one turn adds: a question and an answer, 2 KiB together.
const SAID: [usize; 2] = [256, 1_792];
/// How many turns of a session are remembered.
const REMEMBERED: u64 = 128;
/// A year: nothing expires.
const LONG: Duration = Duration::from_secs(365 * 24 * 3_600);

/// A store, for as long as it is measured.
pub struct Sessions {
    store: StateSessions,
    _folder: Option<Folder>,
}

impl Sessions {
    /// A store in a file of its own. `interval` as in [`StateSessionsOptions`].
    pub fn on_disk(name: &str, interval: Option<Duration>) -> Self {
        let folder = Folder::new(name);
        let state = State::open(&folder.0, &Clock::real()).expect("state");
        Self {
            store: open(state, interval),
            _folder: Some(folder),
        }
    }

    /// A store that ends with its process.
    pub fn in_memory() -> Self {
        Self {
            store: open(State::in_memory().expect("state"), None),
            _folder: None,
        }
    }

    /// What is known of a session, after all of it was read.
    pub async fn load(&self, number: u64) -> Header {
        let stored = self.store.load(&key(number)).await.expect("sound");
        stored.map_or_else(|| Header::new(Clock::real().wall()), |stored| stored.header)
    }

    /// Adds a turn to a session of which this is known, and tells what is known then.
    pub async fn commit(&self, number: u64, before: Header) -> Header {
        let next = before.next + 1;
        let header = Header {
            revision: before.revision + 1,
            turns: before.turns + 1,
            first: before.first.max(next.saturating_sub(REMEMBERED)),
            next,
            updated: Clock::real().wall(),
            ..before.clone()
        };
        let change = SessionChange {
            base: before.revision,
            header: header.clone(),
            said: SAID.map(|length| "x".repeat(length).into()).to_vec(),
            forgets: before.first..header.first,
        };
        self.store.commit(&key(number), change).await.expect("kept");
        header
    }

    /// The next turn of a session that is not in memory.
    pub async fn turn(&self, number: u64) {
        let before = self.load(number).await;
        self.commit(number, before).await;
    }
}

fn open(state: State, interval: Option<Duration>) -> StateSessions {
    let options = StateSessionsOptions {
        state,
        clock: Clock::real(),
        telemetry: Telemetry::new().expect("a recorder"),
        tap: EventTap::default(),
        interval,
        ttl: LONG,
        disk: u64::MAX,
        most: usize::MAX,
    };
    StateSessions::open(options, []).expect("a store")
}

fn key(number: u64) -> SessionKey {
    SessionKey::Keyed {
        owner: None,
        // neighbours in time are none in the tables
        key: format!("s-{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).into(),
    }
}

/// A folder that goes with the store.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("understudy-bench-store-{}-{name}", std::process::id()));
        let _old = std::fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}
