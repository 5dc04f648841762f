//! The built-in plugin `canon`: the texts that an agent's workspace lives by, in the prompt of whichever model is about to
//! answer.
//!
//! A reason (new session, model switch, long idle, every so many turns) makes it read the files. In the mode `sticky` what
//! was read is repeated, byte for byte, in every request of the session to that model, until the next reason: no turn is
//! without it, and providers can cache the prefix. In `selective` only turns with a reason carry it, and the turns between do
//! *not*. In `always` every turn reads. What a turn did counts only when an attempt that carried the canon answered.
//!
//! | Module | Says |
//! |---|---|
//! | [`decide`] | when the canon is due |
//! | [`observer`] | who is told what it does |

pub mod decide;
mod file;
mod library;
pub mod observer;
mod recent;
mod session;
mod settings;
mod text;

use std::sync::Arc;

use futures::FutureExt;
use serde_json::Value;
use understudy_messages::clock::Clock;
use understudy_messages::hooks::{HookContext, HookResult, PromptContribution, TurnMarks};
use understudy_messages::ids::{ModelRef, Name};

use self::decide::{Cause, Mark, Step};
use self::library::Library;
use self::observer::{CanonObserver, Evaluation};
use self::session::{EPHEMERAL, Plan, Process, Request, Session};
use self::settings::Settings;
use self::text::Canon;
use crate::native::{NativeApi, NativePlugin};
use crate::registration::HookOptions;

/// The plugin's id.
pub const ID: &str = "canon";

/// What the plugin needs of the gateway.
#[derive(Clone)]
pub struct CanonOptions {
    /// The time.
    pub clock: Clock,
    /// Who is told.
    pub observer: Arc<dyn CanonObserver>,
}

/// The plugin. What it remembers lies with the sessions: instances come and go with their settings.
pub fn plugin(options: CanonOptions) -> impl NativePlugin {
    Plugin {
        options,
        process: Arc::default(),
    }
}

struct Plugin {
    options: CanonOptions,
    process: Arc<Process>,
}

impl NativePlugin for Plugin {
    fn id(&self) -> &str {
        ID
    }

    fn register(&self, api: &mut NativeApi, settings: &Value) -> Result<(), String> {
        let mut settings = Settings::read(settings)?;
        std::mem::take(&mut settings.warnings)
            .into_iter()
            .for_each(|warning| api.warn(warning));
        let files = std::mem::take(&mut settings.files);
        let instance = Arc::new(Instance {
            options: self.options.clone(),
            process: self.process.clone(),
            library: Arc::new(Library::new(files)),
            settings,
        });
        let handler = Arc::new(move |_, context: Arc<HookContext>, _| {
            let instance = instance.clone();
            async move { Ok(instance.prompt(&context).await) }.boxed()
        });
        api.on("before_prompt_build", HookOptions::default(), handler);
        Ok(())
    }
}

/// The plugin with the settings of one instance.
struct Instance {
    options: CanonOptions,
    process: Arc<Process>,
    library: Arc<Library>,
    settings: Settings,
}

impl Instance {
    async fn prompt(&self, context: &HookContext) -> HookResult {
        let Some(workspace) = context.workspace_dir.as_deref() else {
            return self.nothing(Evaluation::NoWorkspace);
        };
        let model = model(context);
        let slots = context.session_slots.as_ref();
        let session = slots.and_then(|slots| self.process.session(slots, workspace));
        let request = Request {
            run: context.run_id.as_deref(),
            model: &model,
            now: self.options.clock.wall(),
        };
        let plan = match &session {
            Some(session) => session.plan(&self.settings.rules, &request),
            None => EPHEMERAL,
        };
        let cause = match plan.step {
            Step::Read(cause) => cause,
            Step::Repeat => Cause::Repeat,
            Step::Nothing => return self.nothing(Evaluation::Skipped),
        };
        let canon = match plan.kept.clone() {
            Some(kept) => Some(kept),
            None => self.library.read(workspace, self.options.clock.wall()).await,
        };
        let Some(canon) = canon else {
            return self.nothing(Evaluation::Empty);
        };
        self.tell(cause, &plan, &model, &canon);
        let marks = session
            .map(|session| self.marks(session, &request, &plan, &canon))
            .unwrap_or_default();
        HookResult::Prompt(PromptContribution {
            prepend_system_context: Some(canon.text.clone()),
            marks,
            ..PromptContribution::default()
        })
    }

    fn nothing(&self, result: Evaluation) -> HookResult {
        self.options.observer.evaluated(result);
        HookResult::None
    }

    fn tell(&self, cause: Cause, plan: &Plan, model: &ModelRef, canon: &Canon) {
        self.options.observer.injected(cause, canon.text.len());
        let result = match cause {
            Cause::Repeat => Evaluation::Repeated,
            Cause::Due(_) | Cause::EveryTurn => Evaluation::Injected,
        };
        self.options.observer.evaluated(result);
        if self.settings.log && result == Evaluation::Injected {
            tracing::info!(
                reason = cause.as_label(),
                turn = plan.turn,
                %model,
                canon = format_args!("{:016x}", canon.hash),
                bytes = canon.text.len(),
                "canon injected"
            );
        }
    }

    /// What is noted down when this request is answered. A repetition notes nothing: the reason that it repeats has.
    fn marks(&self, session: Arc<Session>, request: &Request<'_>, plan: &Plan, canon: &Arc<Canon>) -> TurnMarks {
        if plan.step == Step::Repeat {
            return TurnMarks::default();
        }
        self.process.note(canon);
        session.keep(request, canon);
        let mark = Mark {
            model: request.model.clone(),
            canon: Ok(canon.clone()),
            turn: plan.turn,
            at: request.now,
        };
        TurnMarks::on_answer(move || session.mark(mark.clone()))
    }
}

/// The model about to answer.
fn model(context: &HookContext) -> ModelRef {
    let known = |name: &Option<Name>| name.clone().unwrap_or_else(|| Name::from("unknown"));
    ModelRef::new(known(&context.model_provider_id), known(&context.model_id))
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
