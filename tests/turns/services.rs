//! Services and routes of plugins over the real app: how they begin and end, and what a reload does that they do not follow.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use serde_json::{Value, json};
use tokio::sync::watch;
use understudy_messages::service::{CallRoute, CallService, RouteAnswer, ServiceTurn};
use understudy_plugins::hosts::Hosts;
use understudy_plugins::native::{NativeApi, NativePlugin};
use understudy_plugins::registration::RouteOptions;
use understudy_providers::sim::Simulator;

use crate::reload::Folder;
use crate::reload::seen::{counted, moved};
use crate::stage::{Reply, Stage, lead, question, read};

/// What a service does when it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    Well,
    Fails,
    /// It waits until it is told to do something else.
    Hangs,
}

/// A plugin with a service and a route, which do as they are told.
#[derive(Clone)]
struct Keeper {
    id: &'static str,
    instances: Arc<AtomicU32>,
    start: Arc<watch::Sender<Does>>,
    stop: Arc<watch::Sender<Does>>,
    route: Arc<watch::Sender<Does>>,
    /// Which instance was asked for what, in order.
    told: Arc<Mutex<Vec<(u32, &'static str)>>>,
}

impl Keeper {
    fn new(id: &'static str) -> Self {
        let does = || Arc::new(watch::Sender::new(Does::Well));
        Self {
            id,
            instances: Arc::default(),
            start: does(),
            stop: does(),
            route: does(),
            told: Arc::default(),
        }
    }

    fn told(&self) -> Vec<(u32, &'static str)> {
        self.told.lock().expect("whole").clone()
    }
}

async fn behave(told: Arc<watch::Sender<Does>>) -> Result<(), String> {
    let mut told = told.subscribe();
    let does = *told
        .wait_for(|does| *does != Does::Hangs)
        .await
        .expect("the test lives");
    match does {
        Does::Fails => Err("as its test wants".to_owned()),
        Does::Well | Does::Hangs => Ok(()),
    }
}

impl NativePlugin for Keeper {
    fn id(&self) -> &str {
        self.id
    }

    fn register(&self, api: &mut NativeApi, _: &Value) -> Result<(), String> {
        let number = self.instances.fetch_add(1, Ordering::SeqCst) + 1;
        let keeper = self.clone();
        let service = move |call: CallService| {
            keeper.told.lock().expect("whole").push((number, call.turn.as_label()));
            let does = match call.turn {
                ServiceTurn::Start => &keeper.start,
                ServiceTurn::Stop => &keeper.stop,
            };
            behave(does.clone()).boxed()
        };
        api.service("poller", Arc::new(service));
        let does = self.route.clone();
        let route = move |call: CallRoute| {
            let does = does.clone();
            async move {
                behave(does).await?;
                let body = json!([
                    number,
                    call.request.method,
                    call.request.path,
                    call.request.headers.get("x-api-key")
                ]);
                RouteAnswer::read(Some(json!({ "body": body }))).map_err(|why| why.to_string())
            }
            .boxed()
        };
        api.route("/hook", &RouteOptions::default(), Arc::new(route));
        Ok(())
    }
}

async fn stage(keepers: &[&Keeper], further: &str) -> Stage {
    let native = keepers
        .iter()
        .map(|&keeper| Arc::new(keeper.clone()) as Arc<dyn NativePlugin>);
    let hosts = Hosts {
        native: native.collect(),
        ..Hosts::default()
    };
    let entries: Vec<String> = keepers
        .iter()
        .map(|keeper| format!("{}: {{ enabled: true }}", keeper.id))
        .collect();
    let configuration = format!("plugins: {{ entries: {{ {} }} }}\n{further}", entries.join(", "));
    let answer = json!({ "answer": { "text": "hi" } });
    let plan = json!({ "a/m": { "calls": [answer], "repeat_last": true } });
    Stage::set_hosting(plan, &configuration, hosts).await
}

async fn reload(stage: &Stage, plugin: &str) -> Reply {
    let path = stage.gateway.admin("/admin/v1/plugins/reload");
    let request = stage.gateway.client().post(path);
    let request = request.header("content-type", "application/json");
    let ask = json!({ "plugins": [plugin] }).to_string();
    read(request.body(ask).send().await.expect("a response")).await
}

/// What operators see of a reload.
async fn phase(stage: &Stage) -> Option<String> {
    let ready = stage.admin("/readyz").await.json();
    ready["pluginReload"]["phase"].as_str().map(str::to_owned)
}

/// Moves the clock, a second at a time, until the reload is in this phase.
async fn until(stage: &Stage, wanted: &str) {
    while phase(stage).await.as_deref() != Some(wanted) {
        stage.clock.advance(Duration::from_secs(1));
    }
}

/// Moves the clock until this has come.
async fn moving<T>(stage: &Stage, coming: impl Future<Output = T>) -> T {
    tokio::pin!(coming);
    loop {
        tokio::select! {
            biased;
            come = &mut coming => return come,
            _ = stage.admin("/livez") => stage.clock.advance(Duration::from_secs(1)),
        }
    }
}

fn error(reply: &Reply) -> (u16, String, bool) {
    let error = &reply.json()["error"];
    let outcome = error["outcome"].as_str().unwrap_or_default().to_owned();
    (reply.status, outcome, error["committed"] == true)
}

#[tokio::test]
async fn a_service_runs_as_long_as_its_instance() {
    let keeper = Keeper::new("keeper");
    {
        let stage = stage(&[&keeper], "").await;
        assert_eq!(keeper.told(), [(1, "start")]);
        let reply = reload(&stage, "keeper").await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert_eq!(keeper.told(), [(1, "start"), (1, "stop"), (2, "start")]);
        let report = stage.admin("/admin/v1/plugins").await.json();
        let plugin = &report["plugins"][0];
        assert_eq!(
            (&plugin["services"], &plugin["routes"]),
            (&json!(["poller"]), &json!(["/hook"]))
        );
    }
    assert_eq!(keeper.told().last(), Some(&(2, "stop")), "it ends with the gateway");
}

#[tokio::test]
async fn a_service_that_does_not_start_at_startup_is_its_plugins_failure_alone() {
    let (keeper, other) = (Keeper::new("keeper"), Keeper::new("other"));
    keeper.start.send_replace(Does::Fails);
    let stage = stage(&[&keeper, &other], "").await;
    assert_eq!(keeper.told(), [(1, "start"), (1, "stop")], "each start owns a stop");
    let report = stage.admin("/admin/v1/plugins").await.json();
    let [failed, loaded] = [&report["plugins"][0], &report["plugins"][1]];
    assert_eq!(
        (&failed["status"], &failed["failure_phase"], &loaded["status"]),
        (&json!("error"), &json!("start"), &json!("loaded"))
    );
    assert_eq!(stage.get("/plugins/keeper/hook").await.status, 503);
    assert_eq!(stage.get("/plugins/other/hook").await.status, 200);
}

#[tokio::test]
async fn a_route_answers_behind_the_clients_key_and_sees_none_of_it() {
    let keeper = Keeper::new("keeper");
    let stage = stage(&[&keeper], "client_keys: [k1]\n").await;
    let path = "/plugins/keeper/hook";
    let with_key = |request: reqwest::RequestBuilder| request.header("x-api-key", "k1");
    assert_eq!(stage.post(path, "", |request| request).await.status, 401);
    let reply = stage.post(path, "{}", with_key).await;
    assert_eq!(
        (reply.status, reply.json()),
        (200, json!([1, "POST", "/hook", null])),
        "{}",
        reply.text()
    );
    for unknown in ["/plugins/keeper", "/plugins/keeper/other", "/plugins/nobody/hook"] {
        assert_eq!(stage.post(unknown, "", with_key).await.status, 404, "{unknown}");
    }
    assert_eq!(stage.post(path, vec![b' '; (1 << 20) + 1], with_key).await.status, 413);
    assert_eq!(stage.post(path, vec![0xff], with_key).await.status, 415);
    keeper.route.send_replace(Does::Fails);
    let failed = stage.post(path, "", with_key).await;
    assert_eq!(failed.status, 502);
    assert!(!failed.text().contains("as its test wants"), "{}", failed.text());
}

#[tokio::test]
async fn a_route_that_hangs_is_given_up_after_fifteen_seconds() {
    let keeper = Keeper::new("keeper");
    let stage = stage(&[&keeper], "").await;
    keeper.route.send_replace(Does::Hangs);
    let began = stage.clock.now();
    let reply = moving(&stage, stage.get("/plugins/keeper/hook")).await;
    assert_eq!(reply.status, 504, "{}", reply.text());
    assert!(stage.clock.now().duration_since(began) >= Duration::from_secs(15));
}

#[tokio::test]
async fn a_reload_waits_for_a_call_of_a_route_and_refuses_new_ones_meanwhile_case_t2() {
    let keeper = Keeper::new("keeper");
    let stage = stage(&[&keeper], "").await;
    keeper.route.send_replace(Does::Hangs);
    let called = stage.get("/plugins/keeper/hook");
    let during = async {
        until_at_work(&stage).await;
        let refused = async {
            while phase(&stage).await.as_deref() != Some("reloading") {}
            // the gate is empty at once, and then the plugin is closed
            let draining = [("plugin", "keeper"), ("state", "draining")];
            while stage
                .gateway
                .scrape()
                .await
                .count("understudy_plugin_instances", &draining)
                == 0
            {}
            let progress = stage.admin("/admin/v1/plugins/reload").await.json();
            let holder = &progress["holders"][0];
            assert_eq!(
                (&holder["kind"], &holder["id"], &holder["plugin"]),
                (&json!("call"), &json!("/hook"), &json!("keeper")),
                "{progress}"
            );
            let ready = stage.admin("/readyz").await.json();
            let reason = ready["pluginReload"]["reason"].as_str().unwrap_or_default().to_owned();
            assert!(reason.contains("Waiting for 1"), "{ready}");
            let refused = stage.get("/plugins/keeper/hook").await;
            keeper.route.send_replace(Does::Well);
            refused
        };
        tokio::join!(reload(&stage, "keeper"), refused)
    };
    let (called, (reloaded, refused)) = tokio::join!(called, during);
    assert_eq!(called.json()[0], 1, "the old instance answers its own call");
    assert_eq!(
        (refused.status, &refused.headers["retry-after"]),
        (503, &"1".parse().expect("a value"))
    );
    assert_eq!(reloaded.status, 200, "{}", reloaded.text());
    assert!(reloaded.text().contains("for 1 that used it"), "{}", reloaded.text());
    assert_eq!(stage.get("/plugins/keeper/hook").await.json()[0], 2);
}

/// It cannot be there twice, and its service runs all the time; only a call is waited for.
#[tokio::test]
async fn a_service_that_runs_delays_no_reload_and_a_call_does_case_t16() {
    for inside in [false, true] {
        let keeper = Keeper::new("keeper");
        let stage = stage(&[&keeper], "").await;
        let began = stage.clock.now();
        let replaced = match inside {
            false => reload(&stage, "keeper").await,
            true => {
                keeper.route.send_replace(Does::Hangs);
                let during = async {
                    until_at_work(&stage).await;
                    let given_up = async {
                        while phase(&stage).await.as_deref() != Some("reloading") {}
                        stage.clock.advance(Duration::from_secs(15));
                    };
                    tokio::join!(reload(&stage, "keeper"), given_up).0
                };
                tokio::join!(stage.get("/plugins/keeper/hook"), during).1
            }
        };
        assert_eq!(replaced.status, 200, "{}", replaced.text());
        let waited = stage.clock.now().duration_since(began) >= Duration::from_secs(15);
        assert_eq!(waited, inside, "the call hangs until it is given up");
        assert_eq!(keeper.told(), [(1, "start"), (1, "stop"), (2, "start")]);
    }
}

/// Waits until the plugin is at work on a call.
async fn until_at_work(stage: &Stage) {
    while stage.admin("/admin/v1/plugins").await.json()["plugins"][0]["calls_in_flight"] == 0 {}
}

#[tokio::test]
async fn a_candidate_whose_service_does_not_start_is_let_go_and_the_old_code_is_put_back_case_t24() {
    let keeper = Keeper::new("keeper");
    let stage = stage(&[&keeper], "").await;
    keeper.start.send_replace(Does::Hangs);
    let during = async {
        until(&stage, "recovering").await;
        assert_eq!(
            keeper.told(),
            [(1, "start"), (1, "stop"), (2, "start")],
            "a start that is under way is waited for before its stop"
        );
        keeper.start.send_replace(Does::Well);
    };
    let (reply, ()) = tokio::join!(reload(&stage, "keeper"), during);
    assert_eq!(error(&reply), (409, "restored".to_owned(), false), "{}", reply.text());
    assert!(reply.text().contains("poller did not start"), "{}", reply.text());
    assert_eq!(reply.json()["error"]["generation"], 2, "old behaviour, new number");
    let told = keeper.told();
    assert_eq!(told[3..], [(2, "stop"), (3, "start")], "{told:?}");
    assert_eq!(stage.get("/plugins/keeper/hook").await.json()[0], 3);
    assert_eq!(stage.admin("/readyz").await.status, 200);
}

/// With a plugin that may be there twice.
async fn shared(keeper: &Keeper) -> (Stage, Folder) {
    let folder = Folder::new("keeper", "{ id: 'keeper', host: 'native', resources: 'shared' }");
    let hosts = Hosts {
        native: vec![Arc::new(keeper.clone())],
        ..Hosts::default()
    };
    let configuration = format!(
        "plugins: {{ {} entries: {{ keeper: {{ enabled: true }} }} }}\n",
        folder.paths()
    );
    let plan = json!({ "a/m": { "calls": [{ "answer": { "text": "hi" } }] } });
    (Stage::set_hosting(plan, &configuration, hosts).await, folder)
}

#[tokio::test]
async fn a_candidate_of_a_shared_plugin_that_does_not_start_changes_nothing_case_t24() {
    let keeper = Keeper::new("keeper");
    let (stage, _folder) = shared(&keeper).await;
    keeper.start.send_replace(Does::Fails);
    let reply = reload(&stage, "keeper").await;
    assert_eq!(
        error(&reply),
        (409, "rolled_back".to_owned(), false),
        "{}",
        reply.text()
    );
    assert_eq!(reply.json()["error"]["generation"], 1);
    assert_eq!(keeper.told(), [(1, "start"), (2, "start"), (2, "stop")]);
    assert_eq!(stage.get("/plugins/keeper/hook").await.json()[0], 1);
}

#[tokio::test]
async fn a_stop_that_takes_too_long_is_joined_and_the_old_code_is_put_back_case_t25() {
    let keeper = Keeper::new("keeper");
    let stage = stage(&[&keeper], "").await;
    keeper.stop.send_replace(Does::Hangs);
    let during = async {
        until(&stage, "recovering").await;
        let ready = stage.admin("/readyz").await;
        assert_eq!(
            (ready.status, &ready.json()["failing"]),
            (503, &json!(["plugin-reload"]))
        );
        assert!(
            ready.json()["pluginReload"]["deadlineAtMs"].is_u64(),
            "{}",
            ready.text()
        );
        assert_eq!(stage.get("/plugins/keeper/hook").await.status, 503);
        keeper.stop.send_replace(Does::Well);
    };
    let (reply, ()) = tokio::join!(reload(&stage, "keeper"), during);
    assert_eq!(error(&reply), (409, "restored".to_owned(), false), "{}", reply.text());
    assert_eq!(keeper.told(), [(1, "start"), (1, "stop"), (2, "start")], "one stop");
    assert_eq!(stage.admin("/readyz").await.status, 200);
}

#[tokio::test]
async fn what_cannot_be_put_back_is_named_until_a_later_reload_succeeds_case_t26() {
    let (keeper, other) = (Keeper::new("keeper"), Keeper::new("other"));
    let stage = stage(&[&keeper, &other], "").await;
    keeper.stop.send_replace(Does::Hangs);
    let (reply, ()) = tokio::join!(reload(&stage, "keeper"), until(&stage, "failed"));
    assert_eq!(error(&reply), (409, "failed".to_owned(), false), "{}", reply.text());
    let ready = stage.admin("/readyz").await;
    let told = &ready.json()["pluginReload"];
    assert_eq!((ready.status, &told["pluginIds"]), (503, &json!(["keeper"])));
    assert!(
        told["reason"].as_str().is_some_and(|advice| advice.contains("reload")),
        "{told}"
    );

    assert_eq!(stage.ask(&question(false)).await.status, 200, "turns go on");
    assert_eq!(stage.get("/plugins/other/hook").await.status, 200);
    assert_eq!(reload(&stage, "other").await.status, 200, "others are replaced");
    assert_eq!(
        phase(&stage).await.as_deref(),
        Some("failed"),
        "and clear nothing by it"
    );

    let busy = reload(&stage, "keeper").await;
    assert_eq!(
        (busy.status, &busy.json()["error"]["retryAfterMs"]),
        (503, &json!(1000))
    );
    keeper.stop.send_replace(Does::Well);
    while reload(&stage, "keeper").await.status == 503 {}
    assert_eq!(stage.admin("/readyz").await.status, 200);
    assert_eq!(stage.get("/plugins/keeper/hook").await.json()[0], 2);
    let own: Vec<_> = keeper.told();
    assert_eq!(own, [(1, "start"), (1, "stop"), (2, "start")], "it was stopped once");
}

const FORCED: &str = "plugin_forced_retirements_total{plugin=\"keeper\"}";

fn api(outcome: &str) -> String {
    format!("registry_reloads_total{{trigger=\"api\",outcome=\"{outcome}\"}}")
}

#[tokio::test]
async fn what_is_put_back_and_what_cannot_be_move_their_own_counters_and_no_other_case_t50_t24_t26() {
    let keeper = Keeper::new("keeper");
    let stage = stage(&[&keeper], "").await;
    keeper.start.send_replace(Does::Hangs);
    let put_back = async {
        until(&stage, "recovering").await;
        keeper.start.send_replace(Does::Well);
    };
    let (reply, ()) = tokio::join!(reload(&stage, "keeper"), put_back);
    assert_eq!(error(&reply).1, "restored", "{}", reply.text());
    // the candidate hung, and was let go by force
    let restored = api("restored");
    let moves = [(&*restored, 1), (FORCED, 1)];
    assert_eq!(counted(&stage).await, moved(&moves));

    keeper.stop.send_replace(Does::Hangs);
    let (reply, ()) = tokio::join!(reload(&stage, "keeper"), until(&stage, "failed"));
    assert_eq!(error(&reply).1, "failed", "{}", reply.text());
    assert_eq!(
        counted(&stage).await,
        moved(&[&moves[..], &[(&api("failed"), 1)]].concat())
    );
    keeper.stop.send_replace(Does::Well);
}

#[tokio::test]
async fn an_instance_that_does_not_let_go_moves_its_own_counter_and_no_other_case_t50_t32() {
    let keeper = Keeper::new("keeper");
    let (stage, _folder) = shared(&keeper).await;
    keeper.stop.send_replace(Does::Hangs);
    let reply = reload(&stage, "keeper").await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    let counted = moving(&stage, async {
        loop {
            let counted = counted(&stage).await;
            if counted.len() > 2 {
                return counted;
            }
        }
    });
    assert_eq!(counted.await, moved(&[(&api("applied"), 1), (FORCED, 1)]));
    keeper.stop.send_replace(Does::Well);
}

#[tokio::test]
async fn a_stop_that_fails_bars_its_plugin_and_no_other_case_t27() {
    let (keeper, other) = (Keeper::new("keeper"), Keeper::new("other"));
    let stage = stage(&[&keeper, &other], "").await;
    keeper.stop.send_replace(Does::Fails);
    let reply = reload(&stage, "keeper").await;
    assert_eq!(error(&reply), (409, "failed".to_owned(), false), "{}", reply.text());
    assert_eq!(keeper.instances.load(Ordering::SeqCst), 1, "nothing took its place");
    assert!(reply.text().contains("of keeper failed"), "{}", reply.text());
    does_not_serve(&stage).await;
    keeper.stop.send_replace(Does::Well);
    let again = reload(&stage, "keeper").await;
    assert_eq!(error(&again), (400, "rejected".to_owned(), false), "{}", again.text());
    assert!(again.text().contains("Restart"), "{}", again.text());
    assert_eq!(reload(&stage, "other").await.status, 200);
    let scrape = stage.gateway.scrape().await;
    let failed = [("trigger", "api"), ("outcome", "failed")];
    assert_eq!(scrape.count("understudy_registry_reloads_total", &failed), 1);
    assert_eq!(keeper.told(), [(1, "start"), (1, "stop")]);
}

/// Wherever operators look, the plugin does not serve.
async fn does_not_serve(stage: &Stage) {
    let report = stage.admin("/admin/v1/plugins").await.json();
    let keeper = &report["plugins"][0];
    assert_eq!(
        (&keeper["status"], &keeper["activated"]),
        (&json!("failed"), &json!(false)),
        "{keeper}"
    );
    assert!(
        keeper["error"].as_str().is_some_and(|why| why.contains("reload")),
        "{keeper}"
    );
    let generations = stage.admin("/admin/v1/generations").await.json();
    assert_eq!(generations["generations"][0]["state"], "failed", "{generations}");
    let scrape = stage.gateway.scrape().await;
    let failed = [("plugin", "keeper"), ("state", "failed")];
    assert_eq!(scrape.count("understudy_plugin_instances", &failed), 1);
    assert_eq!(
        scrape.count("understudy_registry_generations", &[("state", "failed")]),
        1
    );
}

#[tokio::test]
async fn a_changed_configuration_waits_for_a_late_stop_and_serves_then() {
    let keeper = Keeper::new("keeper");
    let folder = crate::reload::Folder::new("keeper", "{ id: 'keeper', host: 'native' }");
    let hosts = Hosts {
        native: vec![Arc::new(keeper.clone())],
        ..Hosts::default()
    };
    let written = |simulator: &Simulator, number: u32| {
        let url = simulator.base_url_of(&lead());
        let entry = format!("keeper: {{ enabled: true, config: {{ number: {number} }} }}");
        format!(
            "listen: {{ api: \"127.0.0.1:0\", admin: \"127.0.0.1:0\" }}\nproviders:\n  \
             a: {{ api: openai-chat, base_url: \"{url}\", api_key: k, models: [m] }}\nplugins: {{ {} entries: {{ {entry} }} }}\n",
            folder.paths()
        )
    };
    let plan = json!({ "a/m": { "calls": [{ "answer": { "text": "hi" } }] } });
    let file = folder.path().join("understudy.yaml");
    let stage = Stage::set_file(plan, &file, |simulator| written(simulator, 1), hosts).await;
    keeper.stop.send_replace(Does::Hangs);
    let during = async {
        until(&stage, "recovering").await;
        assert_eq!(keeper.told(), [(1, "start"), (1, "stop")], "nothing begins beside it");
        keeper.stop.send_replace(Does::Well);
    };
    let put = stage.gateway.client().put(stage.gateway.admin("/admin/v1/config"));
    let put = put.header("if-match", "*").body(written(&stage.simulator, 2)).send();
    let put = async { read(put.await.expect("a response")).await };
    let (reply, ()) = tokio::join!(put, during);
    assert_eq!(
        (reply.status, &reply.json()["applied"]),
        (200, &json!(true)),
        "{}",
        reply.text()
    );
    assert!(
        reply.text().contains("of keeper did not let go in time"),
        "it is said: {}",
        reply.text()
    );
    assert_eq!(keeper.told(), [(1, "start"), (1, "stop"), (2, "start")], "one stop");
    assert_eq!(stage.get("/plugins/keeper/hook").await.json()[0], 2);
    assert_eq!(stage.admin("/readyz").await.status, 200);
}

#[tokio::test]
async fn a_recovery_is_finished_though_whoever_asked_is_gone_case_t28() {
    let keeper = Keeper::new("keeper");
    let stage = stage(&[&keeper], "").await;
    keeper.stop.send_replace(Does::Hangs);
    tokio::select! {
        reply = reload(&stage, "keeper") => panic!("{}", reply.text()),
        () = until(&stage, "recovering") => {}
    }
    keeper.stop.send_replace(Does::Well);
    while stage.admin("/readyz").await.status != 200 {}
    assert_eq!(keeper.told(), [(1, "start"), (1, "stop"), (2, "start")]);
    assert_eq!(stage.get("/plugins/keeper/hook").await.json()[0], 2);
}

#[tokio::test]
async fn a_gateway_that_stops_gives_up_its_reload_and_stops_every_service_once_case_t38() {
    let keeper = Keeper::new("keeper");
    {
        let mut stage = stage(&[&keeper], "").await;
        keeper.route.send_replace(Does::Hangs);
        let client = stage.gateway.client().clone();
        let called = client.get(stage.gateway.api("/plugins/keeper/hook")).send();
        let asked = client.post(stage.gateway.admin("/admin/v1/plugins/reload"));
        let asked = asked.header("content-type", "application/json");
        let asked = asked.body(json!({ "plugins": ["keeper"] }).to_string());
        let during = async {
            until_at_work(&stage).await;
            let stops = async {
                while phase(&stage).await.as_deref() != Some("reloading") {}
                stage.gateway.begin_stop(Duration::ZERO);
            };
            let (asked, ()) = tokio::join!(asked.send(), stops);
            keeper.route.send_replace(Does::Well);
            read(asked.expect("a response")).await
        };
        let (_answered_or_cut_off, reply) = tokio::join!(called, during);
        assert_eq!(error(&reply), (409, "cancelled".to_owned(), false), "{}", reply.text());
    }
    assert_eq!(keeper.told(), [(1, "start"), (1, "stop")], "nothing new began");
}

#[tokio::test]
async fn a_candidate_that_fails_to_let_go_bars_the_old_code_too_case_t24_t27() {
    let keeper = Keeper::new("keeper");
    let stage = stage(&[&keeper], "").await;
    keeper.start.send_replace(Does::Hangs);
    let during = async {
        while !keeper.told().contains(&(2, "start")) {
            let _a_moment = stage.admin("/livez").await;
        }
        keeper.stop.send_replace(Does::Fails);
        keeper.start.send_replace(Does::Fails);
    };
    let (reply, ()) = tokio::join!(reload(&stage, "keeper"), during);
    assert_eq!(error(&reply), (409, "failed".to_owned(), false), "{}", reply.text());
    assert_eq!(keeper.instances.load(Ordering::SeqCst), 2, "nothing was put back");
    let ready = stage.admin("/readyz").await;
    assert_eq!(
        (ready.status, &ready.json()["pluginReload"]["pluginIds"]),
        (503, &json!(["keeper"]))
    );
}
