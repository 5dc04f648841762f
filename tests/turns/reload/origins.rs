//! Plugins that ask the gateway in the midst of a turn or call, and say in which.

use std::sync::OnceLock;

use reqwest::RequestBuilder;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use understudy_messages::origin::{ORIGIN_HEADER, Origin};
use understudy_messages::service::{CallRoute, RouteAnswer};
use understudy_plugins::registration::RouteOptions;
use understudy_tests::gateway::client;

use super::*;

/// What a plugin asks; it names where it asks from.
type Ask = Box<dyn Fn() -> RequestBuilder + Send + Sync>;

/// Asks the gateway in the midst of its turns, as often as its test wants.
#[derive(Clone)]
struct Asks {
    probe: Probe,
    ask: Arc<OnceLock<Ask>>,
    /// How many more of its turns ask.
    turns: Arc<AtomicU32>,
    /// It is in the midst of a turn.
    inside: Arc<Semaphore>,
    /// It may ask, and then end its handler.
    may: Arc<Semaphore>,
    /// The names that it was told.
    names: Arc<Mutex<Vec<String>>>,
    said: Arc<Mutex<Vec<Reply>>>,
    /// Whether its handler waits for the answer.
    waits: bool,
    asking: Arc<Mutex<JoinSet<()>>>,
}

impl Asks {
    fn new(turns: u32, waits: bool) -> Self {
        let none = || Arc::new(Semaphore::new(0));
        Self {
            probe: Probe::called("probe"),
            ask: Arc::default(),
            turns: Arc::new(AtomicU32::new(turns)),
            inside: none(),
            may: none(),
            names: Arc::default(),
            said: Arc::default(),
            waits,
            asking: Arc::default(),
        }
    }

    async fn staged(&self, resources: &str, further: &str) -> (Stage, Folder) {
        let manifest = format!("{{ id: 'probe', host: 'native', resources: '{resources}' }}");
        let folder = Folder::new("probe", &manifest);
        let mut plan = plan(Duration::ZERO);
        plan["b/m"] = json!({ "calls": [{ "answer": { "text": "hi" } }], "repeat_last": true });
        let stage = hosting(vec![Arc::new(self.clone())], &folder.paths(), plan, further).await;
        (stage, folder)
    }

    fn asks(&self, ask: impl Fn() -> RequestBuilder + Send + Sync + 'static) {
        assert!(self.ask.set(Box::new(ask)).is_ok(), "set once");
    }

    /// Waits until it is in the midst of a turn.
    async fn is_inside(&self) {
        self.inside.acquire().await.expect("open").forget();
    }

    fn statuses(&self) -> Vec<u16> {
        self.said
            .lock()
            .expect("whole")
            .iter()
            .map(|reply| reply.status)
            .collect()
    }

    async fn answered(&self, times: usize) {
        while self.statuses().len() < times {
            tokio::task::yield_now().await;
        }
    }

    async fn ask(self, origin: Option<Origin>) {
        let name = origin.as_ref().and_then(Origin::token).expect("a name").expose();
        let request = self.ask.get().expect("set before the first turn")().header(ORIGIN_HEADER, &name);
        self.names.lock().expect("whole").push(name);
        let said = self.said.clone();
        let asked = async move {
            let reply = read(request.send().await.expect("a response")).await;
            said.lock().expect("whole").push(reply);
        };
        self.inside.add_permits(1);
        self.may.acquire().await.expect("open").forget();
        match self.waits {
            true => asked.await,
            false => drop(self.asking.lock().expect("whole").spawn(asked)),
        }
        self.may.acquire().await.expect("open").forget();
    }
}

impl NativePlugin for Asks {
    fn id(&self) -> &str {
        "probe"
    }

    fn register(&self, api: &mut NativeApi, settings: &Value) -> Result<(), String> {
        let this = self.clone();
        let handler: AsyncHandler = Arc::new(move |_, context, _| {
            let (this, fewer) = (this.clone(), |left: u32| left.checked_sub(1));
            let asks = this
                .turns
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, fewer)
                .is_ok();
            async move {
                if asks {
                    this.ask(context.origin.clone()).await;
                }
                Ok(HookResult::None)
            }
            .boxed()
        });
        api.on("before_prompt_build", HookOptions::default(), handler);
        let this = self.clone();
        let route = move |call: CallRoute| {
            let this = this.clone();
            async move {
                let seen = call.request.headers.contains_key(ORIGIN_HEADER);
                this.ask(call.request.origin).await;
                RouteAnswer::read(Some(json!({ "body": seen }))).map_err(|why| why.to_string())
            }
            .boxed()
        };
        api.route("/ask", &RouteOptions::default(), Arc::new(route));
        self.probe.register(api, settings)
    }
}

/// A reload of the plugin, as it asks for it.
fn reload_of(stage: &Stage, ask: Value) -> impl Fn() -> RequestBuilder + Send + Sync + use<> {
    let path = stage.gateway.admin("/admin/v1/plugins/reload");
    move || {
        let request = client().post(&path).header("content-type", "application/json");
        request.body(ask.to_string())
    }
}

/// A turn for this model and agent, as it asks for it.
fn turn_for(stage: &Stage, model: &str, agent: &'static str) -> impl Fn() -> RequestBuilder + Send + Sync + use<> {
    let (path, asked) = (stage.gateway.api("/v1/chat/completions"), asks(model));
    move || {
        client()
            .post(&path)
            .header("x-understudy-agent", agent)
            .body(asked.to_string())
    }
}

fn asks(model: &str) -> Value {
    json!({ "model": model, "messages": [{ "role": "user", "content": "hi" }] })
}

const AGENTS: &str = "agents: { first: { model: main }, second: { model: main } }\n";

/// Turns that were admitted, held and refused.
async fn admissions(stage: &Stage) -> [u64; 3] {
    let scrape = stage.gateway.scrape().await;
    ["admitted", "held", "refused"]
        .map(|result| scrape.count("understudy_registry_admissions_total", &[("result", result)]))
}

/// Waits until no turn is inside any more.
async fn until_left(stage: &Stage) {
    let turns = [("generation", "serving"), ("kind", "turn")];
    while stage.gateway.scrape().await.count("understudy_registry_leases", &turns) > 0 {}
}

#[tokio::test]
async fn a_plugin_cannot_replace_itself_in_the_midst_of_its_turn_and_may_after_it_case_t9() {
    for (resources, wait) in [("exclusive", false), ("exclusive", true), ("shared", false)] {
        let plugin = Asks::new(1, true);
        let (stage, _folder) = plugin.staged(resources, "").await;
        let ask = json!({ "plugins": ["probe"], "wait": wait });
        plugin.asks(reload_of(&stage, ask.clone()));
        plugin.may.add_permits(2);
        let turn = stage.ask(&question(false)).await;
        assert_eq!(turn.status, 200, "the turn goes on: {}", turn.text());
        let refused = plugin.said.lock().expect("whole").remove(0);
        let error = &refused.json()["error"];
        assert_eq!(
            (refused.status, &error["outcome"], &error["phase"], &error["committed"]),
            (400, &json!("rejected"), &json!("prepare"), &json!(false))
        );
        let told = refused.text();
        assert!(
            told.contains("cannot replace itself") && told.contains("Try again after the call"),
            "{told}"
        );
        let name = plugin.names.lock().expect("whole").remove(0);
        assert!(!told.contains(&name), "whoever reads logs could name it");
        assert_eq!(admissions(&stage).await, [1, 0, 0], "nobody was held");
        assert_eq!((plugin.probe.made(), generation(&stage).await), (1, 1));
        until_left(&stage).await;
        assert_eq!(reload(&stage, &ask).await.status, 200);
        assert_eq!(plugin.probe.made(), 2);
    }
}

#[tokio::test]
async fn a_plugin_cannot_replace_itself_in_the_midst_of_a_request_to_its_route_case_t9() {
    let plugin = Asks::new(0, true);
    let (stage, _folder) = plugin.staged("exclusive", "").await;
    plugin.asks(reload_of(&stage, json!({ "plugins": ["probe"] })));
    plugin.may.add_permits(2);
    let answered = stage
        .post("/plugins/probe/ask", "", |request| {
            request.header(ORIGIN_HEADER, "0".repeat(32))
        })
        .await;
    assert_eq!(
        (answered.status, answered.text()),
        (200, "false".to_owned()),
        "it is told its own alone"
    );
    assert_eq!((plugin.statuses(), plugin.probe.made()), (vec![400], 1));
}

#[tokio::test]
async fn a_turn_that_a_turn_asks_for_runs_beside_it_while_a_reload_waits_for_both_case_t11() {
    let plugin = Asks::new(1, true);
    let (stage, _folder) = plugin.staged("exclusive", "").await;
    plugin.asks(turn_for(&stage, "main", "default"));
    let asked = question(false);
    let turn = stage.ask(&asked);
    let during = async {
        plugin.is_inside().await;
        let moves = async {
            until_held(&stage).await;
            plugin.may.add_permits(1);
            plugin.answered(1).await;
            assert_eq!(stage.admin("/readyz").await.status, 503, "the reload goes on");
            plugin.may.add_permits(1);
        };
        let ask = json!({ "plugins": ["probe"] });
        tokio::join!(reload(&stage, &ask), moves).0
    };
    let (turn, reloaded) = tokio::join!(turn, during);
    assert_eq!((turn.status, reloaded.status), (200, 200), "{}", reloaded.text());
    assert_eq!(plugin.statuses(), [200]);
    assert_eq!(admissions(&stage).await, [2, 0, 0], "nobody was held");
    let turns = plugin.probe.turns();
    assert_eq!(turns.len(), 2, "{turns:?}");
    assert!(
        turns.iter().all(|turn| plugin.probe.seen_by(turn) == [1]),
        "the old generation served both"
    );
    assert_eq!((plugin.probe.made(), generation(&stage).await), (2, 2));
}

#[tokio::test]
async fn a_turn_of_another_agent_or_for_anothers_model_is_held_until_after_case_t12() {
    for (model, agent) in [("main", "second"), ("b/m", "first")] {
        let plugin = Asks::new(1, false);
        let (stage, _folder) = plugin.staged("exclusive", AGENTS).await;
        plugin.asks(turn_for(&stage, model, agent));
        let asked = question(false);
        let turn = stage.ask_as(&asked, |request| request.header("x-understudy-agent", "first"));
        let during = async {
            plugin.is_inside().await;
            let moves = async {
                until_held(&stage).await;
                plugin.may.add_permits(1);
                let held = [("result", "held")];
                stage.counts("understudy_registry_admissions_total", &held, 1).await;
                assert!(plugin.statuses().is_empty(), "{model} of {agent} waits");
                plugin.may.add_permits(1);
            };
            let ask = json!({ "plugins": ["probe"] });
            tokio::join!(reload(&stage, &ask), moves).0
        };
        let (turn, reloaded) = tokio::join!(turn, during);
        assert_eq!((turn.status, reloaded.status), (200, 200), "{}", reloaded.text());
        plugin.answered(1).await;
        assert_eq!(plugin.statuses(), [200]);
        let turns = plugin.probe.turns();
        let seen: Vec<_> = turns.iter().map(|turn| plugin.probe.seen_by(turn)).collect();
        assert_eq!(seen, [[1], [2]], "it runs on the new one");
    }
}

#[tokio::test]
async fn the_name_of_a_turn_that_has_ended_is_none() {
    let plugin = Asks::new(1, true);
    let (stage, _folder) = plugin.staged("exclusive", "").await;
    plugin.asks(turn_for(&stage, "main", "default"));
    plugin.may.add_permits(2);
    assert_eq!(stage.ask(&question(false)).await.status, 200);
    until_left(&stage).await;
    let name = plugin.names.lock().expect("whole").remove(0);
    let again = reload_of(&stage, json!({ "plugins": ["probe"] }))();
    let reply = read(again.header(ORIGIN_HEADER, &name).send().await.expect("a response")).await;
    assert_eq!(reply.status, 200, "{}", reply.text());

    plugin.turns.store(1, Ordering::SeqCst);
    let (asked, ask) = (question(false), json!({ "plugins": ["probe"] }));
    let named = |name: String| stage.ask_as(&asked, move |request| request.header(ORIGIN_HEADER, name));
    let during = async {
        // once for each of its two turns
        plugin.is_inside().await;
        plugin.is_inside().await;
        let living = plugin.names.lock().expect("whole")[0].clone();
        let moves = async {
            until_held(&stage).await;
            let lent = async {
                let held = [("result", "held")];
                stage.counts("understudy_registry_admissions_total", &held, 1).await;
                assert_eq!(named(living).await.status, 200, "it lives");
                assert_eq!(stage.admin("/readyz").await.status, 503, "the reload goes on");
                plugin.may.add_permits(2);
            };
            tokio::join!(named(name), lent).0
        };
        tokio::join!(reload(&stage, &ask), moves)
    };
    let (turn, (reloaded, held)) = tokio::join!(stage.ask(&asked), during);
    assert_eq!((turn.status, reloaded.status, held.status), (200, 200, 200));
    let last = plugin.probe.turns();
    assert_eq!(
        plugin.probe.seen_by(last.last().expect("some")),
        [3],
        "it ran after the reload"
    );
}

#[tokio::test]
async fn turns_that_ask_for_turns_without_an_end_are_refused_at_some_depth() {
    let plugin = Asks::new(u32::MAX, true);
    let (stage, _folder) = plugin.staged("exclusive", "").await;
    plugin.asks(turn_for(&stage, "main", "default"));
    plugin.may.add_permits(1000);
    assert_eq!(stage.ask(&question(false)).await.status, 200);
    let said = plugin.said.lock().expect("whole");
    let refused = said.iter().filter(|reply| reply.status != 200).collect::<Vec<_>>();
    assert_eq!((said.len(), refused.len()), (9, 1), "the ninth is too deep");
    assert_eq!(
        (refused[0].status, &refused[0].json()["error"]["code"]),
        (400, &json!("nested_too_deep"))
    );
}

#[tokio::test]
async fn nothing_of_an_origin_goes_to_a_provider() {
    let plugin = Asks::new(1, true);
    let (stage, _folder) = plugin.staged("shared", "").await;
    plugin.asks(turn_for(&stage, "main", "default"));
    plugin.may.add_permits(2);
    assert_eq!(stage.ask(&question(false)).await.status, 200);
    let name = plugin.names.lock().expect("whole").remove(0);
    let heard = stage.simulator.journal().read(|entries| {
        let lead = lead();
        let calls = entries.records_of(&lead).map(|call| format!("{call:?}"));
        calls.collect::<String>()
    });
    assert_eq!(stage.calls(&lead()), 2);
    assert!(!heard.contains(&name) && !heard.contains(ORIGIN_HEADER));
}

/// Asks for its own reload at the address that its user tells it.
#[cfg(feature = "js")]
const SELFISH: &str = "export function register(api) {
    api.on('before_prompt_build', async (event) => {
        const headers = { 'content-type': 'application/json' };
        const reply = await fetch(event.prompt, { method: 'POST', headers, body: '{\"plugins\":[\"probe\"]}' });
        return { prependContext: `${reply.status}: ${await reply.text()}` };
    });
}";

#[cfg(feature = "js")]
#[tokio::test]
async fn what_javascript_fetches_from_the_gateway_itself_says_from_which_turn_case_t9() {
    let folder = Folder::new("probe", "{ id: 'probe', main: 'index.js', resources: 'exclusive' }");
    std::fs::write(folder.path().join("probe/index.js"), SELFISH).expect("written");
    let access = "hooks: { allowConversationAccess: true }, grants: { fetch: ['*'] }";
    let configuration = format!(
        "plugins: {{ {} entries: {{ probe: {{ enabled: true, {access} }} }} }}\n",
        folder.paths()
    );
    let stage = Stage::set_with(plan(Duration::ZERO), &configuration).await;
    let path = stage.gateway.admin("/admin/v1/plugins/reload");
    let asked = json!({ "model": "main", "messages": [{ "role": "user", "content": path }] });
    assert_eq!(stage.ask(&asked).await.status, 200);
    let told = String::from_utf8_lossy(&stage.bodies(&lead())[0]).into_owned();
    assert!(
        told.contains("400: ") && told.contains("cannot replace itself"),
        "{told}"
    );
    assert_eq!(generation(&stage).await, 1);
}
