//! One plugin, from its settings to an instance at work.

use std::sync::Arc;
use std::time::Duration;

use crate::hooks::{Access, LoadedPlugin};
use crate::plugin::{PluginInstanceActor, Remake, Served};
use actix::{Actor, Arbiter};
use futures::FutureExt;
use understudy_messages::clock::Instant;
use understudy_messages::hooks::Hook;
use understudy_plugins::hosts::Load;
use understudy_plugins::manifest::HostKind;
use understudy_plugins::registration::Handler;
use understudy_plugins::{Instance, Registration};

use super::load::Building;
use super::required::is_guard;
use super::{Code, Failure, Level, Phase, Source, Working, policies, providers, routes, tools};

/// How long one plugin may take to register.
const REGISTER: Duration = Duration::from_secs(30);
/// What takes longer than this is said.
const QUICK: Duration = Duration::from_secs(1);
/// What is said of a guard whose new code judges nothing.
const NO_LONGER: &str = "guarded, and has registered nothing that guards: mend it, or say `required: false` in its entry where that is meant";

impl Building<'_> {
    /// Makes an instance of a plugin that is on, and puts it to work.
    pub(super) async fn begin(&mut self, source: &Source, access: &Access) -> Result<Working, Failure> {
        let make = self.maker(source.host, source.load.clone());
        let failed = |error| Failure::new(Phase::Register, error);
        let began = self.loader.supervision.clock.now();
        let instance = make().await.map_err(failed)?;
        self.note_if_slow(&source.load, began);
        // others have a way of their own to come back, or need none; services cannot run in two instances
        let registration = instance.registration();
        let lasts = matches!(source.host, HostKind::Native | HostKind::Js)
            && registration.is_by_message()
            && registration.services.is_empty();
        let working = self.put_to_work(source, access, instance, Some(make).filter(|_| lasts));
        if self.guards_no_longer(&source.load.id, &working.loaded.registration) {
            working.served.retire().await;
            return Err(Failure {
                phase: Phase::Register,
                error: NO_LONGER.to_owned(),
                guards: true,
            });
        }
        match self.start_services(&working).await {
            Ok(()) => Ok(working),
            Err(error) => {
                working.served.retire().await;
                Err(Failure {
                    phase: Phase::Start,
                    error,
                    guards: is_guard(&working.loaded.registration),
                })
            }
        }
    }

    /// Whoever registers slowly delays all that come after it.
    fn note_if_slow(&mut self, load: &Load, began: Instant) {
        let took = self.loader.supervision.clock.now().duration_since(began);
        if took > QUICK {
            let message =
                "took more than a second to register: what is slow belongs into a service, or into the first use";
            self.note(
                Code::SlowRegistration,
                Level::Warn,
                Phase::Register,
                Some(&load.id),
                message,
            );
        }
    }

    /// At startup a service that does not start is its plugin's failure alone. In a reload they start when all have registered.
    async fn start_services(&self, working: &Working) -> Result<(), String> {
        match self.serves {
            true => working.served.start_services().await,
            false => Ok(()),
        }
    }

    /// What makes instances of a plugin, each within its time.
    fn maker(&self, host: HostKind, load: Load) -> Remake {
        let (hosts, clock) = (self.loader.hosts.clone(), self.loader.supervision.clock.clone());
        Arc::new(move || {
            let (hosts, load, clock) = (hosts.clone(), load.clone(), clock.clone());
            async move {
                match clock.timeout_at(clock.now() + REGISTER, hosts.load(host, load)).await {
                    Ok(loaded) => loaded.map_err(|error| format!("did not register: {error}")),
                    Err(_elapsed) => Err("did not register in time".to_owned()),
                }
            }
            .boxed()
        })
    }

    fn put_to_work(
        &mut self,
        source: &Source,
        access: &Access,
        instance: Arc<dyn Instance>,
        again: Option<Remake>,
    ) -> Working {
        let registration = self.admit(&source.load, access, instance.registration());
        if let Some(capture) = &source.capture {
            self.digests.push((source.load.id.clone(), capture.digest_text()));
        }
        let id = source.load.id.clone();
        let (files, supervision) = (source.capture.clone(), &self.loader.supervision);
        let served = match again {
            Some(again) => Served::lasting(id, instance, again, files, supervision),
            None => Served::new(id, instance, files, supervision),
        };
        let actor = takes_messages(&registration).then(|| {
            let arbiter = Arbiter::with_tokio_rt(self.loader.runtime).handle();
            let works = served.clone();
            let actor = PluginInstanceActor::start_in_arbiter(&arbiter, move |_| PluginInstanceActor::new(works));
            served.works_on(actor.clone().recipient(), arbiter);
            actor
        });
        let has_engine = registration.context_engine;
        Working {
            served,
            loaded: LoadedPlugin {
                id: source.load.id.clone(),
                access: access.clone(),
                registration: Arc::new(registration),
                port: actor.clone().map(actix::Addr::recipient),
                tools: actor.clone().map(actix::Addr::recipient),
            },
            routes: actor.clone().map(actix::Addr::recipient),
            engine: actor.filter(|_| has_engine).map(actix::Addr::recipient),
        }
    }

    /// What of a registration is the plugin's to register; the rest is said.
    fn admit(&mut self, load: &Load, access: &Access, registered: &Registration) -> Registration {
        let (mut registration, manifest) = (registered.clone(), load.manifest.as_deref());
        let mut warnings = std::mem::take(&mut registration.warnings);
        warnings.extend(self.tools.admit(&load.id, manifest, &mut registration));
        let mut refused = policies::admit(manifest, &mut registration);
        refused.extend(routes::admit(&load.id, &mut registration));
        refused.extend(self.commands.admit(&load.id, &mut registration));
        refused.extend(providers::admit(manifest, &mut registration));
        for refusal in refused {
            self.note(
                Code::RegistrationRefused,
                Level::Error,
                Phase::Register,
                Some(&load.id),
                refusal,
            );
        }
        warnings.extend(policies::absent(manifest, &registration));
        warnings.extend(tools::absent(manifest, registered));
        warnings.extend(providers::absent(manifest, &registration));
        if judges_tools(&registration) && !access.conversation {
            let message = "guards tools without seeing the conversation: it gets the narrow event, unless \
                           hooks.allowConversationAccess is true";
            warnings.push(message.to_owned());
        }
        for warning in warnings {
            self.note(
                Code::RegistrationWarning,
                Level::Warn,
                Phase::Register,
                Some(&load.id),
                warning,
            );
        }
        registration
    }
}

fn judges_tools(registration: &Registration) -> bool {
    let guards = registration.hooks.iter().any(|hook| hook.hook == Hook::BeforeToolCall);
    guards || !registration.policies.is_empty()
}

/// Whether a plugin has anything that is called by message.
fn takes_messages(registration: &Registration) -> bool {
    let hooks = registration.hooks.iter().map(|hook| &hook.handler);
    let policies = registration.policies.iter().map(|policy| &policy.handler);
    let by_message = |handler: &Handler| matches!(handler, Handler::Instance(_));
    let beside = !registration.services.is_empty() || !registration.routes.is_empty() || registration.context_engine;
    beside || !registration.tools.is_empty() || hooks.chain(policies).any(by_message)
}
