//! Tasks that are named, counted and drained, and actors that are started again when they die.
//!
//! actix restarts nothing after a panic and tells nobody. Here every long-lived actor carries an [`EndOfLife`] guard; when
//! it drops, for whatever reason, the watcher starts a new actor from the factory, after a backoff, and publishes its
//! address in the place of the old one.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, Addr, Context};
use futures::FutureExt;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use understudy_messages::clock::Clock;

use crate::telemetry::{Alive, Telemetry};

/// The first wait before an actor is started again; it doubles up to [`RESTART_CAP`].
const RESTART_BACKOFF: Duration = Duration::from_millis(10);
/// The longest wait before an actor is started again.
const RESTART_CAP: Duration = Duration::from_secs(5);
/// An actor that lived this long starts with the shortest backoff again.
const RESTART_FORGET: Duration = Duration::from_secs(60);

/// The kinds of actors, as labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActorKind {
    /// The registry.
    Registry,
    /// A session shard.
    SessionShard,
    /// A provider on one arbiter.
    Provider,
    /// What starts the providers of one arbiter.
    ProviderPool,
}

impl ActorKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Registry, Self::SessionShard, Self::Provider, Self::ProviderPool];

    /// The label's spelling.
    pub const fn as_label(self) -> &'static str {
        match self {
            Self::Registry => "registry",
            Self::SessionShard => "session_shard",
            Self::Provider => "provider",
            Self::ProviderPool => "provider_pool",
        }
    }
}

/// Counts the running tasks of one app, so that shutdown can wait for them.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    tracker: TaskTracker,
    stop: CancellationToken,
}

impl Tasks {
    /// No tasks yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs `future` on the current arbiter. A panic in it is logged under `name` and ends nothing else.
    pub fn spawn(&self, name: &'static str, future: impl Future<Output = ()> + 'static) {
        // combined, not awaited in a block: that would hold the future twice
        let task = AssertUnwindSafe(future).catch_unwind().map(move |ended| {
            if ended.is_err() {
                tracing::error!(task = name, "task panicked");
            }
        });
        let _detached = self.tracker.spawn_local(task);
    }

    /// Runs `future` to its end, whether or not somebody waits for what it returns. Nothing comes when it panics.
    pub fn see_through<T: 'static>(
        &self,
        name: &'static str,
        future: impl Future<Output = T> + 'static,
    ) -> oneshot::Receiver<T> {
        let (told, heard) = oneshot::channel();
        self.spawn(name, async move {
            let _perhaps_nobody_waits = told.send(future.await);
        });
        heard
    }

    /// Runs `future` until the app stops.
    pub fn spawn_until_stop(&self, name: &'static str, future: impl Future<Output = ()> + 'static) {
        let stop = self.stop.clone();
        self.spawn(name, async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = future => {}
            }
        });
    }

    /// How many run.
    pub fn running(&self) -> usize {
        self.tracker.len()
    }

    /// Whether the app is stopping.
    pub fn stopping(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Ends what was spawned until stop, and waits until every task has ended.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }
}

/// Carried by a supervised actor; dropped with it.
pub struct EndOfLife {
    _told: oneshot::Sender<()>,
    _counted: Option<Alive>,
}

#[cfg(test)]
impl EndOfLife {
    /// For an actor that nobody watches.
    pub(crate) fn unwatched() -> Self {
        Self {
            _told: oneshot::channel().0,
            _counted: None,
        }
    }
}

/// What supervision needs to know of its surroundings.
#[derive(Clone)]
pub struct Supervision {
    /// Where tasks are counted.
    pub tasks: Tasks,
    /// The clock of backoffs.
    pub clock: Clock,
    /// Where restarts are booked.
    pub telemetry: Arc<Telemetry>,
}

impl Supervision {
    /// Starts an actor on the current arbiter and keeps one running until the app stops.
    ///
    /// `publish` is told each new address before anything else happens; `start` builds each actor anew.
    pub fn supervise<A>(
        &self,
        kind: ActorKind,
        start: impl Fn(EndOfLife) -> A + 'static,
        publish: impl Fn(Addr<A>) + 'static,
    ) where
        A: Actor<Context = Context<A>>,
    {
        let always = Arc::new(());
        let held = always.clone();
        self.supervise_for(kind, &always, start, move |&(), addr| {
            let _as_long_as_the_app = &held;
            publish(addr);
        });
    }

    /// As [`Supervision::supervise`], for as long as somebody else holds `place`: an actor that ends after that ends for good.
    pub fn supervise_for<A, P>(
        &self,
        kind: ActorKind,
        place: &Arc<P>,
        start: impl Fn(EndOfLife) -> A + 'static,
        publish: impl Fn(&P, Addr<A>) + 'static,
    ) where
        A: Actor<Context = Context<A>>,
        P: 'static,
    {
        let place = Arc::downgrade(place);
        let launch = {
            let (place, telemetry) = (place.clone(), self.telemetry.clone());
            move || {
                let place = place.upgrade()?;
                let (told, ended) = oneshot::channel();
                let life = EndOfLife {
                    _told: told,
                    _counted: Some(telemetry.alive(kind)),
                };
                publish(&place, start(life).start());
                Some(ended)
            }
        };
        let (first, this) = (launch(), self.clone());
        self.tasks.spawn_until_stop("supervision", async move {
            let wanted = || place.strong_count() > 0;
            this.keep_running(kind, first, &wanted, &launch).await;
        });
    }

    async fn keep_running(
        &self,
        kind: ActorKind,
        first: Option<oneshot::Receiver<()>>,
        wanted: &dyn Fn() -> bool,
        launch: &dyn Fn() -> Option<oneshot::Receiver<()>>,
    ) {
        let mut started = first;
        let mut backoff = RESTART_BACKOFF;
        while let Some(ended) = started {
            let born = self.clock.now();
            let _always_dropped = ended.await;
            if !wanted() {
                return;
            }
            if self.clock.now().duration_since(born) >= RESTART_FORGET {
                backoff = RESTART_BACKOFF;
            }
            tracing::error!(actor = kind.as_label(), ?backoff, "actor died, starting it again");
            self.telemetry.restarted(kind);
            self.clock.sleep(backoff).await;
            backoff = (backoff * 2).min(RESTART_CAP);
            started = launch();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use actix::{Handler, Message};

    use super::*;

    #[derive(Message)]
    #[rtype(result = "u32")]
    struct Ask;

    #[derive(Message)]
    #[rtype(result = "()")]
    struct Die;

    struct Fragile {
        life: u32,
        _end: EndOfLife,
    }

    impl Actor for Fragile {
        type Context = Context<Self>;
    }

    impl Handler<Ask> for Fragile {
        type Result = u32;
        fn handle(&mut self, _: Ask, _: &mut Self::Context) -> u32 {
            self.life
        }
    }

    impl Handler<Die> for Fragile {
        type Result = ();
        fn handle(&mut self, _: Die, _: &mut Self::Context) {
            panic!("as asked");
        }
    }

    fn living(actors: u32) -> String {
        format!("understudy_actors{{actor=\"provider\"}} {actors}\n")
    }

    #[actix::test]
    async fn an_actor_that_panicked_is_replaced_by_a_fresh_one() {
        tokio::time::pause();
        let telemetry = Telemetry::new().expect("sound");
        let supervision = Supervision {
            tasks: Tasks::new(),
            clock: Clock::real(),
            telemetry: telemetry.clone(),
        };
        let lives = Rc::new(RefCell::new(Vec::new()));
        let born = Rc::new(RefCell::new(0));
        let (lives_too, born_too) = (lives.clone(), born.clone());
        supervision.supervise(
            ActorKind::Provider,
            move |end| {
                *born_too.borrow_mut() += 1;
                Fragile {
                    life: *born_too.borrow(),
                    _end: end,
                }
            },
            move |addr| lives_too.borrow_mut().push(addr),
        );
        let first = lives.borrow()[0].clone();
        assert_eq!(first.send(Ask).await, Ok(1));
        assert!(first.send(Die).await.is_err());
        while lives.borrow().len() < 2 {
            supervision.clock.sleep(RESTART_BACKOFF).await;
        }
        let second = lives.borrow()[1].clone();
        assert_eq!(second.send(Ask).await, Ok(2));
        let scrape = telemetry.render();
        assert!(
            scrape.contains("understudy_actor_restarts_total{actor=\"provider\"} 1"),
            "{scrape}"
        );
        assert!(scrape.contains(&living(1)), "{scrape}");
    }

    #[actix::test]
    async fn an_actor_whose_place_nobody_holds_any_more_ends_for_good() {
        let telemetry = Telemetry::new().expect("sound");
        let supervision = Supervision {
            tasks: Tasks::new(),
            clock: Clock::real(),
            telemetry: telemetry.clone(),
        };
        let place = Arc::new(std::sync::Mutex::new(None));
        supervision.supervise_for(
            ActorKind::Provider,
            &place,
            |end| Fragile { life: 1, _end: end },
            |place, addr| *place.lock().expect("whole") = Some(addr),
        );
        let addr = place.lock().expect("whole").clone().expect("published");
        assert_eq!(addr.send(Ask).await, Ok(1));
        drop((addr, place));
        // its supervision is the only task there is
        supervision.tasks.tracker.close();
        supervision.tasks.tracker.wait().await;
        let restarts = "understudy_actor_restarts_total{actor=\"provider\"} 0";
        assert!(telemetry.render().contains(restarts));
        assert!(telemetry.render().contains(&living(0)));
        assert_eq!(supervision.tasks.running(), 0);
    }

    #[actix::test]
    async fn a_task_that_panics_ends_nothing_else_and_is_counted_out() {
        let tasks = Tasks::new();
        tasks.spawn("doomed", async { panic!("as asked") });
        let (done, heard) = oneshot::channel();
        tasks.spawn("sound", async move {
            let _ = done.send(());
        });
        heard.await.expect("the sound task ran");
        tasks.stop().await;
    }
}
