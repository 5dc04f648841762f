//! Providers that plugins bring, over the real app: asked like those of the configuration, and gone without harm to others.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use futures::FutureExt;
use reqwest::Method;
use serde_json::{Value, json};
use understudy_messages::events::{CandidateSkipped, Event};
use understudy_messages::failure::Reason;
use understudy_messages::ids::ModelRef;
use understudy_messages::settings::{Api, ProviderSettings};
use understudy_plugins::hosts::Hosts;
use understudy_plugins::native::{NativeApi, NativePlugin};
use understudy_plugins::registration::{HookOptions, ProviderRegistration};
use understudy_providers::sim::Simulator;

use crate::reload::Folder;
use crate::stage::{Reply, Stage, question, read, refusal};

#[path = "../../examples/plugins/native-rs-provider/provider.rs"]
pub(crate) mod acme;

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/plugins/native-rs-provider");
const SECRET: &str = "sk-of-acme-canary";

/// A gateway whose chain `main` asks a plugin's provider first and one of the configuration then.
pub(crate) struct Place {
    pub(crate) stage: Stage,
    file: PathBuf,
    pub(crate) written: String,
    _folder: Folder,
}

impl Place {
    pub(crate) async fn new(
        plan: Value,
        plugins: impl Fn(&Simulator) -> String,
        native: Vec<Arc<dyn NativePlugin>>,
    ) -> Self {
        let folder = Folder::new("unused", "{ id: 'unused', host: 'native' }");
        let file = folder.path().join("understudy.yaml");
        let hosts = Hosts {
            native,
            ..Hosts::default()
        };
        let written = |simulator: &Simulator| document(simulator, &plugins(simulator));
        let stage = Stage::set_file(plan, &file, written, hosts).await;
        Self {
            written: std::fs::read_to_string(&file).expect("a file"),
            stage,
            file,
            _folder: folder,
        }
    }

    /// With the example.
    async fn with_acme(plan: Value, further: &str) -> Self {
        let plugins = |simulator: &Simulator| acme_at(&url(simulator, "acme"), further);
        Self::new(plan, plugins, vec![Arc::new(acme::AcmeProvider)]).await
    }

    pub(crate) async fn put(&self, text: &str) -> Reply {
        let request = self
            .stage
            .gateway
            .client()
            .request(Method::PUT, self.stage.gateway.admin("/admin/v1/config"));
        read(
            request
                .header("if-match", "*")
                .body(text.to_owned())
                .send()
                .await
                .expect("a response"),
        )
        .await
    }

    pub(crate) async fn reload(&self, plugin: &str) -> Reply {
        let request = self
            .stage
            .gateway
            .client()
            .post(self.stage.gateway.admin("/admin/v1/plugins/reload"));
        let request = request.header("content-type", "application/json");
        let body = json!({ "plugins": [plugin] }).to_string();
        read(request.body(body).send().await.expect("a response")).await
    }

    pub(crate) async fn served_by(&self, asked: &Value) -> String {
        let reply = self.stage.ask(asked).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.header("x-understudy-served-by").to_owned()
    }

    pub(crate) async fn plugin(&self, id: &str) -> Value {
        let report = self.stage.admin("/admin/v1/plugins").await.json();
        let plugins = report["plugins"].as_array().expect("plugins");
        plugins.iter().find(|it| it["id"] == id).cloned().expect("is there")
    }

    pub(crate) async fn messages(&self) -> String {
        let report = self.stage.admin("/admin/v1/plugins").await.json();
        report["diagnostics"].to_string()
    }

    /// How a provider's first candidate is.
    async fn state(&self, provider: &str) -> Value {
        let page = self.stage.admin("/admin/v1/providers").await.json();
        let providers = page["providers"].as_array().expect("providers").clone();
        let one = providers.iter().find(|it| it["name"] == provider);
        one.unwrap_or_else(|| panic!("{page}"))["candidates"][0]["state"].clone()
    }
}

pub(crate) fn url(simulator: &Simulator, provider: &str) -> String {
    simulator.base_url_of(&ModelRef::new(provider, "m"))
}

fn document(simulator: &Simulator, plugins: &str) -> String {
    let own = url(simulator, "own");
    format!(
        "listen: {{ api: \"127.0.0.1:0\", admin: \"127.0.0.1:0\" }}\n\
         providers:\n  own: {{ api: openai-chat, base_url: \"{own}\", models: [m] }}\n\
         models:\n  main: {{ chain: [acme/m, own/m] }}\n{plugins}"
    )
}

pub(crate) fn acme_at(url: &str, further: &str) -> String {
    format!(
        "plugins: {{ load_paths: [{EXAMPLE}], entries: {{ acme-provider: {{ enabled: true, \
         config: {{ baseUrl: \"{url}\", apiKey: {SECRET}, models: {{ m: 8000 }} }} }}{further} }} }}\n"
    )
}

fn answers() -> Value {
    json!({ "calls": [{ "answer": { "text": "hi" } }], "repeat_last": true })
}

pub(crate) fn both() -> Value {
    json!({ "acme/m": answers(), "own/m": answers() })
}

pub(crate) fn strict(model: &str) -> Value {
    json!({ "model": model, "fallbacks": [], "messages": [{ "role": "user", "content": "hi" }] })
}

/// Brings a provider, and does not always register or start well.
#[derive(Clone)]
struct Shop {
    id: &'static str,
    provider: &'static str,
    url: String,
    fails: Arc<AtomicU32>,
    starts_badly: Arc<AtomicBool>,
}

impl Shop {
    fn new(id: &'static str, provider: &'static str, url: &str) -> Self {
        Self {
            id,
            provider,
            url: url.to_owned(),
            fails: Arc::default(),
            starts_badly: Arc::default(),
        }
    }
}

impl NativePlugin for Shop {
    fn id(&self) -> &str {
        self.id
    }

    fn register(&self, api: &mut NativeApi, settings: &Value) -> Result<(), String> {
        if self
            .fails
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1))
            .is_ok()
        {
            return Err("as its test wants".to_owned());
        }
        let url = settings["baseUrl"].as_str().unwrap_or(&self.url).to_owned();
        let mut provider = ProviderSettings::new(self.provider.into(), Api::OpenaiChat, url);
        provider.models = Some(vec!["m".into()]);
        api.provider(ProviderRegistration::new(provider));
        let badly = self.starts_badly.clone();
        let start = move |_, _, _| {
            let fails = badly.load(Ordering::SeqCst);
            async move {
                if fails {
                    Err("no power".to_owned())
                } else {
                    Ok(Default::default())
                }
            }
            .boxed()
        };
        api.on("gateway_start", HookOptions::default(), Arc::new(start));
        Ok(())
    }
}

#[tokio::test]
async fn a_chain_asks_the_provider_that_a_plugin_brings() {
    let place = Place::with_acme(both(), "").await;
    assert_eq!(place.served_by(&question(false)).await, "acme/m");
    assert_eq!(place.served_by(&strict("acme/m")).await, "acme/m");
    let models = place.stage.get("/v1/models").await.text();
    assert!(models.contains("acme/m"), "{models}");
    let plugin = place.plugin("acme-provider").await;
    let capability = json!([{ "kind": "text-inference", "ids": ["acme"] }]);
    assert_eq!(
        (&plugin["providers"], &plugin["capabilities"], &plugin["shape"]),
        (&json!(["acme"]), &capability, &json!("plain-capability"))
    );
    for page in [
        "/admin/v1/plugins",
        "/admin/v1/providers",
        "/admin/v1/status",
        "/metrics",
    ] {
        let shown = place.stage.admin(page).await.text();
        assert!(!shown.contains(SECRET), "{page}: {shown}");
    }
}

/// The example, in no folder: what it says of itself is compiled in with it.
struct Folderless;

impl NativePlugin for Folderless {
    fn id(&self) -> &str {
        acme::AcmeProvider.id()
    }

    fn manifest(&self) -> Option<&str> {
        Some(include_str!(
            "../../examples/plugins/native-rs-provider/openclaw.plugin.json"
        ))
    }

    fn register(&self, api: &mut NativeApi, settings: &Value) -> Result<(), String> {
        acme::AcmeProvider.register(api, settings)
    }
}

#[tokio::test]
async fn a_chain_may_name_what_a_plugin_that_lies_in_no_folder_declares_while_it_is_on() {
    let plugins = |simulator: &Simulator| {
        let url = url(simulator, "acme");
        format!("plugins: {{ entries: {{ acme-provider: {{ enabled: true, config: {{ baseUrl: \"{url}\" }} }} }} }}\n")
    };
    let place = Place::new(both(), plugins, vec![Arc::new(Folderless)]).await;
    assert_eq!(place.served_by(&question(false)).await, "acme/m");
    // the gateway that serves reads with the same plugins
    let reply = place.put(&format!("{}# as before\n", place.written)).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(place.served_by(&question(false)).await, "acme/m");
    let off = place.written.replace("enabled: true", "enabled: false");
    let reply = place.put(&off).await;
    assert_eq!(reply.status, 422, "{}", reply.text());
}

#[tokio::test]
async fn a_plugin_that_does_not_register_leaves_its_candidates_out_and_all_others_as_they_are() {
    let place = Place::new(both(), |_| acme_at("nowhere", ""), vec![Arc::new(acme::AcmeProvider)]).await;
    let mut events = place.stage.gateway.events();
    assert_eq!(place.served_by(&question(false)).await, "own/m");
    let skipped: CandidateSkipped = loop {
        if let Event::CandidateSkipped(skipped) = &*events.recv().await.expect("events") {
            break skipped.clone();
        }
    };
    assert_eq!(skipped.model.to_string(), "acme/m");
    assert!(skipped.absent && skipped.reason == Reason::ModelNotFound, "{skipped:?}");
    let reply = place.stage.ask(&strict("acme/m")).await;
    assert_eq!(
        (reply.status, &reply.json()["error"]["code"]),
        (503, &json!("provider_not_serving"))
    );
    let messages = place.messages().await;
    assert!(messages.contains("declares the provider acme"), "{messages}");

    let whole = document(
        &place.stage.simulator,
        &acme_at(&url(&place.stage.simulator, "acme"), ""),
    );
    let reply = place.put(&whole).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(place.served_by(&question(false)).await, "acme/m");
}

#[tokio::test]
async fn a_name_that_no_plugin_which_is_on_declares_is_refused_in_a_configuration() {
    let place = Place::with_acme(both(), "").await;
    let off = place.written.replace("enabled: true", "enabled: false");
    let reply = place.put(&off).await;
    assert_eq!(reply.status, 422, "{}", reply.text());
    let problem = &reply.json()["error"]["problems"][0];
    assert_eq!(problem["path"], "models.main.chain[0]", "{problem}");
    assert_eq!(std::fs::read_to_string(&place.file).expect("a file"), place.written);
    assert_eq!(place.served_by(&question(false)).await, "acme/m");
}

#[tokio::test]
async fn a_reload_keeps_the_rest_of_a_provider_that_comes_back_as_it_was() {
    let limited = json!({ "calls": [refusal(429, "rate_limit_exceeded")], "repeat_last": true });
    let place = Place::with_acme(json!({ "acme/m": limited, "own/m": answers() }), "").await;
    assert_eq!(place.served_by(&question(false)).await, "own/m");
    assert_eq!(place.state("acme").await, "resting");
    let reply = place.reload("acme-provider").await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(place.state("acme").await, "resting");
    let reply = place.put(&place.written.replace(SECRET, "sk-another")).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(place.state("acme").await, "available");
}

#[tokio::test]
async fn a_plugin_that_comes_anew_is_asked_where_it_says_by_then() {
    let plan = json!({ "acme/m": answers(), "own/m": answers(), "moved/m": answers() });
    let place = Place::with_acme(plan, "").await;
    assert_eq!(place.served_by(&question(false)).await, "acme/m");
    let simulator = &place.stage.simulator;
    let moved = place.written.replace(&url(simulator, "acme"), &url(simulator, "moved"));
    let reply = place.put(&moved).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(place.served_by(&question(false)).await, "acme/m");
    place.stage.calls_are(&ModelRef::new("moved", "m"), 1);
    place.stage.calls_are(&ModelRef::new("acme", "m"), 1);
}

#[tokio::test]
async fn the_second_who_claims_a_provider_is_refused_and_the_generation_serves_case_t39() {
    let plugins = |simulator: &Simulator| acme_at(&url(simulator, "acme"), ", thief: { enabled: true }");
    let native: Vec<Arc<dyn NativePlugin>> = vec![
        Arc::new(acme::AcmeProvider),
        Arc::new(Shop::new("thief", "own", "http://127.0.0.1:9")),
    ];
    let place = Place::new(both(), plugins, native).await;
    let messages = place.messages().await;
    assert!(
        messages.contains("provider own is refused: it belongs to the configuration"),
        "{messages}"
    );
    assert_eq!(place.plugin("thief").await["providers"], json!([]));
    assert_eq!(place.served_by(&strict("own/m")).await, "own/m");
    assert_eq!(place.served_by(&question(false)).await, "acme/m");
}

/// A shop that brings `acme` and cannot be there twice.
async fn exclusive() -> (Shop, Place, Folder) {
    let shop = Shop::new("shop", "acme", "");
    let folder = Folder::new(
        "shop",
        "{ id: 'shop', host: 'native', resources: 'exclusive', providers: ['acme'] }",
    );
    let path = folder.path().display().to_string();
    let plugins = move |simulator: &Simulator| {
        let url = url(simulator, "acme");
        format!(
            "plugins: {{ load_paths: [{path}], entries: {{ shop: {{ enabled: true, config: {{ baseUrl: \"{url}\" }} }} }} }}\n"
        )
    };
    let place = Place::new(both(), plugins, vec![Arc::new(shop.clone())]).await;
    (shop, place, folder)
}

#[tokio::test]
async fn a_start_that_fails_after_the_publication_is_told_and_the_new_generation_serves_case_t30() {
    let (shop, place, _folder) = exclusive().await;
    shop.starts_badly.store(true, Ordering::SeqCst);
    let reply = place.reload("shop").await;
    let error = &reply.json()["error"];
    assert_eq!(
        (
            &error["outcome"],
            &error["phase"],
            &error["committed"],
            &error["generation"]
        ),
        (&json!("degraded"), &json!("activate"), &json!(true), &json!(2)),
        "{}",
        reply.text()
    );
    let message = error["message"].as_str().unwrap_or_default();
    assert!(
        message.contains("gateway_start of shop") && message.contains("reload"),
        "{message}"
    );
    assert_eq!(place.served_by(&question(false)).await, "acme/m");
    shop.starts_badly.store(false, Ordering::SeqCst);
    assert_eq!(place.reload("shop").await.status, 200);
}

#[tokio::test]
async fn providers_serve_on_though_their_plugin_could_not_be_put_back() {
    let (shop, place, _folder) = exclusive().await;
    shop.fails.store(2, Ordering::SeqCst);
    let reply = place.reload("shop").await;
    let error = &reply.json()["error"];
    assert_eq!(
        (&error["outcome"], &error["committed"]),
        (&json!("failed"), &json!(false)),
        "{}",
        reply.text()
    );
    assert_eq!(place.served_by(&question(false)).await, "acme/m");
    assert_eq!(place.served_by(&strict("own/m")).await, "own/m");
}

#[tokio::test]
async fn a_plugin_whose_provider_was_put_back_serves_as_before() {
    let (shop, place, _folder) = exclusive().await;
    shop.fails.store(1, Ordering::SeqCst);
    let reply = place.reload("shop").await;
    let error = &reply.json()["error"];
    assert_eq!(error["outcome"], "restored", "{}", reply.text());
    assert_eq!(place.served_by(&question(false)).await, "acme/m");
    assert_eq!(place.plugin("shop").await["providers"], json!(["acme"]));
    let _in_time = place
        .stage
        .in_time(Duration::from_millis(100), place.stage.get("/v1/models"))
        .await;
}
