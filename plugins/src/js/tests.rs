//! Real engines run small plugins. Where an engine must be interrupted, deadlines are some milliseconds of the real clock.

mod calls;
mod fetches;
mod guardian;
mod limits;
mod place;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use understudy_messages::clock::Clock;
use understudy_messages::hooks::{HookContext, HookEvent, HookResult, Parsed, Snapshot};
use understudy_messages::plugin::{CallError, CallHook, CallTool};

use super::{JsInstance, JsOptions};
use crate::Instance;

/// A folder that goes with its test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("understudy-js-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Self(path.canonicalize().expect("a true path"))
    }

    fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(&path, text).expect("a file");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// An instance, and the folder that it came from.
struct Loaded {
    instance: JsInstance,
    _folder: Folder,
}

/// Loads a plugin whose registration is `body`, with `api` at hand.
async fn load(body: &str) -> Loaded {
    load_with(body, |_, _| {}).await
}

async fn load_with(body: &str, options: impl FnOnce(&mut JsOptions, &Folder)) -> Loaded {
    try_load(&entry(body), options).await.expect("a sound plugin")
}

fn entry(body: &str) -> String {
    format!(
        "import {{ definePluginEntry }} from \"openclaw/plugin-sdk/plugin-entry\";\n\
         export default definePluginEntry({{ id: \"sample\", async register(api) {{\n{body}\n}} }});"
    )
}

async fn try_load(entry: &str, options: impl FnOnce(&mut JsOptions, &Folder)) -> Result<Loaded, String> {
    let folder = Folder::new();
    folder.write("plugin/index.js", entry);
    let mut given = JsOptions::new("sample", folder.0.join("plugin"), "./index.js");
    options(&mut given, &folder);
    let instance = JsInstance::load(given).await?;
    Ok(Loaded {
        instance,
        _folder: folder,
    })
}

impl Loaded {
    /// Calls the first handler for a prompt, with nothing else known.
    async fn ask(&self) -> Result<Value, CallError> {
        self.ask_number(0).await
    }

    async fn ask_number(&self, handler: u32) -> Result<Value, CallError> {
        text_of(self.instance.call_hook(prompt_call(handler)).await)
    }

    /// Calls a handler that is given up after `within`.
    async fn ask_within(&self, handler: u32, within: Duration) -> Result<Value, CallError> {
        let call = prompt_call(handler);
        let cancel = call.cancel.clone();
        let answer = self.instance.call_hook(call);
        let deadline = async {
            Clock::real().sleep(within).await;
            cancel.cancel();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            answer = answer => text_of(answer),
            () = deadline => unreachable!("it never ends"),
        }
    }
}

/// What a handler of `before_prompt_build` put before the system prompt.
fn text_of(answer: Result<HookResult, CallError>) -> Result<Value, CallError> {
    answer.map(|answer| match answer {
        HookResult::Prompt(prompt) => prompt.prepend_system_context.map_or(Value::Null, Value::from),
        HookResult::None => Value::Null,
        other => json!(format!("{other:?}")),
    })
}

fn snapshot() -> Arc<Snapshot> {
    Snapshot::new(|| Parsed {
        prompt: "newest".into(),
        system_prompt: None,
        messages: [json!({ "role": "user", "content": [{ "type": "text", "text": "newest" }] })].into(),
        tools: None,
    })
}

fn prompt_call(handler: u32) -> CallHook {
    call(
        handler,
        HookEvent::BeforePromptBuild {
            conversation: snapshot(),
        },
        false,
    )
}

fn call(handler: u32, event: HookEvent, conversation: bool) -> CallHook {
    CallHook {
        handler,
        event: Arc::new(event),
        context: Arc::new(HookContext {
            session_id: Some("s1".to_owned()),
            ..HookContext::default()
        }),
        conversation,
        cancel: CancellationToken::new(),
    }
}

fn tool_call(tool: &str, params: Value) -> CallTool {
    CallTool {
        tool: tool.to_owned(),
        call_id: "c1".to_owned(),
        params: params.as_object().cloned().unwrap_or_default(),
        context: Arc::default(),
        cancel: CancellationToken::new(),
    }
}

/// A handler of the first prompt hook that answers the value of `code`, as text.
fn telling(code: &str) -> String {
    format!("api.on(\"before_prompt_build\", async (event, ctx) => ({{ prependSystemContext: String({code}) }}));")
}

fn failed(words: &str) -> Result<Value, CallError> {
    Err(CallError::Failed(words.to_owned()))
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a text")
}
