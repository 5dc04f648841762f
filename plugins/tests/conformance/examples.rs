//! The guards of `examples/plugins`, each on its host: they are one guard.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use understudy_messages::clock::Clock;
use understudy_messages::hooks::{HookContext, HookEvent, HookResult};
use understudy_messages::plugin::CallHook;
use understudy_plugins::Instance;
use understudy_plugins::hosts::{Hosts, Load};
use understudy_plugins::manifest::{HostKind, Manifest};
use understudy_plugins::registration::Handler;
use understudy_plugins::{process, webhook};

use crate::process::has_python;
use crate::stage::conversation;

#[path = "../../../examples/plugins/native-rs/guard.rs"]
#[expect(unreachable_pub, reason = "an example is written for a crate of its own")]
mod guard;

fn folder(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/plugins")).join(name)
}

fn load(name: &str, settings: Value) -> (HostKind, Load) {
    let folder = folder(name);
    let text = std::fs::read_to_string(folder.join("openclaw.plugin.json")).expect("a manifest");
    let (manifest, warnings) = Manifest::read(&text).expect("a manifest");
    assert_eq!((warnings, manifest.required), (vec![], Some(true)), "{name}");
    manifest.check(&settings).expect("settings that its schema takes");
    let load = Load {
        id: manifest.id.clone(),
        folder,
        settings,
        workspaces: Vec::new(),
        grants: Default::default(),
        limits: Default::default(),
        clock: Clock::real(),
        listeners: Default::default(),
        manifest: Some(Arc::new(manifest)),
    };
    (load.manifest.as_ref().expect("a manifest").host, load)
}

/// What the guard says of a call with these arguments, in a conversation with this prompt.
async fn judge(instance: &dyn Instance, command: &str, prompt: &'static str, may_see: bool) -> Option<String> {
    let [row] = &instance.registration().hooks[..] else {
        panic!("one hook");
    };
    let params = json!({ "command": command });
    let event = HookEvent::BeforeToolCall {
        run_id: None,
        tool_name: "exec".into(),
        params: Arc::new(params.as_object().expect("arguments").clone()),
        tool_call_id: "c1".to_owned(),
        conversation: conversation(prompt),
    };
    let context = Arc::new(HookContext::default());
    let result = match &row.handler {
        Handler::Quick(quick) => quick(&event, &context).expect("a verdict"),
        Handler::Instance(handler) => {
            let call = CallHook {
                handler: *handler,
                event: Arc::new(event),
                context,
                conversation: may_see,
                cancel: CancellationToken::new(),
            };
            instance.call_hook(call).await.expect("a verdict")
        }
    };
    match result {
        HookResult::None => None,
        HookResult::Tool(verdict) if verdict.block => verdict.block_reason,
        other => panic!("{other:?}"),
    }
}

async fn guards(instance: &dyn Instance) {
    assert_eq!(judge(instance, "ls -l", "rm -rf it", true).await, None);
    let blocked = judge(instance, "rm -rf /", "tidy up", true).await.expect("blocked");
    assert_eq!(blocked, "The arguments hold \"rm -rf\", which is forbidden.");
    let blocked = judge(instance, "rm -rf /", "rm -rf it", true).await.expect("blocked");
    assert_eq!(
        blocked,
        "The arguments hold \"rm -rf\", which is forbidden, also when the user asks for it."
    );
    let wire = matches!(instance.registration().hooks[0].handler, Handler::Instance(_));
    if wire {
        let blocked = judge(instance, "rm -rf /", "rm -rf it", false).await.expect("blocked");
        assert_eq!(
            blocked, "The arguments hold \"rm -rf\", which is forbidden.",
            "it does not see the user"
        );
    }
    instance.stop().await;
}

#[tokio::test]
async fn the_guard_that_is_compiled_in_guards() {
    let hosts = Hosts {
        native: vec![Arc::new(guard::Guard)],
        ..Hosts::default()
    };
    let load = Load {
        id: "native-guard".into(),
        manifest: None,
        folder: PathBuf::new(),
        settings: json!({}),
        workspaces: Vec::new(),
        grants: Default::default(),
        limits: Default::default(),
        clock: Clock::real(),
        listeners: Default::default(),
    };
    let instance = hosts.load(HostKind::Native, load).await.expect("it registers");
    guards(&*instance).await;
}

#[cfg(feature = "js")]
#[tokio::test]
async fn the_guard_in_javascript_guards() {
    let hosts = Hosts {
        js: Some(understudy_plugins::js::constructor()),
        ..Hosts::default()
    };
    let (host, load) = load("js-guard", json!({ "words": ["rm -rf"] }));
    guards(&*hosts.load(host, load).await.expect("it registers")).await;
}

#[tokio::test]
async fn the_guard_in_python_guards() {
    if !has_python() {
        return;
    }
    let hosts = Hosts {
        process: Some(process::constructor()),
        ..Hosts::default()
    };
    let (host, load) = load("python-process", json!({ "words": ["rm -rf"] }));
    guards(&*hosts.load(host, load).await.expect("it registers")).await;
}

/// A child that ends with its test.
struct Service(Child);

impl Drop for Service {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[tokio::test]
async fn the_guard_behind_http_guards_whoever_has_its_secret() {
    if !has_python() {
        return;
    }
    let mut command = Command::new("python3");
    command
        .arg(folder("webhook").join("server.py"))
        .arg("0")
        .env("GUARD_SECRET", "secret");
    let mut service = Service(command.stdout(Stdio::piped()).spawn().expect("python3"));
    let mut line = String::new();
    let stdout = service.0.stdout.take().expect("its output");
    BufReader::new(stdout).read_line(&mut line).expect("a line");
    let url = line.trim().rsplit(' ').next().expect("an address").to_owned();

    crate::webhook::install_tls();
    let hosts = Hosts {
        webhook: Some(webhook::constructor()),
        ..Hosts::default()
    };
    let (host, with) = load("webhook", json!({ "url": url, "secret": "secret" }));
    guards(&*hosts.load(host, with).await.expect("it loads")).await;

    let (host, without) = load("webhook", json!({ "url": url, "secret": "another" }));
    let stranger = hosts.load(host, without).await.expect("it loads");
    let call = CallHook {
        handler: 0,
        event: Arc::new(crate::stage::tool_call("block")),
        context: Arc::new(HookContext::default()),
        conversation: false,
        cancel: CancellationToken::new(),
    };
    let refused = stranger.call_hook(call).await.expect_err("refused");
    assert!(refused.to_string().contains("401"), "{refused}");
}
