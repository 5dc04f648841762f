//! The keeper at work, on a paused clock.

use std::sync::atomic::AtomicBool;

use super::*;

/// How a list is made.
type Make = Box<dyn Fn(Progress, CancellationToken) -> Listed + Send + Sync>;

/// A plugin that lists.
pub(super) struct Source {
    plugin: Name,
    asked: AtomicUsize,
    make: Make,
}

impl Source {
    pub(super) fn of(
        plugin: &str,
        make: impl Fn(Progress, CancellationToken) -> Listed + Send + Sync + 'static,
    ) -> Self {
        Self {
            plugin: plugin.into(),
            asked: AtomicUsize::new(0),
            make: Box::new(make),
        }
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

impl CatalogSource for Source {
    fn plugin(&self) -> Option<Name> {
        Some(self.plugin.clone())
    }

    fn list(&self, progress: Progress, cancel: CancellationToken) -> Listed {
        self.asked.fetch_add(1, Ordering::Relaxed);
        (self.make)(progress, cancel)
    }
}

/// Notes that it was let go.
struct Gone(Arc<AtomicBool>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A keeper, and one provider whose list it looks at.
struct Scene {
    published: Arc<Published>,
    source: Arc<Source>,
    supervision: Supervision,
}

impl Scene {
    fn set(source: Source) -> Self {
        tokio::time::pause();
        let scene = Self {
            published: Arc::default(),
            source: Arc::new(source),
            supervision: Supervision {
                tasks: Tasks::new(),
                clock: Clock::real(),
                telemetry: Telemetry::new().expect("sound"),
            },
        };
        scene.serve(&Catalogs::default());
        let keeper = CatalogKeeper::new(scene.published.clone(), scene.supervision.clone());
        scene.supervision.tasks.spawn_until_stop("catalogs", keeper.run());
        scene
    }

    /// Publishes a generation after one with these catalogs.
    fn serve(&self, before: &Catalogs) {
        let source: Arc<dyn CatalogSource> = self.source.clone();
        let sources = PluginSources::from([("open".into(), source)]);
        let settings = listed("k");
        let catalogs = Catalogs::new(&settings, &sources, before, self.supervision.clock.now());
        serve(&self.published, settings, catalogs);
    }

    fn catalog(&self) -> Arc<Catalog> {
        let serving = self.published.load().expect("serves");
        serving.roster.catalogs().find("open").expect("is asked").clone()
    }

    fn view(&self) -> CatalogView {
        self.catalog().view(self.supervision.clock.now())
    }

    async fn wait(&self, seconds: u64) {
        self.supervision.clock.sleep(Duration::from_secs(seconds)).await;
        // whoever was woken by that time has its turn
        for _ in 0..8 {
            tokio::task::yield_now().await;
        }
    }

    fn ask(&self) {
        assert!(self.published.refresh_catalog("open", self.supervision.clock.now()));
    }
}

fn at_once(progress: &Progress) -> Listed {
    progress.note(Stage::Discovery);
    Box::pin(std::future::ready(Ok(listing(&[("m", None)]))))
}

#[actix::test]
async fn a_plugin_without_progress_is_given_up_and_not_tried_again_case_t49() {
    let gone = Arc::new(AtomicBool::new(false));
    let held = gone.clone();
    let scene = Scene::set(Source::of("lab", move |_, _| {
        let gone = Gone(held.clone());
        Box::pin(async move {
            let _held = gone;
            std::future::pending().await
        })
    }));
    scene.wait(179).await;
    assert_eq!((scene.view().state, gone.load(Ordering::Relaxed)), ("admitting", false));
    scene.wait(2).await;
    let view = scene.view();
    assert_eq!(view.failure.as_deref(), Some("lab made no progress at admission"));
    assert!(gone.load(Ordering::Relaxed), "whoever listed is let go");
    scene.wait(24 * 3600).await;
    assert_eq!((scene.source.asked(), view.again_in), (1, None));
    scene.ask();
    scene.wait(1).await;
    assert_eq!(scene.source.asked(), 2, "somebody asked");
    let stalled = "understudy_catalog_refreshes_total{provider=\"open\",outcome=\"stalled\"} 1";
    let scrape = scene.supervision.telemetry.render();
    assert!(scrape.contains(stalled), "{scrape}");
}

#[actix::test]
async fn a_plugin_that_gets_on_every_100_s_is_waited_for_10_minutes_case_t49() {
    let scene = Scene::set(Source::of("lab", |progress, _| {
        Box::pin(async move {
            for _ in 0..6 {
                Clock::real().sleep(Duration::from_secs(100)).await;
                progress.note(Stage::Admission);
            }
            progress.note(Stage::Discovery);
            Ok(listing(&[("m", Some(8))]))
        })
    }));
    scene.wait(599).await;
    assert_eq!(scene.view().state, "admitting");
    scene.wait(2).await;
    let view = scene.view();
    assert_eq!((view.state, view.models, view.failure), ("idle", 1, None));
}

#[actix::test]
async fn a_look_that_is_asked_for_while_a_reload_drains_waits_for_its_end_case_t15() {
    let scene = Scene::set(Source::of("lab", |progress, _| at_once(&progress)));
    scene.wait(1).await;
    assert_eq!(scene.view().version, 1);
    reloading(&scene.published, true);
    scene.ask();
    scene.wait(600).await;
    assert_eq!(
        (scene.source.asked(), scene.view().version),
        (1, 1),
        "held, and readable"
    );
    reloading(&scene.published, false);
    scene.wait(1).await;
    assert_eq!((scene.source.asked(), scene.view().version), (2, 2));
}

#[actix::test]
async fn a_list_that_comes_while_a_reload_is_under_way_is_taken_after_it_case_t15() {
    let scene = Scene::set(Source::of("lab", |progress, _| {
        progress.note(Stage::Discovery);
        Box::pin(async {
            Clock::real().sleep(Duration::from_secs(10)).await;
            Ok(listing(&[("m", None)]))
        })
    }));
    scene.wait(5).await;
    reloading(&scene.published, true);
    scene.wait(300).await;
    assert_eq!((scene.view().state, scene.view().version), ("arrived", 0));
    reloading(&scene.published, false);
    scene.wait(1).await;
    assert_eq!((scene.view().state, scene.view().version), ("idle", 1));
}

#[actix::test]
async fn whoever_reads_what_was_withdrawn_waits_for_the_next_and_leaves_alone_case_t14() {
    let scene = Scene::set(Source::of("lab", |progress, _| at_once(&progress)));
    scene.wait(1).await;
    reloading(&scene.published, true);
    let read = scene.published.listed().await.expect("serves");
    assert_eq!(
        read.roster.names().iter().filter(|(name, _)| name == "open/m").count(),
        1,
        "at once"
    );
    read.roster.catalogs().withdraw(&["lab".into()]);
    let now = scene.supervision.clock.now();
    let leaves = scene
        .supervision
        .clock
        .timeout_at(now + Duration::from_secs(5), scene.published.listed());
    let stays = scene.published.listed();
    let replaced = async {
        scene.wait(60).await;
        scene.serve(read.roster.catalogs());
    };
    let (left, stayed, ()) = tokio::join!(leaves, stays, replaced);
    assert!(left.is_err());
    let stayed = stayed.expect("serves");
    assert!(!Arc::ptr_eq(&stayed, &read));
    assert!(!stayed.roster.catalogs().is_withdrawn());
}

#[actix::test]
async fn nobody_waits_for_what_nobody_brings() {
    let scene = Scene::set(Source::of("lab", |progress, _| at_once(&progress)));
    scene.wait(1).await;
    scene
        .published
        .load()
        .expect("serves")
        .roster
        .catalogs()
        .withdraw(&["lab".into()]);
    let read = scene.published.listed().await.expect("serves");
    assert!(read.roster.catalogs().is_withdrawn(), "no reload is under way");
}

#[actix::test]
async fn reading_asks_nobody() {
    let scene = Scene::set(Source::of("lab", |progress, _| at_once(&progress)));
    scene.wait(3 * 3600 - 60).await;
    let asked = scene.source.asked();
    assert_eq!(asked, 3, "as often as it is no longer good");
    for _ in 0..1000 {
        let read = scene.published.listed().await.expect("serves");
        let _seen = (read.roster.names(), read.roster.cast("open/m", None), scene.view());
    }
    scene.wait(30).await;
    assert_eq!(scene.source.asked(), asked);
}

#[actix::test]
async fn a_source_that_panics_has_failed_like_any_other_and_is_asked_again() {
    let scene = Scene::set(Source::of("lab", |_, _| Box::pin(async { panic!("as asked") })));
    scene.wait(1).await;
    let view = scene.view();
    assert_eq!((view.state, view.failures), ("failed", 1));
    scene.wait(30).await;
    assert_eq!(scene.source.asked(), 2);
}

#[actix::test]
async fn a_look_at_what_nobody_serves_any_more_is_given_up() {
    let gone = Arc::new(AtomicBool::new(false));
    let held = gone.clone();
    let scene = Scene::set(Source::of("lab", move |_, _| {
        let gone = Gone(held.clone());
        Box::pin(async move {
            let _held = gone;
            std::future::pending().await
        })
    }));
    scene.wait(1).await;
    serve(&scene.published, settings(), Catalogs::default());
    scene.wait(1).await;
    assert!(gone.load(Ordering::Relaxed));
}
