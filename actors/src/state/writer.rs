//! The one thread that writes: what came while it wrote is its next group.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

use redb::{Database, Durability, StorageError, WriteTransaction};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::StateError;
use super::held::Held;

/// How many changes may be queued.
const QUEUE: usize = 4_096;
/// How much they may hold together, in KiB.
const QUEUE_KIB: u32 = 32 << 10;
/// How many make one group at most: the first of them waits for the last.
const GROUP: usize = 1_024;

/// How much is kept, in KiB, of what readers see and is not on the disk: beyond it the disk is waited for.
const OWED_KIB: u32 = 16 << 10;

/// What is done in a transaction. It may be run twice, and does nothing else.
pub type Change = Box<dyn Fn(&WriteTransaction) -> Result<(), redb::Error> + Send>;

struct Order {
    change: Change,
    /// How much it holds.
    kib: u32,
    /// Whether it is waited for until it is on the disk.
    durable: bool,
    done: oneshot::Sender<Result<(), StateError>>,
    _room: OwnedSemaphorePermit,
}

/// Writes until it is dropped; then what is queued is written before the drop returns.
pub(super) struct Writer {
    orders: Mutex<Option<mpsc::Sender<Order>>>,
    room: Arc<Semaphore>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    pub(super) fn start(held: Arc<Held>) -> Result<Self, StateError> {
        let (orders, queue) = mpsc::channel(QUEUE);
        let thread = Builder::new().name("state".to_owned()).spawn(move || run(&held, queue));
        let thread = thread.map_err(|error| StateError::Storage(Arc::new(StorageError::Io(error).into())))?;
        Ok(Self {
            orders: Mutex::new(Some(orders)),
            room: Arc::new(Semaphore::new(QUEUE_KIB as usize)),
            thread: Mutex::new(Some(thread)),
        })
    }

    pub(super) async fn write(&self, bytes: usize, durable: bool, change: Change) -> Result<(), StateError> {
        let kib = u32::try_from(bytes.div_ceil(1 << 10)).unwrap_or(u32::MAX);
        // one that is larger than all the room comes alone
        let kib = kib.clamp(1, QUEUE_KIB);
        let room = self.room.clone().acquire_many_owned(kib);
        let (done, made) = oneshot::channel();
        let order = Order {
            change,
            kib,
            durable,
            done,
            _room: room.await.map_err(|_closed| StateError::Closed)?,
        };
        let orders = unpoisoned(&self.orders).clone().ok_or(StateError::Closed)?;
        orders.send(order).await.map_err(|_gone| StateError::Closed)?;
        drop(orders);
        made.await.unwrap_or(Err(StateError::Closed))
    }
}

impl Writer {
    /// Takes nothing more, and waits until what is queued is written. It blocks.
    pub(super) fn close(&self) {
        *unpoisoned(&self.orders) = None;
        let thread = unpoisoned(&self.thread).take();
        if let Some(Err(_panic)) = thread.map(JoinHandle::join) {
            tracing::error!("the writer of state panicked");
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.close();
    }
}

fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Writer")
    }
}

/// What readers see and is not on the disk. A file that had to be opened again does not have it: it is made again then.
#[derive(Default)]
struct Owed {
    changes: Vec<Change>,
    kib: u32,
}

impl Owed {
    fn add(&mut self, change: Change, kib: u32) {
        self.changes.push(change);
        self.kib = self.kib.saturating_add(kib);
    }

    /// Opens the file again where that is needed, and makes again what it has lost.
    fn mend(&mut self, held: &Held, at_once: bool) {
        let again: Vec<&Change> = self.changes.iter().collect();
        let make = |database: &Database| match again.is_empty() {
            true => Ok(()),
            false => committed(database, &again, true),
        };
        if held.mend(at_once, make) {
            *self = Self::default();
        }
    }
}

fn run(held: &Held, mut queue: mpsc::Receiver<Order>) {
    let (mut group, mut owed) = (Vec::new(), Owed::default());
    while queue.blocking_recv_many(&mut group, GROUP) > 0 {
        write(held, &mut group, &mut owed);
    }
    settle(held, &mut owed);
}

fn write(held: &Held, group: &mut Vec<Order>, owed: &mut Owed) {
    owed.mend(held, false);
    let changes: Vec<&Change> = group.iter().map(|order| &order.change).collect();
    let kib = group.iter().fold(owed.kib, |sum, order| sum.saturating_add(order.kib));
    let durable = kib > OWED_KIB || group.iter().any(|order| order.durable);
    let together = commit(held, &changes, durable);
    if durable && together.is_ok() {
        *owed = Owed::default();
    }
    for order in group.drain(..) {
        let (made, durable) = match &together {
            Ok(()) => (Ok(()), durable),
            // one of them is to blame, and the others are not
            Err(_) => {
                owed.mend(held, false);
                (commit(held, &[&order.change], order.durable), order.durable)
            }
        };
        if made.is_ok() && durable && together.is_err() {
            *owed = Owed::default();
        }
        let Order { change, kib, done, .. } = order;
        if made.is_ok() && !durable {
            owed.add(change, kib);
        }
        held.owes(owed.changes.len());
        answer(done, made);
    }
}

/// Puts on the disk what nobody has waited for: nothing comes any more.
fn settle(held: &Held, owed: &mut Owed) {
    owed.mend(held, true);
    if owed.changes.is_empty() || commit(held, &[], true).is_ok() {
        return held.owes(0);
    }
    // what failed is opened once more
    owed.mend(held, true);
    let changes = owed.changes.len();
    held.owes(changes);
    if changes > 0 {
        tracing::error!(
            changes,
            "changes of state that nobody had waited for are lost: what is on the disk is older"
        );
    }
}

fn answer(done: oneshot::Sender<Result<(), StateError>>, made: Result<(), StateError>) {
    if let Err(error) = &made {
        tracing::error!(%error, "a change of state was not made");
    }
    let _nobody_waits = done.send(made);
}

/// All of some changes, or none.
fn commit(held: &Held, changes: &[&Change], durable: bool) -> Result<(), StateError> {
    let database = held.database()?;
    let made = catch_unwind(AssertUnwindSafe(|| committed(&database, changes, durable)));
    let made = made.unwrap_or_else(|_panic| {
        held.broke();
        Err(redb::Error::Corrupted("a change panicked".to_owned()))
    });
    made.map_err(|error| {
        held.note(&error);
        StateError::Storage(Arc::new(error))
    })
}

fn committed(database: &Database, changes: &[&Change], durable: bool) -> Result<(), redb::Error> {
    let mut transaction = database.begin_write()?;
    if !durable {
        transaction.set_durability(Durability::None)?;
    }
    for change in changes {
        change(&transaction)?;
    }
    Ok(transaction.commit()?)
}
