//! The folder of one process.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use redb::ReadTransaction;
use serde::Serialize;
use understudy_messages::clock::Clock;

use super::file::{self, Format};
use super::{Identity, StateError};

/// What is locked, and holds the name of who did.
const LOCK: &str = "gateway.lock";
/// The one file.
const FILE: &str = "state.redb";
/// Where captures lie.
const CAPTURES: &str = "captures";
/// More than any identity takes.
const MOST_IDENTITY: u64 = 4 << 10;

/// How often a lock is looked at whose holder is dead, and how long it is waited in between: it is about to become free.
const MOST_LOOKS: u32 = 100;
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// A folder that belongs to this process until it ends, however it ends: the system lets go of the lock.
#[derive(Debug)]
pub struct StateDir {
    folder: PathBuf,
    dead: Option<Identity>,
    lock: Mutex<(File, Identity)>,
}

impl StateDir {
    pub(super) fn take(folder: &Path, clock: &Clock) -> Result<Self, StateError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(io_error(folder))?;
        let folder = folder.canonicalize().map_err(io_error(folder))?;
        let path = folder.join(LOCK);
        let ours = path.exists() || fs::read_dir(&folder).map_err(io_error(&folder))?.next().is_none();
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut lock = options.open(&path).map_err(io_error(&path))?;
        if !has(&mut lock).map_err(io_error(&path))? {
            let holder = told_by(&mut lock).map(Box::new);
            return Err(StateError::Held { dir: folder, holder });
        }
        // only now, and no folder that holds something else: neither is this one's to change
        if ours {
            fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).map_err(io_error(&folder))?;
        }
        let dir = Self {
            folder,
            dead: told_by(&mut lock),
            lock: Mutex::new((lock, Identity::own(clock))),
        };
        dir.tell(|_| {}).map_err(io_error(&path))?;
        Ok(dir)
    }

    /// Tells those who come later where this process is found.
    pub fn announce(&self, api: SocketAddr, admin: SocketAddr) {
        let told = self.tell(|own| (own.api, own.admin) = (Some(api), Some(admin)));
        if let Err(error) = told {
            tracing::warn!(error = %error.kind(), "the lock of the state directory does not name the addresses");
        }
    }

    fn tell(&self, change: impl FnOnce(&mut Identity)) -> io::Result<()> {
        let mut lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut lock.1);
        let text = serde_json::to_vec(&lock.1)?;
        lock.0.rewind()?;
        lock.0.set_len(0)?;
        lock.0.write_all(&text)
    }

    /// Its last owner, where that one did not end in order.
    pub fn dead(&self) -> Option<&Identity> {
        self.dead.as_ref()
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where captures lie.
    pub fn captures(&self) -> PathBuf {
        self.folder.join(CAPTURES)
    }

    pub(super) fn file(&self) -> PathBuf {
        self.folder.join(FILE)
    }
}

impl StateDir {
    /// Lets it go. An owner that ends in order leaves no name behind.
    pub(super) fn release(&self) {
        let lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let _told_as_dead_next_time = lock.0.set_len(0);
        let _free_when_the_process_ends = lock.0.unlock();
    }
}

/// Takes a lock. A holder that is dead may have left it, for a moment, to a child that was about to become another program.
fn has(lock: &mut File) -> io::Result<bool> {
    for _ in 0..MOST_LOOKS {
        match lock.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if told_by(lock).is_some_and(|holder| holder.is_gone()) => {
                std::thread::sleep(BETWEEN_LOOKS);
            }
            Err(TryLockError::WouldBlock) => return Ok(false),
        }
    }
    Ok(false)
}

/// Who says that it holds a lock; `None` for nobody, or for one that is just writing.
fn told_by(lock: &mut File) -> Option<Identity> {
    let mut text = Vec::new();
    lock.rewind().ok()?;
    lock.take(MOST_IDENTITY).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> StateError {
    let path = path.to_owned();
    move |error| StateError::Io { path, error }
}

/// A moment of a folder's file, without taking the folder.
pub(super) fn peek(folder: &Path) -> Result<Option<ReadTransaction>, StateError> {
    file::peek(&folder.join(FILE))
}

/// What is found about a folder from outside, without taking it.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Inspected {
    /// There is none yet: the next start makes it.
    Absent,
    /// It belongs to a process that lives.
    Held(Option<Identity>),
    /// It is free, and its file is sound.
    Sound,
    /// It is free; its file was not closed in order, which the next start puts right.
    NotClosed,
    /// It cannot be used, and what to do.
    Unusable(String),
}

/// Looks at a folder without taking it or changing anything. It blocks.
pub fn inspect(folder: &Path) -> Inspected {
    let unusable = |error: StateError| Inspected::Unusable(error.to_string());
    match fs::metadata(folder) {
        Ok(facts) if facts.is_dir() => {}
        Ok(_) => return unusable(io_error(folder)(io::ErrorKind::NotADirectory.into())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Inspected::Absent,
        Err(error) => return unusable(io_error(folder)(error)),
    }
    let path = folder.join(LOCK);
    let mut lock = match File::open(&path) {
        Ok(lock) => lock,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Inspected::Absent,
        Err(error) => return unusable(io_error(&path)(error)),
    };
    // a shared lock, and only for as long as the file is looked at: a gateway that starts meanwhile is told that it is held
    match lock.try_lock_shared() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Inspected::Held(told_by(&mut lock)),
        Err(TryLockError::Error(error)) => return unusable(io_error(&path)(error)),
    }
    match file::look(&folder.join(FILE)) {
        Ok(Format::Known) => Inspected::Sound,
        Ok(Format::Absent) => Inspected::Absent,
        Ok(Format::NotClosed) => Inspected::NotClosed,
        Err(error) => unusable(error),
    }
}
