//! The plugins: one of each host, and one that cannot be there twice.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures::FutureExt;
use serde_json::{Value, json};
use understudy_messages::hooks::{Hook, HookResult};
use understudy_plugins::native::{AsyncHandler, NativeApi, NativePlugin};
use understudy_plugins::registration::HookOptions;

/// The one that is compiled in.
pub const NATIVE: &str = "probe-native";
/// The one in JavaScript.
pub const JS: &str = "probe-js";
/// The one that is a child process.
pub const PROCESS: &str = "probe-process";
/// The one that is a service.
pub const WEBHOOK: &str = "probe-webhook";
/// One in JavaScript whose old instance has to be gone before the new one comes.
pub const EXCLUSIVE: &str = "probe-exclusive";
/// All of them.
pub const PLUGINS: [&str; 5] = [NATIVE, JS, PROCESS, WEBHOOK, EXCLUSIVE];
/// Those that are there twice while they are replaced.
pub const SHARED: [&str; 4] = [NATIVE, JS, PROCESS, WEBHOOK];

/// What a plugin's code does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// What it should.
    Sound,
    /// It cannot be read.
    Unreadable,
    /// It throws when it registers.
    Throws,
    /// It never has been loaded.
    Hangs,
    /// It loads, and registers nothing.
    Guardless,
}

/// The tool that a plugin guards.
pub fn tool(plugin: &str) -> String {
    format!("run-{plugin}")
}

/// What an instance leaves in a turn.
pub fn stamp(plugin: &str, instance: impl std::fmt::Display) -> String {
    format!("[[{plugin}={instance}]]")
}

/// What a handler of an instance answers.
pub fn answer(hook: &str, stamp: &str) -> Value {
    match Hook::parse(hook) {
        Ok(Hook::BeforePromptBuild) => json!({ "prependContext": stamp }),
        Ok(Hook::BeforeToolCall) => json!({ "block": true, "blockReason": stamp }),
        other => panic!("nobody asked for {other:?}"),
    }
}

/// Numbers its instances.
pub struct Probe(AtomicU32);

impl Probe {
    pub fn plugin() -> Arc<dyn NativePlugin> {
        Arc::new(Self(AtomicU32::new(0)))
    }
}

impl NativePlugin for Probe {
    fn id(&self) -> &str {
        NATIVE
    }

    fn register(&self, api: &mut NativeApi, _: &Value) -> Result<(), String> {
        let stamp = stamp(NATIVE, self.0.fetch_add(1, Ordering::SeqCst));
        for (hook, tools) in [
            (Hook::BeforePromptBuild, None),
            (Hook::BeforeToolCall, Some(vec![tool(NATIVE)])),
        ] {
            let answer = answer(hook.as_label(), &stamp);
            let handler: AsyncHandler = Arc::new(move |_, _, _| {
                let read = HookResult::read(hook, answer.clone()).map_err(|error| error.to_string());
                async { read }.boxed()
            });
            let options = HookOptions {
                tools,
                ..HookOptions::default()
            };
            api.on(hook.as_label(), options, handler);
        }
        Ok(())
    }
}

/// The folder of those that are not compiled in. It goes with its test.
pub struct Folder {
    pub path: PathBuf,
    origin: String,
    written: AtomicU32,
}

impl Folder {
    /// Fills a new folder; the service is at `origin`.
    pub fn make(origin: &str) -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::SeqCst);
        let name = format!("understudy-recast-{}-{number}", std::process::id());
        let folder = Self {
            path: std::env::temp_dir().join(name),
            origin: origin.to_owned(),
            written: AtomicU32::new(0),
        };
        for plugin in [JS, PROCESS, WEBHOOK, EXCLUSIVE] {
            fs::create_dir_all(folder.path.join(plugin)).expect("a folder");
            folder.write(plugin, Code::Sound);
        }
        folder
    }

    /// Writes a plugin.
    pub fn write(&self, plugin: &str, code: Code) {
        let put = |name: &str, text: String| {
            fs::write(self.path.join(plugin).join(name), text).expect("written");
        };
        let (manifest, file) = match plugin {
            PROCESS => (
                json!({ "host": "process", "command": ["python3", "plugin.py"] }),
                Some(("plugin.py", python())),
            ),
            WEBHOOK => (self.webhook(), None),
            _ => {
                let resources = if plugin == EXCLUSIVE { "exclusive" } else { "shared" };
                (
                    json!({ "main": "index.js", "resources": resources }),
                    Some(("index.js", javascript(plugin, code))),
                )
            }
        };
        let mut manifest = manifest;
        manifest["id"] = plugin.into();
        put("openclaw.plugin.json", manifest.to_string());
        if let Some((name, text)) = file {
            put(name, text);
        }
    }

    /// Each instance calls an address of its own: the service knows instances by that.
    fn webhook(&self) -> Value {
        let instance = self.written.fetch_add(1, Ordering::SeqCst);
        json!({ "url": format!("{}/hooks/{instance}", self.origin), "hooks": [
            { "hook": "before_prompt_build" }, { "hook": "before_tool_call", "matcher": [tool(WEBHOOK)] } ] })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _gone = fs::remove_dir_all(&self.path);
    }
}

fn javascript(plugin: &str, code: Code) -> String {
    let (head, body) = match code {
        Code::Sound => ("", ""),
        Code::Unreadable => ("export defau1t {{{", ""),
        Code::Throws => ("", "throw new Error('as its test wants');"),
        Code::Hangs => ("while (true) {}", ""),
        Code::Guardless => ("", "return;"),
    };
    let tool = tool(plugin);
    format!(
        "{head}
const stamp = `[[{plugin}=${{Math.random().toString(36).slice(2)}}]]`;
export default {{
  id: '{plugin}',
  register(api) {{
    {body}
    api.on('before_prompt_build', () => ({{ prependContext: stamp }}));
    api.on('before_tool_call', () => ({{ block: true, blockReason: stamp }}), {{ matcher: ['{tool}'] }});
  }},
}};
"
    )
}

fn python() -> String {
    let tool = tool(PROCESS);
    format!(
        r#"import json, os, sys
stamp = "[[{PROCESS}=" + os.urandom(6).hex() + "]]"

def say(**line):
    print(json.dumps(line), flush=True)

for text in sys.stdin:
    line = json.loads(text)
    if line["type"] == "register":
        say(type="registered", hooks=[
            {{"hook": "before_prompt_build"}}, {{"hook": "before_tool_call", "matcher": ["{tool}"]}}])
    elif line["type"] == "hook" and line["hook"] == "before_prompt_build":
        say(type="result", call=line["call"], result={{"prependContext": stamp}})
    elif line["type"] == "hook":
        say(type="result", call=line["call"], result={{"block": True, "blockReason": stamp}})
    elif line["type"] == "stop":
        break
"#
    )
}
