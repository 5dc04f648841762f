//! One plugin, from its settings to an instance at work.

use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, Arbiter};
use futures::FutureExt;
use understudy_actors::hooks::{Access, LoadedPlugin};
use understudy_actors::plugin::{PluginInstanceActor, Remake, Served};
use understudy_messages::hooks::Hook;
use understudy_messages::settings::{PluginEntry, PluginGrants, PluginLimits};
use understudy_plugins::hosts::Load;
use understudy_plugins::manifest::HostKind;
use understudy_plugins::registration::Handler;
use understudy_plugins::{Instance, Registration};

use super::candidates::Candidate;
use super::load::Loading;
use super::{Failure, Level, Phase, Working, policies};

/// How long one plugin may take to register.
const REGISTER: Duration = Duration::from_secs(30);

impl Loading<'_> {
    /// Makes an instance of a plugin that is on, and puts it to work.
    pub(super) async fn start(&mut self, candidate: &Candidate, access: &Access) -> Result<Working, Failure> {
        let failed = |phase, error| Failure { phase, error };
        let Some(host) = candidate.host else {
            let why = candidate.refused.clone().unwrap_or_default();
            return Err(failed(Phase::Discovery, format!("is present but blocked: {why}")));
        };
        let entry = self.config().entry(&candidate.id).cloned().unwrap_or_default();
        if host != HostKind::Js && (entry.grants != PluginGrants::default() || entry.limits != PluginLimits::default())
        {
            let message = "has grants or limits in its entry, which only plugins in JavaScript take: not used";
            self.note(Level::Warn, Phase::Config, Some(&candidate.id), message);
        }
        let load = self.load_of(candidate, entry);
        if let Some(manifest) = &candidate.manifest {
            let checked = manifest.check(&load.settings);
            checked.map_err(|error| failed(Phase::Config, format!("its settings are refused: {error}")))?;
        }
        let make = self.maker(host, load);
        let instance = make().await.map_err(|error| failed(Phase::Register, error))?;
        // others have a way of their own to come back, or need none
        let lasts = matches!(host, HostKind::Native | HostKind::Js) && instance.registration().is_by_message();
        Ok(self.put_to_work(candidate, access, instance, Some(make).filter(|_| lasts)))
    }

    fn load_of(&self, candidate: &Candidate, entry: PluginEntry) -> Load {
        let agents = self.settings.agents.iter();
        Load {
            id: candidate.id.clone(),
            manifest: candidate.manifest.clone(),
            folder: candidate.folder.clone().unwrap_or_default(),
            settings: entry.config.map_or_else(|| serde_json::json!({}), |own| own.value),
            workspaces: agents.filter_map(|agent| agent.workspace.clone()).collect(),
            grants: entry.grants,
            limits: entry.limits,
            clock: self.supervision.clock.clone(),
        }
    }

    /// What makes instances of a plugin, each within its time.
    fn maker(&self, host: HostKind, load: Load) -> Remake {
        let (hosts, clock) = (self.hosts.clone(), self.supervision.clock.clone());
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
        candidate: &Candidate,
        access: &Access,
        instance: Arc<dyn Instance>,
        again: Option<Remake>,
    ) -> Working {
        let registration = self.admit(candidate, access, instance.registration());
        let id = candidate.id.clone();
        let served = match again {
            Some(again) => Served::lasting(id, instance, again, self.supervision),
            None => Served::new(id, instance),
        };
        let arbiter = takes_messages(&registration).then(|| Arbiter::with_tokio_rt(crate::shared_runtime));
        let actor = arbiter.as_ref().map(|arbiter| {
            let served = served.clone();
            PluginInstanceActor::start_in_arbiter(&arbiter.handle(), move |_| PluginInstanceActor::new(served))
        });
        Working {
            served,
            loaded: LoadedPlugin {
                id: candidate.id.clone(),
                access: access.clone(),
                registration: Arc::new(registration),
                port: actor.clone().map(actix::Addr::recipient),
                tools: actor.map(actix::Addr::recipient),
            },
            arbiter,
        }
    }

    /// What of a registration is the plugin's to register; the rest is said.
    fn admit(&mut self, candidate: &Candidate, access: &Access, registered: &Registration) -> Registration {
        let (mut registration, manifest) = (registered.clone(), candidate.manifest.as_deref());
        let mut warnings = std::mem::take(&mut registration.warnings);
        warnings.extend(self.tools.admit(&candidate.id, manifest, &mut registration));
        let refused = policies::admit(manifest, &mut registration);
        for refusal in refused {
            self.note(Level::Error, Phase::Register, Some(&candidate.id), refusal);
        }
        warnings.extend(policies::absent(manifest, &registration));
        if judges_tools(&registration) && !access.conversation {
            let message = "guards tools without seeing the conversation: it gets the narrow event, unless \
                           hooks.allowConversationAccess is true";
            warnings.push(message.to_owned());
        }
        for warning in warnings {
            self.note(Level::Warn, Phase::Register, Some(&candidate.id), warning);
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
