//! Turns with plugins at work: what they are told, what they change, what they refuse.

mod authority;
mod calls;
mod canon;
mod chain;
mod gate;
mod observed;
mod policies;
mod prompts;
mod refused;
mod rounds;
mod terminal;

use std::sync::{Arc, Mutex};

use actix::{Actor, Context, Handler, ResponseFuture};
use serde_json::{Value, json};
use understudy_actors::hooks::{Access, LoadedPlugin};
use understudy_messages::hooks::{Hook, HookContext, HookEvent, HookResult};
use understudy_messages::plugin::{CallError, CallHook};
use understudy_plugins::Instance;
use understudy_plugins::native::{AsyncHandler, NativeApi, NativeInstance, NativePlugin};
use understudy_plugins::registration::{Handler as Registered, HookOptions, Registration};

use crate::stage::Reply;

/// What handlers were told, in order.
#[derive(Clone, Default)]
pub(crate) struct Heard(Arc<Mutex<Vec<Call>>>);

/// One call of a handler.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) hook: Hook,
    pub(crate) facts: Value,
    pub(crate) context: Value,
    pub(crate) event: HookEvent,
}

impl Heard {
    fn add(&self, event: &HookEvent, context: &HookContext) {
        self.0.lock().expect("sound").push(Call {
            hook: event.hook(),
            facts: Value::Object(event.facts()),
            context: context.to_json(),
            event: event.clone(),
        });
    }

    pub(crate) fn all(&self) -> Vec<Call> {
        self.0.lock().expect("sound").clone()
    }

    pub(crate) fn of(&self, hook: Hook) -> Vec<Call> {
        self.all().into_iter().filter(|call| call.hook == hook).collect()
    }

    /// Waits until this many calls of `hook` have been made: nobody waits for events that are only fired.
    pub(crate) async fn await_of(&self, hook: Hook, count: usize) -> Vec<Call> {
        loop {
            let calls = self.of(hook);
            if calls.len() >= count {
                return calls;
            }
            tokio::task::yield_now().await;
        }
    }
}

/// A plugin of quick handlers.
pub(crate) struct Plugin {
    id: &'static str,
    conversation: bool,
    registration: Registration,
}

impl Plugin {
    pub(crate) fn new(id: &'static str) -> Self {
        Self {
            id,
            conversation: true,
            registration: Registration::default(),
        }
    }

    fn without_conversation(id: &'static str) -> Self {
        Self {
            conversation: false,
            ..Self::new(id)
        }
    }

    pub(crate) fn on(
        mut self,
        hook: Hook,
        priority: i32,
        handler: impl Fn(&HookEvent, &HookContext) -> Result<HookResult, String> + Send + Sync + 'static,
    ) -> Self {
        let options = HookOptions {
            priority,
            ..HookOptions::default()
        };
        self.registration
            .on(hook.as_label(), options, Registered::Quick(Arc::new(handler)));
        self
    }

    /// Answers always the same.
    pub(crate) fn says(self, hook: Hook, answer: Value) -> Self {
        self.on(hook, 0, move |_, _| read(hook, &answer))
    }

    /// Notes what it is told.
    pub(crate) fn hears(self, hook: Hook, heard: &Heard) -> Self {
        let heard = heard.clone();
        self.on(hook, 0, move |event, context| {
            heard.add(event, context);
            Ok(HookResult::None)
        })
    }

    pub(crate) fn loaded(self) -> LoadedPlugin {
        LoadedPlugin {
            id: self.id.into(),
            access: Access {
                conversation: self.conversation,
                injection: true,
                ..Access::default()
            },
            registration: Arc::new(self.registration),
            port: None,
            tools: None,
        }
    }
}

pub(crate) fn read(hook: Hook, answer: &Value) -> Result<HookResult, String> {
    HookResult::read(hook, answer.clone()).map_err(|invalid| invalid.to_string())
}

/// What plugins add to a system prompt, as models are told it.
fn fenced(text: &str) -> String {
    format!("---\n[added by plugins of this gateway, not by the workspace]\n\n{text}\n---")
}

/// A plugin with one handler that may wait.
struct Waits(Hook, HookOptions, AsyncHandler);

impl NativePlugin for Waits {
    fn id(&self) -> &str {
        "waits"
    }

    fn register(&self, api: &mut NativeApi, _: &Value) -> Result<(), String> {
        api.on(self.0.as_label(), self.1.clone(), self.2.clone());
        Ok(())
    }
}

struct Port(NativeInstance);

impl Actor for Port {
    type Context = Context<Self>;
}

impl Handler<CallHook> for Port {
    type Result = ResponseFuture<Result<HookResult, CallError>>;

    fn handle(&mut self, call: CallHook, _: &mut Context<Self>) -> Self::Result {
        self.0.call_hook(call)
    }
}

/// A plugin whose only handler may wait. To be called in an actix system.
fn waiting(id: &'static str, hook: Hook, options: HookOptions, handler: AsyncHandler) -> LoadedPlugin {
    let instance = NativeInstance::load(&Waits(hook, options, handler), &Value::Null).expect("registers");
    let registration = Arc::new(instance.registration().clone());
    LoadedPlugin {
        port: Some(Port(instance).start().recipient()),
        registration,
        ..Plugin::new(id).loaded()
    }
}

/// The paths of the three formats, and a question in each.
fn asked(stream: bool) -> [(&'static str, Value); 3] {
    [
        (
            "/v1/chat/completions",
            json!({ "model": "main", "stream": stream, "messages": [{ "role": "user", "content": "hi" }] }),
        ),
        (
            "/v1/responses",
            json!({ "model": "main", "stream": stream, "input": "hi" }),
        ),
        (
            "/v1/messages",
            json!({ "model": "main", "stream": stream, "max_tokens": 9,
                "messages": [{ "role": "user", "content": "hi" }] }),
        ),
    ]
}

/// The words of an error in any format.
pub(crate) fn message(reply: &Reply) -> String {
    reply.json()["error"]["message"].as_str().unwrap_or_default().to_owned()
}
