//! Listening: one port shared by all upstreams, and one for each upstream that plays with connects.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use understudy_messages::clock::{Clock, Instant};

use super::call::Connect;
use super::connect::{OpenPort, Port};
use super::connection::Connection;
use super::stage::{Door, Stage, Upstream};

/// How long an accept that failed (no file descriptor left) is not tried again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// Tasks that all end when one word is given. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tasks {
    tracker: TaskTracker,
    stop: CancellationToken,
}

impl Tasks {
    /// Runs a future until it ends or the word is given.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.tracker.spawn(async move {
            stop.run_until_cancelled_owned(task).await;
        });
    }

    /// Gives the word.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
        self.tracker.close();
    }

    /// Waits until all have ended.
    pub(crate) async fn ended(&self) {
        self.tracker.wait().await;
    }
}

/// Serves the shared port for ever.
pub(crate) async fn serve_shared(stage: Arc<Stage>, listener: TcpListener, tasks: Tasks) {
    loop {
        let accepted = async { Ok(listener.accept().await?.0) };
        if let Some((stream, permit)) = next_connection(&stage, accepted).await {
            let connection = Connection::new(Arc::clone(&stage), stream);
            tasks.spawn(async move {
                connection.serve(None).await;
                drop(permit);
            });
        }
    }
}

/// An upstream's own port with what it is doing.
pub(crate) struct OwnPort {
    stage: Arc<Stage>,
    upstream: Arc<Upstream>,
    port: Port,
    open: OpenPort,
    connect: Connect,
}

impl OwnPort {
    /// The port, doing what the upstream's first call says.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub(crate) async fn open(stage: Arc<Stage>, upstream: Arc<Upstream>, port: Port) -> io::Result<Self> {
        let (drawn, stance) = upstream.stance(&stage.journal);
        let connect = stance.connect;
        let open = port.open(connect, &stage.clock).await?;
        upstream.show(Door { drawn, connect });
        Ok(Self {
            stage,
            upstream,
            port,
            open,
            connect,
        })
    }

    /// Serves for ever; follows the script from call to call and through its schedule.
    pub(crate) async fn serve(mut self, tasks: Tasks) {
        let mut draws = self.upstream.draws();
        loop {
            draws.mark_unchanged();
            let until = self.follow().await;
            let accepted = tokio::select! {
                _ = draws.changed() => continue,
                () = sleep_until(&self.stage.clock, until) => continue,
                accepted = next_connection(&self.stage, self.open.accept()) => accepted,
            };
            if let Some((stream, permit)) = accepted {
                let connection = Connection::new(Arc::clone(&self.stage), stream);
                let door = self.upstream.door();
                tasks.spawn(async move {
                    connection.serve(door).await;
                    drop(permit);
                });
            }
        }
    }

    /// Makes the port do what the script says now; until when, if a schedule says more.
    async fn follow(&mut self) -> Option<Instant> {
        let clock = &self.stage.clock;
        let (drawn, stance) = self.upstream.stance(&self.stage.journal);
        if stance.connect != self.connect {
            self.open = OpenPort::Refusing;
            self.connect = Connect::Refuse;
            match self.port.open(stance.connect, clock).await {
                Ok(open) => {
                    self.open = open;
                    self.connect = stance.connect;
                }
                Err(error) => {
                    tracing::warn!(%error, port = self.port.address.port(), "port cannot be opened");
                }
            }
        }
        self.upstream.show(Door {
            drawn,
            connect: self.connect,
        });
        let until = stance.until?;
        Some(self.stage.journal.started() + until)
    }
}

/// Accepts when there is room; `None` after a failure, with a pause.
async fn next_connection(
    stage: &Stage,
    accepted: impl Future<Output = io::Result<TcpStream>>,
) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let permit = Arc::clone(&stage.room).acquire_owned().await.ok()?;
    match accepted.await {
        Ok(stream) => Some((stream, permit)),
        Err(error) => {
            tracing::warn!(%error, "accept failed");
            stage.clock.sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}

async fn sleep_until(clock: &Clock, until: Option<Instant>) {
    match until {
        Some(until) => clock.sleep_until(until).await,
        None => std::future::pending().await,
    }
}
