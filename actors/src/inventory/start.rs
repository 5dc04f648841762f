//! One plugin, from its settings to an instance at work.

use std::sync::Arc;
use std::time::Duration;

use crate::hooks::{Access, LoadedPlugin};
use crate::plugin::{PluginInstanceActor, Remake, Served};
use actix::{Actor, Arbiter};
use futures::FutureExt;
use understudy_messages::hooks::Hook;
use understudy_plugins::hosts::Load;
use understudy_plugins::manifest::HostKind;
use understudy_plugins::registration::Handler;
use understudy_plugins::{Instance, Registration};

use super::load::Building;
use super::{Failure, Level, Phase, Source, Working, policies};

/// How long one plugin may take to register.
const REGISTER: Duration = Duration::from_secs(30);

impl Building<'_> {
    /// Makes an instance of a plugin that is on, and puts it to work.
    pub(super) async fn begin(&mut self, source: &Source, access: &Access) -> Result<Working, Failure> {
        let make = self.maker(source.host, source.load.clone());
        let phase = Phase::Register;
        let instance = make().await.map_err(|error| Failure { phase, error })?;
        // others have a way of their own to come back, or need none
        let lasts = matches!(source.host, HostKind::Native | HostKind::Js) && instance.registration().is_by_message();
        Ok(self.put_to_work(source, access, instance, Some(make).filter(|_| lasts)))
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
        let served = match again {
            Some(again) => Served::lasting(id, instance, again, &self.loader.supervision),
            None => Served::new(id, instance),
        };
        let arbiter = takes_messages(&registration).then(|| Arbiter::with_tokio_rt(self.loader.runtime));
        let actor = arbiter.as_ref().map(|arbiter| {
            let served = served.clone();
            PluginInstanceActor::start_in_arbiter(&arbiter.handle(), move |_| PluginInstanceActor::new(served))
        });
        Working {
            served,
            loaded: LoadedPlugin {
                id: source.load.id.clone(),
                access: access.clone(),
                registration: Arc::new(registration),
                port: actor.clone().map(actix::Addr::recipient),
                tools: actor.map(actix::Addr::recipient),
            },
            arbiter,
        }
    }

    /// What of a registration is the plugin's to register; the rest is said.
    fn admit(&mut self, load: &Load, access: &Access, registered: &Registration) -> Registration {
        let (mut registration, manifest) = (registered.clone(), load.manifest.as_deref());
        let mut warnings = std::mem::take(&mut registration.warnings);
        warnings.extend(self.tools.admit(&load.id, manifest, &mut registration));
        let refused = policies::admit(manifest, &mut registration);
        for refusal in refused {
            self.note(Level::Error, Phase::Register, Some(&load.id), refusal);
        }
        warnings.extend(policies::absent(manifest, &registration));
        if judges_tools(&registration) && !access.conversation {
            let message = "guards tools without seeing the conversation: it gets the narrow event, unless \
                           hooks.allowConversationAccess is true";
            warnings.push(message.to_owned());
        }
        for warning in warnings {
            self.note(Level::Warn, Phase::Register, Some(&load.id), warning);
        }
        registration
    }
}

fn judges_tools(registration: &Registration) -> bool {
    let guards = registration.hooks.iter().any(|hook| hook.hook == Hook::BeforeToolCall);
    guards || !registration.policies.is_empty()
}

/// Whether a plugin has handlers, policies or tools that are called by message.
fn takes_messages(registration: &Registration) -> bool {
    let hooks = registration.hooks.iter().map(|hook| &hook.handler);
    let policies = registration.policies.iter().map(|policy| &policy.handler);
    let by_message = |handler: &Handler| matches!(handler, Handler::Instance(_));
    !registration.tools.is_empty() || hooks.chain(policies).any(by_message)
}
