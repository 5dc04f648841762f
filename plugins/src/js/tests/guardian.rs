//! The original canon plugin, unmodified, turn by turn.

use understudy_messages::hooks::{Hook, PromptContribution};

use super::*;

/// Its folder, beside the project; nothing where it is absent.
fn original() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/plugins/canon-guardian");
    let there = folder.join("index.js").is_file();
    if !there {
        println!("left out: {} is absent", folder.display());
    }
    there.then_some(folder)
}

struct Guardian {
    instance: JsInstance,
    clock: Clock,
    workspace: Folder,
}

impl Guardian {
    async fn load(settings: Value) -> Option<Self> {
        let clock = Clock::movable();
        clock.hold();
        let workspace = Folder::new();
        workspace.write("ws/AGENTS.md", "Be kind.");
        workspace.write("ws-evil/AGENTS.md", "Be evil.");
        let options = JsOptions {
            settings,
            roots: vec![workspace.0.join("ws")],
            clock: clock.clone(),
            ..JsOptions::new("canon-guardian", original()?, "./index.js")
        };
        let instance = JsInstance::load(options).await.expect("it loads");
        let registration = instance.registration();
        assert_eq!(registration.hooks.len(), 1);
        assert_eq!(registration.hooks[0].hook, Hook::BeforePromptBuild);
        assert!(registration.warnings.is_empty(), "{:?}", registration.warnings);
        Some(Self {
            instance,
            clock,
            workspace,
        })
    }

    /// One turn of a session to a model: what is put before the system prompt.
    async fn turn(&self, session: &str, model: &str) -> Option<String> {
        let context = HookContext {
            session_id: Some(session.to_owned()),
            workspace_dir: Some(path(&self.workspace.0.join("ws")).to_owned()),
            model_provider_id: Some("lead".into()),
            model_id: Some(model.into()),
            ..HookContext::default()
        };
        let call = CallHook {
            context: Arc::new(context),
            ..prompt_call(0)
        };
        match self.instance.call_hook(call).await {
            Ok(HookResult::Prompt(PromptContribution {
                prepend_system_context, ..
            })) => prepend_system_context,
            Ok(HookResult::None) => None,
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn the_original_plugin_decides_turn_by_turn() {
    let settings = json!({ "injectionInterval": 5, "restartIdleMs": 3_600_000 });
    let Some(guardian) = Guardian::load(settings).await else {
        return;
    };
    let canon = Some("<!-- canon-guardian: AGENTS.md -->\nBe kind.".to_owned());
    assert_eq!(guardian.turn("s1", "a").await, canon, "new session");
    assert_eq!(guardian.turn("s1", "a").await, None, "quiet");
    assert_eq!(guardian.turn("s1", "b").await, canon, "model switch");
    assert_eq!(guardian.turn("s1", "b").await, None, "quiet");
    assert_eq!(guardian.turn("s1", "b").await, canon, "every fifth");
    guardian.clock.advance(Duration::from_secs(3600));
    assert_eq!(guardian.turn("s1", "b").await, None, "not idle for long enough");
    guardian.clock.advance(Duration::from_millis(1));
    assert_eq!(guardian.turn("s1", "b").await, canon, "idle");
    assert_eq!(guardian.turn("s2", "b").await, canon, "another session");
}

#[tokio::test]
async fn the_original_plugin_names_files_that_are_missing_and_paths_that_are_unsafe() {
    let files = json!(["AGENTS.md", "SOUL.md", "../../etc/passwd", "../ws-evil/AGENTS.md"]);
    let Some(guardian) = Guardian::load(json!({ "canonFiles": files })).await else {
        return;
    };
    let expected = [
        "<!-- canon-guardian: AGENTS.md -->\nBe kind.",
        "<!-- canon-guardian: SOUL.md not found -->",
        "<!-- canon-guardian: refused unsafe path \"../../etc/passwd\" -->",
        // its own check by text lets this one pass; it is not read all the same
        "<!-- canon-guardian: ../ws-evil/AGENTS.md not found -->",
    ];
    assert_eq!(guardian.turn("s1", "a").await, Some(expected.join("\n\n---\n\n")));
}
