//! Plugins that are on by default and wait for what they hint at, and what is settled in a generation, over the real app.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use serde_json::{Value, json};
use understudy::AppOptions;
use understudy::config::ServerConfig;
use understudy_messages::hooks::HookResult;
use understudy_plugins::hosts::Hosts;
use understudy_plugins::native::{NativeApi, NativePlugin};
use understudy_plugins::registration::HookOptions;
use understudy_tests::gateway::{Gateway, client};

use crate::brought::{Place, acme_at, both, strict, url};
use crate::stage::question;

/// Compiled in and on by default; counts how often it is told to register, and how often it is called.
#[derive(Clone)]
struct Waits {
    manifest: &'static str,
    registers: bool,
    asked: Arc<AtomicU32>,
    called: Arc<AtomicU32>,
}

impl Waits {
    fn new(manifest: &'static str) -> Self {
        Self {
            manifest,
            registers: true,
            asked: Arc::default(),
            called: Arc::default(),
        }
    }

    fn count(&self) -> (u32, u32) {
        (self.asked.load(Ordering::SeqCst), self.called.load(Ordering::SeqCst))
    }
}

impl NativePlugin for Waits {
    fn id(&self) -> &str {
        "waits"
    }

    fn enabled_by_default(&self) -> bool {
        true
    }

    fn manifest(&self) -> Option<&str> {
        Some(self.manifest)
    }

    fn register(&self, api: &mut NativeApi, _: &Value) -> Result<(), String> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let called = self.called.clone();
        let note = move |_: &_, _: &_| {
            called.fetch_add(1, Ordering::SeqCst);
            Ok(HookResult::None)
        };
        api.on_quick("before_prompt_build", HookOptions::default(), Arc::new(note));
        if self.registers {
            Ok(())
        } else {
            Err("as its test wants".to_owned())
        }
    }
}

const FOR_LATER: &str = "{ id: 'waits', host: 'native', configSchema: {}, activation: { onProviders: ['later'] }, requiresPlugins: ['nobody'] }";

/// A gateway with the plugin, beside the example's provider.
async fn place(waits: &Waits, further: &str) -> Place {
    let acme = Arc::new(crate::brought::acme::AcmeProvider);
    let native: Vec<Arc<dyn NativePlugin>> = vec![acme, Arc::new(waits.clone())];
    Place::new(both(), |simulator| acme_at(&url(simulator, "acme"), further), native).await
}

#[tokio::test]
async fn what_nobody_has_named_waits_until_the_configuration_asks_for_what_it_hints_at_case_t42() {
    let waits = Waits::new(FOR_LATER);
    let place = place(&waits, "").await;
    let shown = place.plugin("waits").await;
    assert_eq!(
        (&shown["reason"], &shown["status"]),
        (&json!("awaits-activation"), &json!("disabled"))
    );
    assert_eq!(shown["activation"], json!(["provider later: activation-provider-hint"]));
    let reply = place.reload("waits").await;
    assert!(
        reply.status == 400 && reply.text().contains("enabled: true"),
        "{}",
        reply.text()
    );
    place.served_by(&question(false)).await;
    assert_eq!(waits.count(), (0, 0), "none of its code has run");

    let added = "providers:\n  later: { api: openai-chat, base_url: \"http://127.0.0.1:9\", models: [m] }\n";
    let reply = place.put(&place.written.replace("providers:\n", added)).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    let shown = place.plugin("waits").await;
    assert_eq!(
        (&shown["reason"], &shown["status"]),
        (&json!("bundled-default-enablement"), &json!("loaded"))
    );
    assert_eq!(shown["activation"][0], "startup: activation-provider-hint");
    place.served_by(&question(false)).await;
    assert_eq!(waits.count(), (1, 1));
    let messages = place.messages().await;
    assert!(messages.contains("requiresPlugins of waits names nobody"), "{messages}");

    assert_eq!(place.put(&place.written).await.status, 200);
    place.served_by(&question(false)).await;
    assert_eq!(waits.count(), (1, 1), "it is gone again");
}

#[tokio::test]
async fn one_that_is_named_starts_whatever_it_hints_at_case_t42() {
    let waits = Waits::new(FOR_LATER);
    let place = place(&waits, ", waits: { enabled: true }").await;
    assert_eq!(place.plugin("waits").await["status"], "loaded");
    assert_eq!(waits.count(), (1, 0));
}

#[tokio::test]
async fn a_plugin_that_failed_in_a_generation_is_not_tried_again_by_its_turns() {
    let waits = Waits {
        registers: false,
        ..Waits::new("{ id: 'waits', host: 'native', configSchema: {} }")
    };
    let place = place(&waits, "").await;
    for _ in 0..3 {
        place.served_by(&strict("own/m")).await;
    }
    assert_eq!(waits.count(), (1, 0));
    let shown = place.plugin("waits").await;
    assert_eq!(
        (&shown["status"], &shown["failure_phase"]),
        (&json!("error"), &json!("register"))
    );
}

#[tokio::test]
async fn an_agent_that_lists_no_plugin_has_none() {
    let waits = Waits::new("{ id: 'waits', host: 'native', configSchema: {} }");
    let place = place(&waits, "").await;
    let agents = "agents:\n  bare: { model: main, plugins: [] }\n  usual: { model: main }\n";
    let reply = place.put(&format!("{}{agents}", place.written)).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    for (agent, called) in [("bare", 0), ("usual", 1)] {
        let reply = place
            .stage
            .ask_as(&question(false), |request| request.header("x-understudy-agent", agent))
            .await;
        assert_eq!((reply.status, waits.count().1), (200, called), "{agent}");
    }
}

/// Registers when it is let to.
struct Held {
    entered: mpsc::Sender<()>,
    let_go: Mutex<mpsc::Receiver<()>>,
}

impl NativePlugin for Held {
    fn id(&self) -> &str {
        "held"
    }

    fn enabled_by_default(&self) -> bool {
        true
    }

    fn register(&self, _: &mut NativeApi, _: &Value) -> Result<(), String> {
        let _nobody_waits = self.entered.send(());
        let _given_up = self.let_go.lock().expect("whole").recv();
        Ok(())
    }
}

/// An address that no other test listens at: a gateway is asked there before it could say where it listens.
fn address() -> String {
    let free = TcpListener::bind("127.77.0.14:0").expect("a loopback address");
    free.local_addr().expect("bound").to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_probes_is_answered_while_plugins_register() {
    let (entered, has_entered) = mpsc::channel();
    let (release, let_go) = mpsc::channel();
    let held = Held {
        entered,
        let_go: Mutex::new(let_go),
    };
    let hosts = Hosts {
        native: vec![Arc::new(held)],
        ..Hosts::default()
    };
    let admin = address();
    let config = ServerConfig::parse(
        &format!(
            "listen: {{ api: \"127.0.0.1:0\", admin: \"{admin}\" }}\n\
             providers: {{ own: {{ api: openai-chat, base_url: \"http://127.0.0.1:9\", models: [m] }} }}\n"
        ),
        &|_| None,
    );
    let config = config.expect("a good configuration");
    let options = AppOptions {
        arbiters: 1,
        ..AppOptions::default()
    };
    let starting = tokio::task::spawn_blocking(move || Gateway::start_configured(config, options, hosts));
    let entering = tokio::task::spawn_blocking(move || has_entered.recv());
    entering.await.expect("not lost").expect("it registers");
    let client = client();
    let status = async |path: &str| {
        let reply = client.get(format!("http://{admin}{path}")).send().await;
        reply.expect("an answer").status().as_u16()
    };
    assert_eq!((status("/livez").await, status("/metrics").await), (200, 200));
    assert_eq!((status("/startupz").await, status("/readyz").await), (503, 503));
    release.send(()).expect("it waits");
    let gateway = starting.await.expect("it starts");
    assert_eq!((status("/startupz").await, status("/readyz").await), (200, 200));
    tokio::task::spawn_blocking(move || drop(gateway))
        .await
        .expect("it stops");
}
