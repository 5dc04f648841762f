//! The configuration while the gateway runs: which revision serves, which waits, and how another one takes its place.

pub(crate) mod beginning;
mod keeper;
pub(crate) mod memory;
mod revisions;
mod watch;

use std::io;
use std::sync::Arc;

use arc_swap::ArcSwap;
use serde::Serialize;
use tokio::sync::{mpsc, oneshot};
use understudy_messages::origin::OriginToken;
use understudy_messages::registry::{Receipt, ReloadError, Trigger};

use crate::app::Shared;
use crate::config::Problem;

pub(crate) use revisions::{Fault, Lost, Revision, Revisions};

use self::keeper::Keeper;

/// How many orders may wait: one that finds no room is refused as busy, and a look that finds none is already under way.
const ORDERS: usize = 16;

/// What is known of the configuration, and the way to change it.
pub(crate) struct Configuration {
    known: ArcSwap<Revisions>,
    orders: mpsc::Sender<Order>,
}

/// What is to be done about the configuration.
pub(crate) enum Order {
    /// Read the file: it may have changed.
    Look(Trigger),
    /// Let another one serve.
    Change {
        /// Which.
        change: Change,
        /// The revision that it is meant to replace.
        replaces: String,
        /// The turn or call that it is asked from.
        origin: Option<OriginToken>,
        /// Told what came of it.
        reply: oneshot::Sender<Result<Changed, Refused>>,
    },
}

/// Another configuration.
pub(crate) enum Change {
    /// This text.
    To(String),
    /// The one before.
    Back,
}

/// A change that was begun.
#[derive(Debug, Serialize)]
pub(crate) struct Changed {
    /// Whether it serves.
    pub(crate) applied: bool,
    /// Whether it will be applied by itself.
    pub(crate) deferred: bool,
    /// The newest revision that was accepted.
    pub(crate) revision: String,
    /// What was done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) receipt: Option<Receipt>,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<ReloadError>,
}

/// A change that was not begun.
#[derive(Debug)]
pub(crate) enum Refused {
    /// Another one is under way.
    Busy,
    /// Another revision than this has been replaced meanwhile.
    Replaced(String),
    /// It is wrong.
    Invalid(Vec<Problem>),
    /// It needs a restart.
    NeedsRestart(Vec<Problem>),
    /// There is none before.
    NothingBefore,
    /// There is one, and it cannot serve.
    Lost(Lost),
    /// The file cannot be written.
    NotWritten(io::Error),
}

impl Configuration {
    /// What the app starts with, and the orders that its keeper is given.
    pub(crate) fn new(known: Revisions) -> (Self, mpsc::Receiver<Order>) {
        let (orders, given) = mpsc::channel(ORDERS);
        let known = ArcSwap::from_pointee(known);
        (Self { known, orders }, given)
    }

    /// What is known now.
    pub(crate) fn known(&self) -> Arc<Revisions> {
        self.known.load_full()
    }

    /// Lets the file be read.
    pub(crate) fn look(&self, trigger: Trigger) {
        let _a_look_is_due_anyway = self.orders.try_send(Order::Look(trigger));
    }

    /// Lets another configuration take the place of the revision `replaces`.
    pub(crate) async fn change(
        &self,
        change: Change,
        replaces: String,
        origin: Option<OriginToken>,
    ) -> Result<Changed, Refused> {
        let (reply, done) = oneshot::channel();
        let order = Order::Change {
            change,
            replaces,
            origin,
            reply,
        };
        self.orders.try_send(order).map_err(|_full| Refused::Busy)?;
        done.await.unwrap_or(Err(Refused::Busy))
    }
}

/// Carries out orders until the app stops, and watches the file, if there is one.
pub(crate) fn start(shared: &Arc<Shared>, orders: mpsc::Receiver<Order>) {
    let tasks = &shared.supervision.tasks;
    tasks.spawn_until_stop("configuration", Keeper::new(shared.clone(), orders).run());
    if let Some(file) = shared.config.source.file.clone() {
        tasks.spawn_until_stop("configuration watch", watch::watch(shared.clone(), file));
    }
}
