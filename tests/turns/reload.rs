//! Plugins replaced while turns run, over the real app.

pub(crate) mod seen;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use serde_json::{Value, json};
use understudy_messages::hooks::{HookContext, HookEvent, HookResult};
use understudy_plugins::hosts::Hosts;
use understudy_plugins::native::{AsyncHandler, NativeApi, NativePlugin};
use understudy_plugins::registration::HookOptions;

use crate::stage::{Reply, Stage, lead, question, read};

mod blast;
mod inside;
mod let_go;
mod lists;
mod origins;
mod refused;
mod retained;
mod waits;

/// What was told to which instance: its number, the turn, the hook.
type Told = Arc<Mutex<Vec<(u32, String, &'static str)>>>;

/// Numbers its instances, and notes which of them is told what.
#[derive(Clone)]
struct Probe {
    id: &'static str,
    instances: Arc<AtomicU32>,
    /// How many of its next instances do not register.
    fails: Arc<AtomicU32>,
    told: Told,
    /// Whether its instance is called by message: then one that is closed or stopped is told nothing.
    by_message: bool,
}

/// The hooks that it hears.
const HEARD: [&str; 5] = [
    "before_prompt_build",
    "model_call_started",
    "model_call_ended",
    "agent_end",
    "gateway_stop",
];

impl Probe {
    fn new(id: &'static str) -> Self {
        Self {
            id,
            instances: Arc::default(),
            fails: Arc::default(),
            told: Arc::default(),
            by_message: false,
        }
    }

    /// One whose instance is called by message.
    fn called(id: &'static str) -> Self {
        Self {
            by_message: true,
            ..Self::new(id)
        }
    }

    fn made(&self) -> u32 {
        self.instances.load(Ordering::SeqCst)
    }

    /// Which instance was told what, in a turn.
    fn told_in(&self, turn: &str) -> Vec<(u32, &'static str)> {
        let told = self.told.lock().expect("whole");
        let of_turn = told.iter().filter(|(_, run, _)| run == turn);
        of_turn.map(|(instance, _, hook)| (*instance, *hook)).collect()
    }

    /// The instance that was asked for the last prompt.
    fn asked_last(&self) -> Option<u32> {
        let told = self.told.lock().expect("whole");
        let prompts = told.iter().rev().find(|(_, _, hook)| *hook == HEARD[0]);
        prompts.map(|(instance, ..)| *instance)
    }

    /// The instances that a turn's hooks saw.
    fn seen_by(&self, turn: &str) -> Vec<u32> {
        let told = self.told.lock().expect("whole");
        let mut seen: Vec<u32> = told
            .iter()
            .filter(|(_, run, _)| run == turn)
            .map(|(instance, ..)| *instance)
            .collect();
        seen.sort_unstable();
        seen.dedup();
        seen
    }

    fn turns(&self) -> Vec<String> {
        let told = self.told.lock().expect("whole");
        let mut turns: Vec<String> = Vec::new();
        for (_, run, _) in told.iter() {
            // nobody waits for those who are told of a turn's end: they may hear of it within the next turn
            if !run.is_empty() && !turns.contains(run) {
                turns.push(run.clone());
            }
        }
        turns
    }
}

impl NativePlugin for Probe {
    fn id(&self) -> &str {
        self.id
    }

    fn register(&self, api: &mut NativeApi, _: &Value) -> Result<(), String> {
        let fails = |left: u32| left.checked_sub(1);
        if self
            .fails
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, fails)
            .is_ok()
        {
            return Err("as its test wants".to_owned());
        }
        let number = self.instances.fetch_add(1, Ordering::SeqCst) + 1;
        for hook in HEARD {
            let told = self.told.clone();
            let note = move |event: &HookEvent, context: &HookContext| {
                let run = context.run_id.clone().unwrap_or_default();
                told.lock().expect("whole").push((number, run, event.hook().as_label()));
                Ok(HookResult::None)
            };
            match self.by_message {
                false => api.on_quick(hook, HookOptions::default(), Arc::new(note)),
                true => {
                    let note = Arc::new(note);
                    let handler: AsyncHandler = Arc::new(move |event, context, _| {
                        let note = note.clone();
                        async move { note(&event, &context) }.boxed()
                    });
                    api.on(hook, HookOptions::default(), handler);
                }
            }
        }
        Ok(())
    }
}

/// A lead that takes this long for its first answer, and no time for the rest.
fn plan(delay: Duration) -> Value {
    let answer = json!({ "answer": { "text": "hi" } });
    let slow = json!({ "answer": { "text": "hi" }, "delay_ms": delay.as_millis() as u64 });
    json!({ "a/m": { "calls": [slow, answer], "repeat_last": true } })
}

/// A folder with the manifest of a plugin that is compiled in; it goes with its test.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(id: &str, manifest: &str) -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::SeqCst);
        let path = std::env::temp_dir().join(format!("understudy-reload-{}-{number}", std::process::id()));
        let folder = Self(path);
        folder.add(id, manifest);
        folder
    }

    fn add(&self, id: &str, manifest: &str) {
        let path = self.0.join(id);
        std::fs::create_dir_all(&path).expect("a folder");
        std::fs::write(path.join("openclaw.plugin.json"), manifest).expect("written");
    }

    /// With plugins that cannot be there twice.
    fn of_exclusive(ids: &[&str]) -> Self {
        let manifest = |id: &str| format!("{{ id: '{id}', host: 'native', resources: 'exclusive' }}");
        let folder = Self::new(ids[0], &manifest(ids[0]));
        ids[1..].iter().for_each(|id| folder.add(id, &manifest(id)));
        folder
    }

    pub(crate) fn path(&self) -> &std::path::Path {
        &self.0
    }

    pub(crate) fn paths(&self) -> String {
        format!("load_paths: [{}],", self.0.display())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

/// A probe that cannot be there twice.
async fn exclusive(delay: Duration) -> (Probe, Stage, Folder) {
    let probe = Probe::new("probe");
    let folder = Folder::of_exclusive(&["probe"]);
    let stage = stage(&[&probe], &folder.paths(), delay).await;
    (probe, stage, folder)
}

async fn stage(probes: &[&Probe], further: &str, delay: Duration) -> Stage {
    staged(probes, further, plan(delay), "").await
}

/// These plugins, and lines of configuration beside them.
async fn staged(probes: &[&Probe], further: &str, plan: Value, lines: &str) -> Stage {
    let plugins: Vec<Arc<dyn NativePlugin>> = probes
        .iter()
        .map(|&probe| Arc::new(probe.clone()) as Arc<dyn NativePlugin>)
        .collect();
    hosting(plugins, further, plan, lines).await
}

async fn hosting(plugins: Vec<Arc<dyn NativePlugin>>, further: &str, plan: Value, lines: &str) -> Stage {
    let entry = |plugin: &Arc<dyn NativePlugin>| {
        let id = plugin.id();
        format!("{id}: {{ enabled: true, hooks: {{ allowConversationAccess: true }} }}")
    };
    let entries: Vec<String> = plugins.iter().map(entry).collect();
    let configuration = format!(
        "plugins: {{ {further} entries: {{ {} }} }}\n{lines}",
        entries.join(", ")
    );
    let hosts = Hosts {
        native: plugins,
        ..Hosts::default()
    };
    Stage::set_hosting(plan, &configuration, hosts).await
}

async fn reload(stage: &Stage, ask: &Value) -> Reply {
    let path = stage.gateway.admin("/admin/v1/plugins/reload");
    let request = stage
        .gateway
        .client()
        .post(path)
        .header("content-type", "application/json");
    read(request.body(ask.to_string()).send().await.expect("a response")).await
}

#[tokio::test]
async fn a_reload_replaces_the_one_plugin_and_leaves_the_other_case_t1() {
    let (one, other) = (Probe::new("one"), Probe::new("other"));
    let stage = stage(&[&one, &other], "", Duration::ZERO).await;
    let reply = reload(&stage, &json!({ "plugins": ["one"] })).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    let receipt = reply.json();
    assert_eq!(
        (&receipt["outcome"], &receipt["generation"]),
        (&json!("applied"), &json!(2))
    );
    assert_eq!(
        (&receipt["pluginIds"], &receipt["restartRequired"]),
        (&json!(["one"]), &json!(true))
    );
    let instances = |probe: &Probe| probe.instances.load(Ordering::SeqCst);
    assert_eq!((instances(&one), instances(&other)), (2, 1));
    let scrape = stage.gateway.scrape().await;
    let applied = [("trigger", "api"), ("outcome", "applied")];
    assert_eq!(scrape.count("understudy_registry_reloads_total", &applied), 1);
}

#[tokio::test]
async fn a_turn_sees_one_instance_though_its_plugin_is_replaced_meanwhile() {
    let probe = Probe::new("probe");
    let stage = stage(&[&probe], "", Duration::from_secs(20)).await;
    let asked = question(false);
    let turn = stage.ask(&asked);
    let during = async {
        stage.called(&lead(), 1).await;
        let reply = reload(&stage, &json!({ "plugins": ["probe"] })).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        let next = stage.ask(&question(false)).await;
        stage.clock.advance(Duration::from_secs(20));
        next
    };
    let (first, second) = tokio::join!(turn, during);
    assert_eq!((first.status, second.status), (200, 200));
    let turns = probe.turns();
    assert!(turns.len() >= 2, "{turns:?}");
    let seen: Vec<Vec<u32>> = turns.iter().map(|turn| probe.seen_by(turn)).collect();
    assert!(seen.contains(&vec![1]) && seen.contains(&vec![2]), "{seen:?}");
    assert!(seen.iter().all(|instances| instances.len() == 1), "{seen:?}");
}

#[tokio::test]
async fn a_plugin_that_cannot_register_anew_goes_on_as_it_was() {
    let probe = Probe::new("probe");
    let stage = stage(&[&probe], "", Duration::ZERO).await;
    probe.fails.store(1, Ordering::SeqCst);
    let reply = reload(&stage, &json!({ "plugins": ["probe"] })).await;
    assert_eq!(reply.status, 409, "{}", reply.text());
    let error = &reply.json()["error"];
    assert_eq!(
        (&error["outcome"], &error["committed"]),
        (&json!("rolled_back"), &json!(false))
    );
    assert_eq!(error["generation"], 1);
    assert_eq!(stage.ask(&question(false)).await.status, 200);
    let report = stage.admin("/admin/v1/plugins").await.json();
    assert_eq!(report["plugins"][0]["status"], "loaded");
}

#[tokio::test]
async fn a_name_that_no_plugin_has_is_refused_by_name() {
    let probe = Probe::new("probe");
    let stage = stage(&[&probe], "", Duration::ZERO).await;
    for (ask, told) in [
        (json!({ "plugins": ["nobody"] }), "nobody"),
        (json!({ "plugins": [] }), "Name the plugins"),
    ] {
        let reply = reload(&stage, &ask).await;
        assert_eq!(reply.status, 400, "{}", reply.text());
        assert!(reply.text().contains(told), "{}", reply.text());
    }
    assert_eq!(probe.instances.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn an_exclusive_one_waits_for_those_inside_and_holds_those_who_come_case_t2_t13() {
    let (probe, stage, _folder) = exclusive(Duration::from_secs(20)).await;
    let asked = question(false);
    let turn = stage.ask(&asked);
    let during = async {
        stage.called(&lead(), 1).await;
        let ask = json!({ "plugins": ["probe"] });
        let replaced = reload(&stage, &ask);
        let held = async {
            until_held(&stage).await;
            let ready = stage.admin("/readyz").await;
            let failing = json!(["plugin-reload"]);
            assert_eq!((ready.status, &ready.json()["failing"]), (503, &failing));
            let asked = question(false);
            let held = stage.ask(&asked);
            let ends = async {
                stage.clock.advance(Duration::from_secs(20));
            };
            tokio::join!(held, ends).0
        };
        tokio::join!(replaced, held)
    };
    let (first, (replaced, held)) = tokio::join!(turn, during);
    assert_eq!((first.status, held.status), (200, 200));
    assert_eq!(
        (replaced.status, &replaced.json()["outcome"]),
        (200, &json!("applied")),
        "{}",
        replaced.text()
    );
    let seen: Vec<Vec<u32>> = probe.turns().iter().map(|turn| probe.seen_by(turn)).collect();
    assert!(seen.contains(&vec![1]) && seen.contains(&vec![2]), "{seen:?}");
    assert_eq!(stage.admin("/readyz").await.status, 200);
}

#[tokio::test]
async fn one_that_is_not_let_go_in_time_serves_on_and_its_holder_is_named_case_t3() {
    let (probe, stage, _folder) = exclusive(Duration::from_secs(100)).await;
    let asked = question(false);
    let turn = stage.ask_as(&asked, |request| request.header("x-session-id", "holder"));
    let during = async {
        stage.called(&lead(), 1).await;
        let ask = json!({ "plugins": ["probe"] });
        let replaced = reload(&stage, &ask);
        let late = async {
            until_held(&stage).await;
            stage.clock.advance(Duration::from_secs(61));
        };
        let (replaced, ()) = tokio::join!(replaced, late);
        assert_eq!(stage.admin("/readyz").await.status, 200);
        stage.clock.advance(Duration::from_secs(40));
        replaced
    };
    let (first, replaced) = tokio::join!(turn, during);
    assert_eq!((first.status, replaced.status), (200, 504), "{}", replaced.text());
    let error = &replaced.json()["error"];
    assert_eq!(
        (&error["outcome"], &error["phase"]),
        (&json!("drain_timeout"), &json!("drain"))
    );
    assert_eq!((&error["committed"], &error["generation"]), (&json!(false), &json!(1)));
    assert_eq!(
        (&error["holders"][0]["kind"], &error["holders"][0]["session"]),
        (&json!("turn"), &json!("holder"))
    );
    assert_eq!(probe.instances.load(Ordering::SeqCst), 1, "nothing was registered");
    let again = reload(&stage, &json!({ "plugins": ["probe"] })).await;
    assert_eq!(again.status, 200, "{}", again.text());
}

/// How many reloads have ended so.
async fn ended(stage: &Stage, outcome: &str) -> u64 {
    let scrape = stage.gateway.scrape().await;
    let labels = [("trigger", "api"), ("outcome", outcome)];
    scrape.count("understudy_registry_reloads_total", &labels)
}

/// The generation that serves.
async fn generation(stage: &Stage) -> u64 {
    stage
        .gateway
        .scrape()
        .await
        .count("understudy_registry_generation", &[])
}

/// Waits until a reload holds turns.
async fn until_held(stage: &Stage) {
    while stage.admin("/readyz").await.status == 200 {}
}

#[tokio::test]
async fn a_source_that_is_not_the_one_that_was_expected_is_refused() {
    let (probe, stage, _folder) = exclusive(Duration::ZERO).await;
    let digest = async {
        let report = stage.admin("/admin/v1/plugins").await.json();
        let plugins = report["plugins"].as_array().expect("plugins").iter();
        let probe = plugins.clone().find(|it| it["id"] == "probe").expect("the probe");
        probe["digest"].as_str().expect("a digest").to_owned()
    };
    let expected = digest.await;
    let other = json!({ "plugins": ["probe"], "digests": { "probe": "sha256:00" } });
    let reply = reload(&stage, &other).await;
    assert_eq!(reply.status, 400, "{}", reply.text());
    assert!(reply.text().contains(&expected), "{}", reply.text());
    assert_eq!((generation(&stage).await, probe.made()), (1, 1));
    // named twice is named once
    let same = json!({ "plugins": ["probe", "PROBE"], "digests": { "probe": expected } });
    let reply = reload(&stage, &same).await;
    assert_eq!(
        (reply.status, &reply.json()["pluginIds"]),
        (200, &json!(["probe"])),
        "{}",
        reply.text()
    );
}

#[tokio::test]
async fn what_is_asked_for_and_cannot_be_read_is_an_error_like_any_other() {
    let (_probe, stage, _folder) = exclusive(Duration::ZERO).await;
    let reply = reload(&stage, &json!({ "plugins": "probe" })).await;
    assert_eq!(reply.status, 400);
    let message = reply.json()["error"]["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.contains("cannot be read"), "{message}");
}

/// A guard in JavaScript that has nothing against anybody.
const GUARD: &str = "export function register(api) { api.on('before_agent_run', () => ({ outcome: 'pass' })); }";

#[tokio::test]
async fn a_guard_that_serves_is_let_go_when_it_is_switched_off_and_for_no_other_reason() {
    let other = Probe::new("other");
    let folder = Folder::new("guard", "{ id: 'guard', main: 'index.js' }");
    let inside = |name: &str| folder.0.join("guard").join(name);
    std::fs::write(inside("index.js"), GUARD).expect("written");
    let mut hosts = understudy::plugins::standard_hosts();
    hosts.native.push(Arc::new(other.clone()));
    let entries = "{ enabled: true, hooks: { allowConversationAccess: true } }";
    let paths = folder.paths();
    let configuration = format!("plugins: {{ {paths} entries: {{ guard: {entries}, other: {entries} }} }}\n");
    let stage = Stage::set_hosting(plan(Duration::ZERO), &configuration, hosts).await;
    let manifest = inside("openclaw.plugin.json");
    let whole = std::fs::read_to_string(&manifest).expect("readable");
    for broken in [Some(&whole[..10]), None] {
        match broken {
            Some(half) => std::fs::write(&manifest, half).expect("written"),
            None => std::fs::remove_file(&manifest).expect("removed"),
        }
        let reply = reload(&stage, &json!({ "plugins": ["guard"] })).await;
        assert_eq!(reply.status, 400, "{}", reply.text());
        assert!(reply.text().contains("guard"), "{}", reply.text());
        let another = reload(&stage, &json!({ "plugins": ["other"] })).await;
        assert_eq!(another.json()["pluginIds"], json!(["other"]), "{}", another.text());
        let report = stage.admin("/admin/v1/plugins").await.json();
        let plugins = report["plugins"].as_array().expect("plugins").iter();
        let serving = plugins.filter(|plugin| plugin["id"] == "guard" && plugin["status"] == "loaded");
        assert_eq!(serving.count(), 1, "{report}");
    }
    std::fs::write(&manifest, whole).expect("written");
    let reply = reload(&stage, &json!({ "plugins": ["guard"] })).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
}
