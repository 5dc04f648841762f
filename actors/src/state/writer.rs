//! The one thread that writes: what came while it wrote is its next group.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

use redb::{Durability, StorageError, WriteTransaction};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::StateError;
use super::held::Held;

/// How many changes may be queued.
const QUEUE: usize = 4_096;
/// How much they may hold together, in KiB.
const QUEUE_KIB: u32 = 32 << 10;
/// How many make one group at most: the first of them waits for the last.
const GROUP: usize = 1_024;

/// What is done in a transaction. It may be run twice, and does nothing else.
pub type Change = Box<dyn Fn(&WriteTransaction) -> Result<(), redb::Error> + Send>;

struct Order {
    change: Change,
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
        let room = self.room.clone().acquire_many_owned(kib.clamp(1, QUEUE_KIB));
        let (done, made) = oneshot::channel();
        let order = Order {
            change,
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

fn run(held: &Held, mut queue: mpsc::Receiver<Order>) {
    let (mut group, mut owed) = (Vec::new(), false);
    while queue.blocking_recv_many(&mut group, GROUP) > 0 {
        held.mend();
        let changes: Vec<&Change> = group.iter().map(|order: &Order| &order.change).collect();
        let durable = group.iter().any(|order| order.durable);
        let together = commit(held, &changes, durable);
        owed = !(durable && together.is_ok());
        for order in group.drain(..) {
            let made = match &together {
                Ok(()) => Ok(()),
                // one of them is to blame, and the others are not
                Err(_) => {
                    held.mend();
                    commit(held, &[&order.change], order.durable)
                }
            };
            answer(order, made);
        }
    }
    if owed && let Err(error) = commit(held, &[], true) {
        tracing::error!(%error, "what nobody had waited for is perhaps not on the disk");
    }
}

fn answer(order: Order, made: Result<(), StateError>) {
    if let Err(error) = &made {
        tracing::error!(%error, "a change of state was not made");
    }
    let _nobody_waits = order.done.send(made);
}

/// All of some changes, or none.
fn commit(held: &Held, changes: &[&Change], durable: bool) -> Result<(), StateError> {
    let database = held.database()?;
    let write = || -> Result<(), redb::Error> {
        let mut transaction = database.begin_write()?;
        if !durable {
            transaction.set_durability(Durability::None)?;
        }
        for change in changes {
            change(&transaction)?;
        }
        Ok(transaction.commit()?)
    };
    let made = catch_unwind(AssertUnwindSafe(write))
        .unwrap_or_else(|_panic| Err(redb::Error::Corrupted("a change panicked".to_owned())));
    made.map_err(|error| {
        held.note(&error);
        StateError::Storage(Arc::new(error))
    })
}
