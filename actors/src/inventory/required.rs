//! Which plugins have to serve: guards from outside, and what somebody says has to.

use understudy_messages::hooks::Hook;
use understudy_messages::ids::Name;
use understudy_plugins::Registration;
use understudy_plugins::enablement::{Cause, Origin};
use understudy_plugins::manifest::Manifest;

use super::candidates::Candidate;
use super::load::Building;
use super::{Code, Level, Phase, Status};

/// What a guard refuses while it is not serving.
pub(super) const GATES: [Hook; 2] = [Hook::BeforeToolCall, Hook::BeforeAgentRun];

impl Building<'_> {
    /// Whether what a plugin would judge is refused while it is not serving. Only an explicit disable lifts it.
    pub(super) fn is_required(&mut self, candidate: &Candidate, cause: Cause, status: &Status) -> bool {
        if self.settings.plugins.switches_off(&candidate.id) {
            return false;
        }
        let said = self
            .settings
            .plugins
            .entry(&candidate.id)
            .and_then(|entry| entry.required);
        let manifest = candidate.manifest.as_ref().filter(|_| cause.enables());
        if let Some(required) = said.or(manifest.and_then(|manifest| manifest.required)) {
            return required;
        }
        if candidate.origin == Origin::Bundled {
            return false;
        }
        if self.loader.state.guards().has(&candidate.id) {
            return true;
        }
        match status {
            Status::Disabled => false,
            Status::Loaded(working) => is_guard(&working.loaded.registration),
            Status::Failed(failure) => {
                let guards = failure.guards || manifest.is_some_and(|manifest| says_it_guards(manifest));
                if !guards && failure.phase != Phase::Start {
                    let message = "whether it is a guard is not known, since it never registered: calls that it would \
                                   have judged pass, unless its entry says `required: true`";
                    self.note(
                        Code::GuardUnknown,
                        Level::Warn,
                        Phase::Register,
                        Some(&candidate.id),
                        message,
                    );
                }
                guards
            }
        }
    }

    /// Whether a plugin that has to guard has guarded, here or before a restart, and would judge nothing with this registration: a
    /// guard without its hooks is an open gate.
    pub(super) fn guards_no_longer(&self, id: &Name, registration: &Registration) -> bool {
        let said = self.settings.plugins.entry(id).and_then(|entry| entry.required);
        if is_guard(registration) || said == Some(false) {
            return false;
        }
        let serving = self.serving.and_then(|serving| serving.find(id));
        let judged = serving
            .filter(|plugin| plugin.required)
            .and_then(|plugin| plugin.working())
            .is_some_and(|working| is_guard(&working.loaded.registration));
        judged || self.loader.state.guards().has(id)
    }
}

pub(super) fn is_guard(registration: &Registration) -> bool {
    let judges = !registration.policies.is_empty();
    judges || registration.hooks.iter().any(|hook| GATES.contains(&hook.hook))
}

/// Whether a manifest says that its plugin guards: by a policy in its contracts, or a guard's hook there or in its list of hooks.
fn says_it_guards(manifest: &Manifest) -> bool {
    let lists = [
        manifest.all.get("hooks"),
        manifest
            .all
            .get("contracts")
            .and_then(|contracts| contracts.get("hooks")),
    ];
    let hooks = lists.into_iter().flatten().filter_map(|hooks| hooks.as_array());
    let declared = manifest.all.get("policies").and_then(|policies| policies.as_array());
    let judges = !manifest.policies.is_empty() || declared.is_some_and(|policies| !policies.is_empty());
    judges
        || hooks.flatten().any(|hook| {
            let name = hook.as_str().or_else(|| hook.get("hook")?.as_str());
            GATES.iter().any(|gate| Some(gate.as_label()) == name)
        })
}
