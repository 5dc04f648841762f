use std::sync::Mutex;
use std::time::Duration;

use serde_json::json;
use tokio_util::sync::CancellationToken;
use understudy_messages::hooks::{HookEvent, Parsed, SessionSlots, Snapshot};
use understudy_messages::plugin::CallHook;

use super::testing::Folder;
use super::*;
use crate::Instance as _;
use crate::native::NativeInstance;

/// What the observer was told.
#[derive(Default)]
struct Told {
    evaluations: Mutex<Vec<&'static str>>,
    injections: Mutex<Vec<(&'static str, usize)>>,
}

impl CanonObserver for Told {
    fn evaluated(&self, result: Evaluation) {
        self.evaluations.lock().expect("whole").push(result.as_label());
    }

    fn injected(&self, cause: Cause, bytes: usize) {
        self.injections.lock().expect("whole").push((cause.as_label(), bytes));
    }
}

/// The plugin in one process, and an instance of it.
struct House {
    plugin: Box<dyn NativePlugin>,
    instance: NativeInstance,
    clock: Clock,
    told: Arc<Told>,
}

impl House {
    fn with(settings: Value) -> Self {
        let (clock, told) = (Clock::movable(), Arc::new(Told::default()));
        let plugin = Box::new(plugin(CanonOptions {
            clock: clock.clone(),
            observer: told.clone(),
        }));
        let instance = NativeInstance::load(&*plugin, &settings).expect("loads");
        Self {
            plugin,
            instance,
            clock,
            told,
        }
    }

    fn mode(mode: &str) -> Self {
        Self::with(json!({ "mode": mode }))
    }

    /// What one candidate's prompt gets.
    async fn prompt(&self, context: &HookContext) -> PromptContribution {
        let conversation = Snapshot::new(Parsed::default);
        let call = CallHook {
            handler: 0,
            event: Arc::new(HookEvent::BeforePromptBuild {
                conversation: conversation.clone(),
            }),
            context: Arc::new(context.clone()),
            conversation: true,
            cancel: CancellationToken::new(),
        };
        let result = self.instance.call_hook(call).await.expect("an answer");
        assert!(!conversation.was_looked_at(), "the canon needs no conversation");
        match result {
            HookResult::Prompt(prompt) => prompt,
            HookResult::None => PromptContribution::default(),
            other => panic!("{other:?}"),
        }
    }

    /// A turn that asks these models one after the other; the last one answers. What each was told, without banners.
    async fn turn(&self, session: &HookContext, run: u32, models: &[&str]) -> Vec<Option<String>> {
        let mut told = Vec::new();
        let mut last = TurnMarks::default();
        for model in models {
            let prompt = self.prompt(&asks(session, run, model)).await;
            last = prompt.marks;
            told.push(prompt.prepend_system_context.map(|text| body(&text)));
        }
        last.commit();
        told
    }

    /// A turn that nobody answers.
    async fn failed_turn(&self, session: &HookContext, run: u32, models: &[&str]) -> Vec<bool> {
        let mut told = Vec::new();
        for model in models {
            let prompt = self.prompt(&asks(session, run, model)).await;
            told.push(prompt.prepend_system_context.is_some());
        }
        told
    }

    fn reasons(&self) -> Vec<&'static str> {
        let injections = self.told.injections.lock().expect("whole");
        injections.iter().map(|(reason, _)| *reason).collect()
    }
}

fn body(text: &str) -> String {
    text.strip_prefix("[workspace canon: AGENTS.md]\n")
        .expect("a banner")
        .to_owned()
}

fn session(id: &str, workspace: &Folder) -> HookContext {
    HookContext {
        session_id: Some(id.to_owned()),
        session_slots: Some(SessionSlots::default()),
        workspace_dir: Some(workspace.workspace("")),
        ..HookContext::default()
    }
}

/// The same session, come back from the store.
fn passivated(session: &HookContext) -> HookContext {
    let stored = session.session_slots.as_ref().expect("a lasting one").stored();
    HookContext {
        session_slots: Some(SessionSlots::restored(stored)),
        ..session.clone()
    }
}

fn asks(session: &HookContext, run: u32, model: &str) -> HookContext {
    HookContext {
        run_id: Some(format!("run {run}")),
        model_provider_id: Some("p".into()),
        model_id: Some(model.into()),
        ..session.clone()
    }
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[tokio::test]
async fn a_fallback_is_told_the_canon_and_so_is_the_primary_that_comes_back_case_20() {
    let folder = Folder::with("canon");
    let (house, session) = (House::mode("selective"), session("s", &folder));
    assert_eq!(house.turn(&session, 1, &["a"]).await, [some("canon")]);
    assert_eq!(house.turn(&session, 2, &["a"]).await, [None]);
    assert_eq!(house.turn(&session, 3, &["a", "b"]).await, [None, some("canon")]);
    assert_eq!(house.turn(&session, 4, &["a"]).await, [some("canon")]);
    assert_eq!(house.turn(&session, 5, &["a"]).await, [None]);
    assert_eq!(house.reasons(), ["new_session", "model_switch", "model_switch"]);
    let evaluations = house.told.evaluations.lock().expect("whole");
    let (injected, skipped) = ("injected", "skipped");
    assert_eq!(*evaluations, [injected, skipped, skipped, injected, injected, skipped]);
}

#[tokio::test]
async fn the_canon_of_one_workspace_never_reaches_a_session_of_another_case_22() {
    let (one, two) = (Folder::with("of one"), Folder::with("of two"));
    for mode in ["sticky", "selective", "always"] {
        let house = House::mode(mode);
        for (name, folder, own) in [("x", &one, "of one"), ("y", &two, "of two")] {
            assert_eq!(house.turn(&session(name, folder), 1, &["a"]).await, [some(own)]);
        }
        // the same session, spoken in by agents of two workspaces
        let of_one = session("z", &one);
        let of_two = HookContext {
            session_slots: of_one.session_slots.clone(),
            ..session("z", &two)
        };
        for (session, own) in [(&of_one, "of one"), (&of_two, "of two")] {
            assert_eq!(house.turn(session, 1, &["a"]).await, [some(own)], "{mode}");
        }
        let again = house.turn(&of_one, 2, &["a"]).await;
        assert!(again == [None] || again == [some("of one")], "{mode}: {again:?}");
    }
}

#[tokio::test]
async fn a_turn_that_failed_wholly_leaves_no_mark() {
    let folder = Folder::with("canon");
    let (house, session) = (House::mode("selective"), session("s", &folder));
    assert_eq!(house.failed_turn(&session, 1, &["a", "b"]).await, [true, true]);
    assert_eq!(house.failed_turn(&session, 2, &["a"]).await, [true]);
    assert_eq!(house.turn(&session, 3, &["a"]).await, [some("canon")]);
    assert_eq!(house.turn(&session, 4, &["a"]).await, [None]);
}

#[tokio::test]
async fn a_prompt_that_is_built_again_for_the_same_attempt_is_the_same() {
    let folder = Folder::with("one");
    for mode in ["sticky", "selective", "always"] {
        folder.write("AGENTS.md", "one");
        let (house, session) = (House::mode(mode), asks(&session("s", &folder), 1, "a"));
        let first = house.prompt(&session).await.prepend_system_context;
        folder.write("AGENTS.md", "two");
        assert_eq!(house.prompt(&session).await.prepend_system_context, first, "{mode}");
    }
}

#[tokio::test]
async fn an_edit_reaches_the_next_reading_and_sticky_repeats_until_then() {
    let folder = Folder::with("one");
    let sticky = House::with(json!({ "injectionInterval": 3 }));
    let always = House::mode("always");
    let (session, another) = (session("s", &folder), session("s", &folder));
    for (house, session) in [(&sticky, &session), (&always, &another)] {
        assert_eq!(house.turn(session, 1, &["a"]).await, [some("one")]);
    }
    folder.write("AGENTS.md", "three");
    assert_eq!(always.turn(&another, 2, &["a"]).await, [some("three")]);
    assert_eq!(sticky.turn(&session, 2, &["a"]).await, [some("one")]);
    // the same turn, prepared again: who knows it repeats it, another model reads
    assert_eq!(sticky.failed_turn(&session, 2, &["a", "b"]).await, [true, true]);
    assert_eq!(
        sticky.turn(&session, 3, &["a"]).await,
        [some("three")],
        "a third turn is due"
    );
    assert_eq!(sticky.turn(&session, 4, &["a"]).await, [some("three")]);
    let repeated_twice = ["new_session", "repeat", "repeat", "model_switch", "periodic", "repeat"];
    assert_eq!(sticky.reasons(), repeated_twice);
    assert_eq!(always.reasons(), ["new_session", "every_turn"]);
}

#[tokio::test]
async fn a_long_idle_session_is_told_again_and_a_passivated_one_is_not() {
    let folder = Folder::with("canon");
    let house = House::with(json!({ "mode": "selective", "restart_idle": "6h" }));
    let session = session("s", &folder);
    assert_eq!(house.turn(&session, 1, &["a"]).await, [some("canon")]);
    let session = passivated(&session);
    house.clock.advance(Duration::from_secs(5 * 3600));
    assert_eq!(house.turn(&session, 2, &["a"]).await, [None]);
    house.clock.advance(Duration::from_secs(2 * 3600));
    assert_eq!(house.turn(&session, 3, &["a"]).await, [some("canon")]);
    assert_eq!(house.reasons(), ["new_session", "restart_or_idle"]);
}

#[tokio::test]
async fn a_restart_is_a_reason_and_new_settings_are_none() {
    let folder = Folder::with("canon");
    let (mut house, session) = (House::mode("selective"), session("s", &folder));
    assert_eq!(house.turn(&session, 1, &["a"]).await, [some("canon")]);
    house.instance = NativeInstance::load(&*house.plugin, &json!({ "mode": "selective" })).expect("loads");
    assert_eq!(
        house.turn(&session, 2, &["a"]).await,
        [None],
        "an instance with new settings"
    );
    let restarted = House::mode("selective");
    assert_eq!(
        restarted.turn(&passivated(&session), 3, &["a"]).await,
        [some("canon")],
        "a new process"
    );
}

#[tokio::test]
async fn every_turn_of_an_ephemeral_session_is_a_new_session_and_leaves_no_mark() {
    let folder = Folder::with("canon");
    for mode in ["sticky", "selective"] {
        let house = House::mode(mode);
        for run in 1..4 {
            let session = HookContext {
                session_slots: None,
                ..session(&format!("run {run}"), &folder)
            };
            let told = house.turn(&session, run, &["a", "b"]).await;
            assert_eq!(told, [some("canon"), some("canon")]);
            let prompt = house.prompt(&asks(&session, run, "a")).await;
            assert!(prompt.marks.is_empty(), "nobody would ever look at it");
        }
        assert_eq!(house.reasons(), ["new_session"; 9]);
    }
}

#[tokio::test]
async fn a_workspace_without_a_canon_gets_one_as_soon_as_there_is_one() {
    let folder = Folder::new();
    let (house, session) = (House::mode("sticky"), session("s", &folder));
    assert_eq!(house.turn(&session, 1, &["a"]).await, [None]);
    folder.write("AGENTS.md", "late");
    assert_eq!(house.turn(&session, 2, &["a"]).await, [some("late")]);
    folder.remove("AGENTS.md");
    assert_eq!(
        house.turn(&session, 3, &["a"]).await,
        [some("late")],
        "repeated without a look"
    );
    assert_eq!(
        *house.told.evaluations.lock().expect("whole"),
        ["empty", "injected", "repeated"]
    );
}

#[tokio::test]
async fn an_agent_without_a_workspace_gets_nothing() {
    let house = House::mode("always");
    let nobody = asks(&HookContext::default(), 1, "a");
    assert_eq!(house.prompt(&nobody).await, PromptContribution::default());
    assert_eq!(*house.told.evaluations.lock().expect("whole"), ["no_workspace"]);
}

#[tokio::test]
async fn what_was_added_is_counted_in_bytes() {
    let folder = Folder::with("ünï");
    let house = House::mode("sticky");
    let prompt = house.prompt(&asks(&session("s", &folder), 1, "a")).await;
    let bytes = prompt.prepend_system_context.expect("canon").len();
    assert_eq!(*house.told.injections.lock().expect("whole"), [("new_session", bytes)]);
}

#[test]
fn a_refused_file_is_a_warning_of_the_registration_case_21() {
    let house = House::with(json!({ "canonFiles": ["../x", "AGENTS.md"] }));
    let registration = house.instance.registration();
    assert_eq!((registration.hooks.len(), registration.warnings.len()), (1, 1));
    assert!(registration.warnings[0].contains("../x"));
}

mod log;
