//! The database of a file: one that failed is opened again, so that a disk that was full for a while costs no restart.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use redb::Database;
use understudy_messages::clock::{Clock, Instant};

use super::StateError;

/// How long an attempt to open it again stands. What is committed is read again each time.
const AGAIN: Duration = Duration::from_secs(1);

/// Opens the file.
pub(super) type Open = Box<dyn Fn() -> Result<Database, StateError> + Send + Sync>;

/// The database, while there is one.
pub(super) struct Held {
    database: ArcSwapOption<Database>,
    open: Option<Open>,
    clock: Clock,
    /// Whether it answers nothing until it is opened again.
    broken: AtomicBool,
    failing: AtomicBool,
    closed: AtomicBool,
    /// How many changes readers see that are not on the disk.
    owed: AtomicUsize,
    tried: Mutex<Option<Instant>>,
}

impl Held {
    pub(super) fn new(database: Database, open: Option<Open>, clock: Clock) -> Self {
        Self {
            database: ArcSwapOption::new(Some(Arc::new(database))),
            open,
            clock,
            broken: AtomicBool::new(false),
            failing: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            owed: AtomicUsize::new(0),
            tried: Mutex::default(),
        }
    }

    pub(super) fn database(&self) -> Result<Arc<Database>, StateError> {
        let absent = || match self.closed.load(Ordering::Acquire) {
            true => StateError::Closed,
            false => StateError::Failing,
        };
        self.database.load_full().ok_or_else(absent)
    }

    pub(super) fn is_failing(&self) -> bool {
        self.failing.load(Ordering::Acquire)
    }

    /// All can be written.
    pub(super) fn is_well(&self) {
        if self.failing.swap(false, Ordering::AcqRel) {
            tracing::info!("state is written again");
        }
    }

    /// So many changes are visible and not on the disk.
    pub(super) fn owes(&self, changes: usize) {
        self.owed.store(changes, Ordering::Release);
    }

    pub(super) fn owed(&self) -> usize {
        self.owed.load(Ordering::Acquire)
    }

    /// A change was not committed. A database whose medium failed says nothing more until it is opened again.
    pub(super) fn note(&self, error: &redb::Error) {
        let of_medium = matches!(
            error,
            redb::Error::Io(_) | redb::Error::PreviousIo | redb::Error::LockPoisoned(_)
        );
        if of_medium {
            self.broke();
        }
    }

    /// It is opened again before anything else is done.
    pub(super) fn broke(&self) {
        self.failing.store(true, Ordering::Release);
        self.broken.store(true, Ordering::Release);
    }

    /// Opens it again where it is broken, unless that was tried just now, and does with it what is to be done before anybody
    /// reads it. Tells whether that was done. Only the writer does, between two changes.
    pub(super) fn mend(&self, at_once: bool, first: impl FnOnce(&Database) -> Result<(), redb::Error>) -> bool {
        let Some(open) = self.open.as_ref().filter(|_| self.broken.load(Ordering::Acquire)) else {
            return false;
        };
        let now = self.clock.now();
        let mut tried = self.tried.lock().unwrap_or_else(PoisonError::into_inner);
        if !at_once && tried.is_some_and(|before| now.duration_since(before) < AGAIN) {
            return false;
        }
        *tried = Some(now);
        // its lock on the file goes with it
        self.database.store(None);
        let opened = catch_unwind(AssertUnwindSafe(|| {
            let database = open()?;
            first(&database)?;
            Ok::<_, StateError>(database)
        }));
        let opened = opened.unwrap_or_else(|_panic| Err(StateError::Failing));
        match opened {
            Ok(database) => {
                self.database.store(Some(Arc::new(database)));
                self.broken.store(false, Ordering::Release);
                true
            }
            Err(error) => {
                tracing::error!(%error, "state cannot be opened again");
                false
            }
        }
    }

    /// There is none any more.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.database.store(None);
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Held")
    }
}
