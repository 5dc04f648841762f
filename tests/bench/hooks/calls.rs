//! Calls of handlers, one after the other, and what each one takes.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use understudy::scrape::Scrape;
use understudy_actors::hooks::Hooks;
use understudy_actors::telemetry::HOOK_CALLS;
use understudy_messages::clock::Clock;
use understudy_messages::hooks::{Hook, HookContext, HookEvent, HookResult, ToolFate};
use understudy_messages::plugin::TurnHooks;
use understudy_plugins::registration::{Handler, HookOptions, Registration};
use understudy_tests::bench::cpu;
use understudy_tests::bench::hooks::{conversation, snapshot, tool_call};

use crate::plugins::{House, Look, Plugin};

/// How long one row is called in a round.
const PHASE: Duration = Duration::from_millis(150);
/// Calls between two looks at the clock.
const AT_ONCE: u32 = 8;

/// What a call takes.
#[derive(Clone, Copy)]
pub struct Cost {
    /// From the call to its answer.
    pub time: Duration,
    /// CPU of the gateway's process, all threads.
    pub cpu: Duration,
}

/// Calls that are measured.
pub struct Row {
    pub group: &'static str,
    pub name: String,
    hook: Hook,
    hooks: Hooks,
    conversation: Bytes,
}

/// Everything that is called.
pub struct Bed {
    house: House,
    rows: Vec<Row>,
}

impl Bed {
    /// Loads every plugin; `endpoint` is the service behind the webhook.
    pub async fn make(endpoint: SocketAddr) -> Self {
        let mut bed = Self {
            house: House::new(),
            rows: Vec::new(),
        };
        bed.add_hosts(endpoint).await;
        bed.add_guards(endpoint).await;
        nothing_is_copied(&bed.house, &conversation(200, 6)).await;
        bed
    }

    async fn add_hosts(&mut self, endpoint: SocketAddr) {
        let hosts = [
            ("native, quick", Plugin::Quick(Look::Nothing, 1)),
            ("native, by message", Plugin::Native),
            #[cfg(feature = "js")]
            ("js", Plugin::Js(Look::Nothing)),
            ("process", Plugin::Process),
            ("webhook", Plugin::Webhook(endpoint)),
        ];
        let short = conversation(3, 2);
        for (group, hook) in [
            ("before_prompt_build, 3 messages, 0.6 KB", Hook::BeforePromptBuild),
            ("before_tool_call, 3 messages, 0.6 KB", Hook::BeforeToolCall),
        ] {
            for (name, plugin) in hosts {
                self.add(group, name, hook, &short, plugin, true).await;
            }
        }
    }

    async fn add_guards(&mut self, endpoint: SocketAddr) {
        let group = "before_tool_call, 200 messages, 100 KB";
        let long = conversation(200, 6);
        let rows = [
            ("native, looks at all of it", Plugin::Quick(Look::All, 1), true),
            ("… 4 handlers", Plugin::Quick(Look::All, 4), true),
            ("… 16 handlers", Plugin::Quick(Look::All, 16), true),
            ("native, looks at the last message", Plugin::Quick(Look::Last, 1), true),
            ("native, does not look", Plugin::Quick(Look::Nothing, 1), true),
            ("native, may not look", Plugin::Quick(Look::Nothing, 1), false),
            #[cfg(feature = "js")]
            ("js, looks at all of it", Plugin::Js(Look::All), true),
            #[cfg(feature = "js")]
            ("js, looks at the last message", Plugin::Js(Look::Last), true),
            #[cfg(feature = "js")]
            ("js, does not look", Plugin::Js(Look::Nothing), true),
            #[cfg(feature = "js")]
            ("js, may not look", Plugin::Js(Look::Nothing), false),
            ("process, is sent all of it", Plugin::Process, true),
            ("process, may not look", Plugin::Process, false),
            ("webhook, is sent all of it", Plugin::Webhook(endpoint), true),
            ("webhook, may not look", Plugin::Webhook(endpoint), false),
        ];
        for (name, plugin, sees) in rows {
            self.add(group, name, Hook::BeforeToolCall, &long, plugin, sees).await;
        }
    }

    async fn add(
        &mut self,
        group: &'static str,
        name: &str,
        hook: Hook,
        conversation: &Bytes,
        plugin: Plugin,
        sees: bool,
    ) {
        let row = Row {
            group,
            name: name.to_owned(),
            hook,
            hooks: self.house.hooks(plugin, sees).await,
            conversation: conversation.clone(),
        };
        row.call().await;
        self.rows.push(row);
    }

    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Ends every plugin.
    ///
    /// # Panics
    /// When a call did not get what it should have got: no opinion.
    pub async fn stop(&self) {
        let scrape = Scrape::parse(&self.house.scrape());
        let count = |labels: &[(&str, &str)]| scrape.count(HOOK_CALLS.name, labels);
        assert_eq!(count(&[]), count(&[("outcome", "ok")]), "a call failed");
        self.house.stop().await;
    }
}

impl Row {
    /// Calls for a while.
    pub async fn sample(&self) -> Cost {
        let clock = Clock::real();
        let (began, spent) = (clock.now(), cpu());
        let mut calls = 0;
        while clock.now() < began + PHASE {
            for _ in 0..AT_ONCE {
                self.call().await;
            }
            calls += AT_ONCE;
        }
        Cost {
            time: clock.now().duration_since(began) / calls,
            cpu: (cpu() - spent) / calls,
        }
    }

    /// One call, of an event that nobody has looked at.
    async fn call(&self) {
        let conversation = snapshot(&self.conversation);
        let context = Arc::new(HookContext {
            agent_id: Some("bench".into()),
            ..HookContext::default()
        });
        if self.hook == Hook::BeforePromptBuild {
            let event = HookEvent::BeforePromptBuild { conversation };
            assert!(self.hooks.contributions(event, context).await.is_empty());
            return;
        }
        let fate = self.hooks.judge(tool_call(conversation), context).await;
        assert_eq!(fate, ToolFate::Allowed { params: None }, "{}", self.name);
    }
}

/// Sixteen handlers are shown the very same messages.
///
/// # Panics
/// When they are not.
async fn nothing_is_copied(house: &House, body: &Bytes) {
    let shown: Arc<Mutex<Vec<usize>>> = Arc::default();
    let mut registration = Registration::default();
    for _ in 0..16 {
        let shown = shown.clone();
        let note = move |event: &HookEvent, _: &HookContext| {
            let messages = event.conversation().map(|it| it.look().messages.as_ptr() as usize);
            shown.lock().expect("sound").extend(messages);
            Ok(HookResult::None)
        };
        registration.on(
            "before_tool_call",
            HookOptions::default(),
            Handler::Quick(Arc::new(note)),
        );
    }
    let hooks = house.alone(registration, None, true);
    hooks.judge(tool_call(snapshot(body)), Arc::default()).await;
    let shown = shown.lock().expect("sound");
    let places: HashSet<&usize> = shown.iter().collect();
    assert_eq!(
        (shown.len(), places.len()),
        (16, 1),
        "every handler is shown one and the same"
    );
}
