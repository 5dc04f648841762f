//! A configuration that cannot be applied yet: whoever holds it up finishes, and the newest one is applied by itself.

use std::sync::{Arc, Mutex, OnceLock};

use futures::FutureExt;
use tokio::sync::Semaphore;
use understudy_messages::hooks::{HookContext, HookEvent, HookResult};
use understudy_messages::origin::{ORIGIN_HEADER, Origin};
use understudy_plugins::native::{AsyncHandler, NativeApi, NativePlugin};
use understudy_plugins::registration::HookOptions;
use understudy_tests::gateway::client;

use super::*;
use crate::reload::seen::{counted, moved};

/// Notes the settings that it was made with. It cannot be there twice.
#[derive(Clone, Default)]
struct Single(Arc<Mutex<Vec<Value>>>);

impl Single {
    fn made_with(&self) -> Vec<Value> {
        self.0.lock().expect("whole").clone()
    }
}

impl NativePlugin for Single {
    fn id(&self) -> &str {
        "single"
    }

    fn register(&self, api: &mut NativeApi, settings: &Value) -> Result<(), String> {
        self.0.lock().expect("whole").push(settings["x"].clone());
        let note = |_: &HookEvent, _: &HookContext| Ok(HookResult::None);
        api.on_quick("agent_end", HookOptions::default(), Arc::new(note));
        Ok(())
    }
}

/// A gateway with the plugin, and a lead whose first answer takes this long.
async fn staged(delay: Duration) -> (Single, Place) {
    let single = Single::default();
    staged_as(single.clone(), Arc::new(single), "exclusive", delay).await
}

async fn staged_as(single: Single, plugin: Arc<dyn NativePlugin>, resources: &str, delay: Duration) -> (Single, Place) {
    let hosts = Hosts {
        native: vec![plugin],
        ..Hosts::default()
    };
    let slow = json!({ "answer": { "text": "hi" }, "delay_ms": delay.as_millis() as u64 });
    let plan = json!({ "a/m": { "calls": [slow, { "answer": { "text": "hi" } }], "repeat_last": true } });
    let place = Place::new(plan, "", hosts).await;
    let plugin = place.folder.join("single");
    std::fs::create_dir_all(&plugin).expect("a folder");
    let manifest = format!("{{ id: 'single', host: 'native', resources: '{resources}' }}");
    std::fs::write(plugin.join("openclaw.plugin.json"), manifest).expect("written");
    let reply = place.put(&with(&place, "{ x: 1, y: 1 }")).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(single.made_with().last(), Some(&json!(1)));
    single.0.lock().expect("whole").clear();
    (single, place)
}

/// The configuration in which the plugin has these settings.
fn with(place: &Place, settings: &str) -> String {
    let entry = format!("single: {{ enabled: true, hooks: {{ allowConversationAccess: true }}, config: {settings} }}");
    let plugins = format!("plugins: {{ load_paths: [.], entries: {{ {entry} }} }}\n");
    document(&[place.provider("a", "key-of-a")], &plugins)
}

/// Moves the clock until a reload holds turns.
async fn until_held(place: &Place) {
    let held = async { while place.stage.admin("/readyz").await.status == 200 {} };
    place.stage.in_time(Duration::from_millis(100), held).await;
}

#[tokio::test]
async fn the_order_of_keys_is_no_change_and_serves_without_a_new_instance_case_t18() {
    let (single, place) = staged(Duration::ZERO).await;
    let generation = place.generation().await;
    let before = place.known().await["serving"].clone();
    place.save(&with(&place, "{ y: 1, x: 1 }"));
    place.until(|known| known["serving"] != before).await;
    assert_eq!((place.generation().await, single.made_with().len()), (generation, 0));
    assert_eq!(place.put(&with(&place, "{ y: 1, x: [1, 2] }")).await.status, 200);
    assert_eq!(place.put(&with(&place, "{ y: 1, x: [2, 1] }")).await.status, 200);
    assert_eq!(single.made_with(), [json!([1, 2]), json!([2, 1])]);
}

#[tokio::test]
async fn what_a_turn_holds_up_is_deferred_and_the_newest_is_applied_once_it_has_ended_case_t19_t20_t50() {
    let (single, place) = staged(Duration::from_secs(90)).await;
    let first = place.known().await["serving"].clone();
    let asked = question(false);
    let turn = place.stage.ask(&asked);
    let during = async {
        place.stage.called(&lead(), 1).await;
        place.save(&with(&place, "{ x: 2 }"));
        until_held(&place).await;
        place.stage.clock.advance(Duration::from_secs(61));
        let known = place.until(|known| !known["waiting"].is_null()).await;
        assert_eq!(known["serving"], first);
        let second = known["waiting"].clone();
        assert_eq!(place.stage.admin("/readyz").await.status, 200);
        assert_eq!(place.stage.ask(&question(false)).await.status, 200, "nobody is held");
        place.save(&with(&place, "{ x: 3 }"));
        let known = place.until(|known| known["waiting"] != second).await;
        assert_eq!((&known["serving"], single.made_with().len()), (&first, 0));
        assert_eq!(place.stage.admin("/readyz").await.status, 200);
        place.stage.clock.advance(Duration::from_secs(30));
    };
    let (answered, ()) = tokio::join!(turn, during);
    assert_eq!(answered.status, 200);
    let known = place.until(|known| known["waiting"].is_null()).await;
    assert_ne!(known["serving"], first);
    assert_eq!(single.made_with(), [json!(3)]);
    let of = |outcome| format!("registry_reloads_total{{trigger=\"config_watch\",outcome=\"{outcome}\"}}");
    let admitted = ("registry_admissions_total{result=\"admitted\"}", 2);
    // the first is that of the configuration which this one begins with
    let first = ("registry_reloads_total{trigger=\"api\",outcome=\"applied\"}", 1);
    let expected = [first, admitted, (&of("deferred"), 1), (&of("applied"), 1)];
    assert_eq!(counted(&place.stage).await, moved(&expected));
}

#[tokio::test]
async fn a_change_by_the_api_says_that_it_is_deferred_and_a_second_one_that_it_is_busy_case_t10_t21() {
    let (single, place) = staged(Duration::from_secs(90)).await;
    let asked = question(false);
    let turn = place.stage.ask(&asked);
    let during = async {
        place.stage.called(&lead(), 1).await;
        let text = with(&place, "{ x: 2 }");
        let put = place.put(&text);
        let meanwhile = async {
            until_held(&place).await;
            let busy = place
                .send(Method::PUT, "/admin/v1/config", Some("*"), &with(&place, "{ x: 3 }"))
                .await;
            assert_eq!((busy.status, busy.header("retry-after")), (503, "1"), "{}", busy.text());
            place.stage.clock.advance(Duration::from_secs(61));
        };
        let (reply, ()) = tokio::join!(put, meanwhile);
        assert_eq!(reply.status, 202, "{}", reply.text());
        let told = reply.json();
        assert_eq!((&told["applied"], &told["deferred"]), (&json!(false), &json!(true)));
        assert_eq!(told["error"]["holders"][0]["kind"], "turn");
        assert_eq!((place.saved(), single.made_with().len()), (text, 0));
        place.stage.clock.advance(Duration::from_secs(30));
        told["revision"].clone()
    };
    let (answered, revision) = tokio::join!(turn, during);
    assert_eq!(answered.status, 200);
    place.until(|known| known["serving"] == revision).await;
    assert_eq!(single.made_with(), [json!(2)]);
}

/// Writes the configuration in the midst of its first turn.
#[derive(Clone)]
struct Writes {
    single: Single,
    /// Where, and what.
    write: Arc<OnceLock<(String, String)>>,
    wrote: Arc<Mutex<Option<Reply>>>,
    /// Its turn may end.
    may_end: Arc<Semaphore>,
}

impl NativePlugin for Writes {
    fn id(&self) -> &str {
        "single"
    }

    fn register(&self, api: &mut NativeApi, settings: &Value) -> Result<(), String> {
        let this = self.clone();
        let handler: AsyncHandler = Arc::new(move |_, context, _| {
            let this = this.clone();
            async move {
                let name = context
                    .origin
                    .as_ref()
                    .and_then(Origin::token)
                    .expect("a name")
                    .expose();
                let (url, text) = this.write.get().expect("set before the first turn").clone();
                let request = client().put(url).header("if-match", "*").header(ORIGIN_HEADER, name);
                let reply = read(request.body(text).send().await.expect("a response")).await;
                this.wrote.lock().expect("whole").get_or_insert(reply);
                this.may_end.acquire().await.expect("open").forget();
                Ok(HookResult::None)
            }
            .boxed()
        });
        api.on("before_prompt_build", HookOptions::default(), handler);
        self.single.register(api, settings)
    }
}

#[tokio::test]
async fn what_a_turn_writes_that_it_would_hold_up_itself_is_applied_once_it_has_ended_case_t10() {
    for resources in ["exclusive", "shared"] {
        let plugin = Writes {
            single: Single::default(),
            write: Arc::default(),
            wrote: Arc::default(),
            may_end: Arc::new(Semaphore::new(0)),
        };
        let (single, place) = staged_as(
            plugin.single.clone(),
            Arc::new(plugin.clone()),
            resources,
            Duration::ZERO,
        )
        .await;
        let (url, text) = (place.stage.gateway.admin("/admin/v1/config"), with(&place, "{ x: 2 }"));
        let first = place.known().await["serving"].clone();
        assert!(plugin.write.set((url, text.clone())).is_ok(), "set once");
        let asked = question(false);
        let turn = place.stage.ask(&asked);
        let during = async {
            while plugin.wrote.lock().expect("whole").is_none() {
                tokio::task::yield_now().await;
            }
            let told = plugin.wrote.lock().expect("whole").take().expect("told");
            assert_eq!(told.status, 202, "{}", told.text());
            let told = told.json();
            assert_eq!((&told["applied"], &told["deferred"]), (&json!(false), &json!(true)));
            assert_eq!(place.saved(), text);
            place.stage.clock.advance(Duration::from_secs(5));
            assert_eq!((&place.known().await["serving"], single.made_with().len()), (&first, 0));
            assert_eq!(place.stage.admin("/readyz").await.status, 200, "nobody is held");
            plugin.may_end.add_permits(1);
            told["revision"].clone()
        };
        let (answered, revision) = tokio::join!(turn, during);
        assert_eq!(answered.status, 200);
        place.until(|known| known["serving"] == revision).await;
        assert_eq!(single.made_with(), [json!(2)]);
    }
}

#[tokio::test]
async fn what_is_saved_while_another_is_prepared_supersedes_it_unless_it_is_the_same_case_t22() {
    let (single, place) = staged(Duration::from_secs(40)).await;
    let first = place.known().await["serving"].clone();
    let asked = question(false);
    let turn = place.stage.ask(&asked);
    let during = async {
        place.stage.called(&lead(), 1).await;
        place.save(&with(&place, "{ x: 2 }"));
        until_held(&place).await;
        // the same bytes again, and time enough to see them
        place.save(&with(&place, "{ x: 2 }"));
        place.stage.in_time(Duration::from_millis(100), looked_at(&place)).await;
        assert_eq!(place.stage.admin("/readyz").await.status, 503, "it goes on");
        place.save(&with(&place, "{ x: 30 }"));
        let outcome = [("trigger", "config_watch"), ("outcome", "rolled_back")];
        let superseded = place.stage.counts("understudy_registry_reloads_total", &outcome, 1);
        place.stage.in_time(Duration::from_millis(100), superseded).await;
        assert_eq!(
            (place.known().await["serving"].clone(), single.made_with().len()),
            (first.clone(), 0)
        );
        place.stage.clock.advance(Duration::from_secs(40));
    };
    let (answered, ()) = tokio::join!(turn, during);
    assert_eq!(answered.status, 200);
    place.until(|known| known["serving"] != first).await;
    assert_eq!(single.made_with(), [json!(30)]);
}

/// Three seconds of the gateway's clock: the watcher looks each second.
async fn looked_at(place: &Place) {
    let clock = &place.stage.clock;
    clock.sleep(Duration::from_secs(3)).await;
}
