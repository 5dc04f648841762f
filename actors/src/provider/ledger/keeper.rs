//! Keeps what is learnt of providers in the state file: a record for each window that rests, written when it opens, moves or is
//! cleared, and not by turns that only meet it.

use std::sync::Arc;
use std::time::Duration;

use redb::WriteTransaction;
use tokio::sync::Mutex;
use understudy_messages::clock::Clock;

use super::learnt::{Learnt, Mark, Marks, Subject};
use crate::registry::Published;
use crate::state::records::learnt as records;
use crate::state::{State, StateError};
use crate::supervision::Supervision;

/// What comes within it is written together.
const GAP: Duration = Duration::from_millis(100);
/// When it is tried again to write what could not be written.
const RETRY: Duration = Duration::from_secs(5);

/// Keeps what the serving generation has learnt.
pub struct LedgerKeeper {
    state: State,
    published: Arc<Published>,
    clock: Clock,
    learnt: Arc<Learnt>,
    /// What stands in the file.
    written: Mutex<Marks>,
}

impl LedgerKeeper {
    /// Reads what an earlier process has kept. One record that cannot be read is passed over, and said so. It blocks.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn open(state: State, published: Arc<Published>, supervision: &Supervision) -> Result<Self, StateError> {
        let clock = supervision.clock.clone();
        let (salt, marks) = records::read::<Subject, Mark>(state.file())?;
        let marks: Marks = marks.into_iter().collect();
        let learnt = Arc::new(Learnt {
            salt,
            marks: marks.clone(),
            read: Some((clock.now(), clock.wall())),
        });
        Ok(Self {
            state,
            published,
            clock,
            learnt,
            written: Mutex::new(marks),
        })
    }

    /// What an earlier process has learnt.
    pub fn learnt(&self) -> Arc<Learnt> {
        self.learnt.clone()
    }

    /// Keeps what is learnt from now on, until it is dropped.
    pub async fn run(&self) {
        loop {
            let serving = self.published.load();
            let pause = match &serving {
                None => GAP,
                Some(serving) => {
                    let changed = serving.ledgers.changes();
                    tokio::pin!(changed);
                    // before the look: what changes after it is heard
                    changed.as_mut().enable();
                    match self.keep().await {
                        true => {
                            tokio::select! {
                                () = changed => {}
                                () = self.published.changes() => {}
                            }
                            GAP
                        }
                        false => RETRY,
                    }
                }
            };
            drop(serving);
            self.clock.sleep(pause).await;
        }
    }

    /// Writes what has changed. `false`: it could not be written.
    pub async fn keep(&self) -> bool {
        let Some(serving) = self.published.load() else {
            return true;
        };
        let mut written = self.written.lock().await;
        let (now, wall, mut marks) = (self.clock.now(), self.clock.wall(), Marks::new());
        for ledger in serving.ledgers.iter() {
            self.learnt.gather(ledger, now, wall, &mut marks);
        }
        let (put, gone) = differences(&written, &marks);
        if put.is_empty() && gone.is_empty() {
            return true;
        }
        let change = move |write: &WriteTransaction| records::write(write, &put, &gone);
        let kept = self.state.file().write(0, change).await;
        match kept {
            Ok(()) => *written = marks,
            Err(error) => {
                tracing::error!(%error, "what was learnt of providers is not kept");
                return false;
            }
        }
        true
    }
}

/// What has to be written, and what removed, where `written` stands and `marks` hold.
fn differences(written: &Marks, marks: &Marks) -> (Vec<(Subject, Mark)>, Vec<Subject>) {
    let is_new = |(subject, mark): &(&Subject, &Mark)| !written.get(subject).is_some_and(|known| known.is_same(mark));
    let put = marks.iter().filter(is_new);
    let gone = written.keys().filter(|subject| !marks.contains_key(subject));
    (
        put.map(|(subject, mark)| (subject.clone(), *mark)).collect(),
        gone.cloned().collect(),
    )
}
