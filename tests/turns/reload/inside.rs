//! Plugins that ask for their own reload from inside a turn, that panic in one, and that take their time to register.

use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;

use super::*;

/// Asks for its own reload, once, from inside of a turn that it is called in.
#[derive(Clone, Default)]
struct Selfish {
    path: Arc<OnceLock<String>>,
    asked: Arc<AtomicU32>,
    instances: Arc<AtomicU32>,
    /// The instances that finished their handler.
    finished: Arc<Mutex<Vec<u32>>>,
}

impl NativePlugin for Selfish {
    fn id(&self) -> &str {
        "probe"
    }

    fn register(&self, api: &mut NativeApi, _: &Value) -> Result<(), String> {
        let (this, number) = (self.clone(), self.instances.fetch_add(1, Ordering::SeqCst) + 1);
        let handler: AsyncHandler = Arc::new(move |_, _, _| {
            let this = this.clone();
            async move {
                if this.asked.fetch_add(1, Ordering::SeqCst) == 0 {
                    let path = this.path.get().expect("set before the first turn");
                    let request = understudy_tests::gateway::client().post(path);
                    let request = request.header("content-type", "application/json");
                    let asked = request.body(r#"{ "plugins": ["probe"] }"#).send().await;
                    asked.map_err(|error| error.to_string())?;
                }
                this.finished.lock().expect("whole").push(number);
                Ok(HookResult::None)
            }
            .boxed()
        });
        api.on("before_prompt_build", HookOptions::default(), handler);
        Ok(())
    }
}

async fn selfish(further: &str) -> (Selfish, Stage) {
    let plugin = Selfish::default();
    let stage = hosting(vec![Arc::new(plugin.clone())], further, plan(Duration::ZERO), "").await;
    plugin
        .path
        .set(stage.gateway.admin("/admin/v1/plugins/reload"))
        .expect("set once");
    (plugin, stage)
}

/// Over HTTP nobody knows that it is the turn itself that asks. So it waits for itself, and the handler's deadline ends both.
#[tokio::test]
async fn a_plugin_that_waits_for_its_own_reload_gives_it_up_at_its_deadline_case_t9() {
    let folder = Folder::of_exclusive(&["probe"]);
    let (plugin, stage) = selfish(&folder.paths()).await;
    let asked = question(false);
    let during = async {
        until_held(&stage).await;
        let status = stage.admin("/readyz").await;
        assert_eq!(status.json()["failing"], json!(["plugin-reload"]));
        stage.clock.advance(Duration::from_secs(15));
        // the turn goes on at once, and may have ended before anybody hears that whoever asked has hung up
        while ended(&stage, "cancelled").await + ended(&stage, "applied").await == 0 {}
    };
    let (turn, ()) = tokio::join!(stage.ask(&asked), during);
    assert_eq!(turn.status, 200, "the turn goes on: {}", turn.text());
    let serving = if ended(&stage, "applied").await == 0 { 1 } else { 2 };
    assert_eq!(plugin.instances.load(Ordering::SeqCst), serving);
    assert_eq!(generation(&stage).await, u64::from(serving));
    assert_eq!(stage.admin("/readyz").await.status, 200);
    assert_eq!(stage.ask(&question(false)).await.status, 200);
    assert_eq!(*plugin.finished.lock().expect("whole"), [serving], "its second turn");
}

#[tokio::test]
async fn a_shared_plugin_may_ask_for_its_own_reload_and_finishes_the_turn_case_t9() {
    let (plugin, stage) = selfish("").await;
    for _ in 0..2 {
        assert_eq!(stage.ask(&question(false)).await.status, 200);
    }
    assert_eq!(
        *plugin.finished.lock().expect("whole"),
        [1, 2],
        "a turn has one instance"
    );
    assert_eq!(generation(&stage).await, 2);
}

/// Panics in turns of the session that is named so.
struct Panics(Probe);

impl NativePlugin for Panics {
    fn id(&self) -> &str {
        self.0.id
    }

    fn register(&self, api: &mut NativeApi, settings: &Value) -> Result<(), String> {
        let handler: AsyncHandler = Arc::new(|_, context, _| {
            let panics = context.session_key.as_deref() == Some("panics");
            async move {
                assert!(!panics, "as its test wants");
                Ok(HookResult::None)
            }
            .boxed()
        });
        api.on("before_prompt_build", HookOptions::default(), handler);
        self.0.register(api, settings)
    }
}

#[tokio::test]
async fn a_handler_that_panics_fails_its_call_and_the_plugin_comes_back_case_t46() {
    let (panics, bystander) = (Probe::called("panics"), Probe::called("bystander"));
    let plugins: Vec<Arc<dyn NativePlugin>> = vec![Arc::new(Panics(panics.clone())), Arc::new(bystander.clone())];
    let stage = hosting(plugins, "", plan(Duration::ZERO), "").await;
    let asked = question(false);
    let turn = stage
        .ask_as(&asked, |request| request.header("x-session-id", "panics"))
        .await;
    assert_eq!(turn.status, 200, "the turn goes on without it: {}", turn.text());
    while panics.asked_last() != Some(2) {
        stage.clock.advance(Duration::from_millis(100));
        assert_eq!(stage.ask(&question(false)).await.status, 200);
    }
    assert_eq!((bystander.made(), bystander.asked_last()), (1, Some(1)));
    assert_eq!(generation(&stage).await, 1, "a restart is no reload");
}

/// Whose second instance registers only when its test says so, and then fails.
struct Slow {
    probe: Probe,
    began: Arc<AtomicBool>,
    may_end: Mutex<mpsc::Receiver<()>>,
}

impl NativePlugin for Slow {
    fn id(&self) -> &str {
        self.probe.id
    }

    fn register(&self, api: &mut NativeApi, settings: &Value) -> Result<(), String> {
        if self.probe.made() == 1 && !self.began.swap(true, Ordering::SeqCst) {
            let may_end = self.may_end.lock().expect("whole");
            may_end.recv().expect("its test goes on");
            return Err("as its test wants".to_owned());
        }
        self.probe.register(api, settings)
    }
}

#[tokio::test]
async fn a_reload_that_has_stopped_something_is_finished_though_whoever_asked_has_gone_case_t28() {
    let (probe, folder) = (Probe::called("probe"), Folder::of_exclusive(&["probe"]));
    let (ends, may_end) = mpsc::channel();
    let began = Arc::new(AtomicBool::new(false));
    let plugin = Slow {
        probe: probe.clone(),
        began: began.clone(),
        may_end: Mutex::new(may_end),
    };
    let stage = hosting(vec![Arc::new(plugin)], &folder.paths(), plan(Duration::ZERO), "").await;
    let stopped = async {
        while !began.load(Ordering::SeqCst) {
            tokio::task::yield_now().await;
        }
    };
    let ask = json!({ "plugins": ["probe"] });
    tokio::select! {
        reloaded = reload(&stage, &ask) => panic!("it was to wait: {}", reloaded.text()),
        () = stopped => {}
    }
    ends.send(()).expect("it waits");
    while ended(&stage, "restored").await == 0 {}
    assert_eq!(stage.ask(&question(false)).await.status, 200);
    assert_eq!(
        (probe.asked_last(), generation(&stage).await),
        (Some(2), 2),
        "the old code, anew"
    );
}
