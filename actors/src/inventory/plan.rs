//! What the plugins of a generation are to be, before any of their code has run: found, decided upon, captured, compared.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use understudy_messages::ids::Name;
use understudy_messages::settings::{PluginEntry, PluginGrants, PluginLimits, Settings};
use understudy_plugins::activation::{self, Asked};
use understudy_plugins::enablement::{self, Cause, Origin};
use understudy_plugins::hosts::Load;
use understudy_plugins::manifest::HostKind;

use super::candidates::Candidate;
use super::staying::{self, Anew};
use super::{Code, Diagnostic, Failure, Inventory, Level, Loader, Phase, Plugin, Source};
use crate::hooks::Access;
use crate::registry::reload::diff::{Diff, Identity, canonical_hash};

/// What a generation's plugins are to be.
pub struct Planned {
    pub(super) settings: Arc<Settings>,
    pub(super) plugins: Vec<Intended>,
    pub(super) diagnostics: Vec<Diagnostic>,
    /// What changes.
    pub diff: Diff,
    /// Names that were asked for and that no plugin has which is on.
    pub unknown: Vec<Name>,
    /// Whether an instance in whose place another one comes holds what cannot be held twice.
    pub exclusive: bool,
    /// A plugin that serves and could not any longer though nobody switched it off, and why: then nothing is to be changed.
    pub refused: Option<(Name, String)>,
}

/// One plugin, as it is to be.
pub(super) struct Intended {
    pub(super) candidate: Candidate,
    pub(super) cause: Cause,
    pub(super) access: Access,
    pub(super) identity: Option<Identity>,
    /// What its instance is to be made of, or why there can be none; `None` for one that stays as it is, or is off.
    pub(super) source: Option<Result<Source, Failure>>,
}

impl Planned {
    pub(super) fn note(
        &mut self,
        code: Code,
        level: Level,
        phase: Phase,
        plugin: Option<&Name>,
        message: impl Into<String>,
    ) {
        self.diagnostics
            .push(Diagnostic::new(code, level, phase, plugin, message));
    }
}

impl Loader {
    /// Looks at what there is, and at what of it `serving` has already. What is named in `anew` is taken anew
    /// though nothing of them has changed. It blocks: call it where that does no harm.
    pub fn plan(&self, settings: Arc<Settings>, serving: Option<&Inventory>, anew: Anew<'_>) -> Planned {
        let mut planned = Planned {
            settings,
            plugins: Vec::new(),
            diagnostics: Vec::new(),
            diff: Diff::default(),
            unknown: Vec::new(),
            exclusive: false,
            refused: None,
        };
        if planned.settings.plugins.enabled {
            let candidates = self.candidates(&mut planned);
            let asked = Asked::of(&planned.settings);
            for candidate in staying::kept_where_they_are(candidates, &mut planned, serving, &anew) {
                let intended = self.intend(&planned.settings, &asked, candidate);
                planned.plugins.push(intended);
            }
        }
        let served = serving.map(Inventory::identities).unwrap_or_default();
        let wanted = planned.identities();
        let forced: Vec<Name> = wanted.keys().filter(|id| anew.names(id)).cloned().collect();
        planned.diff = Diff::between(&served, &wanted, &forced);
        let known = |name: &&Name| !wanted.keys().any(|id| id.eq_ignore_ascii_case(name));
        planned.unknown = anew.plugins.iter().filter(known).cloned().collect();
        let exclusive = |id: &Name| serving.and_then(|it| it.find(id)).is_some_and(|it| it.is_exclusive());
        let replaced = |id: &&Name| planned.diff.ended.contains(id);
        planned.exclusive = planned.diff.started.iter().filter(replaced).any(exclusive);
        for id in serving
            .map(|serving| serving.without_image(&planned.diff.ended))
            .unwrap_or_default()
        {
            let message = "what it was loaded from is gone: should its replacement fail, it cannot be put back";
            planned.note(Code::NoImage, Level::Warn, Phase::Discovery, Some(&id), message);
        }
        check_grants(&mut planned);
        self.gather_sources(&mut planned);
        planned.refused = serving.and_then(|serving| planned.refusal(serving));
        planned
    }

    fn intend(&self, settings: &Settings, asked: &Asked, candidate: Candidate) -> Intended {
        let config = &settings.plugins;
        let decided = enablement::decide(config, &candidate.id, candidate.origin, candidate.default_on);
        let cause = activation::narrow(decided, &candidate.id, candidate.manifest.as_deref(), asked);
        let access = access(settings, &candidate);
        let identity = cause.enables().then(|| Identity {
            settings: canonical_hash(&own_settings(settings, &candidate.id)),
            folder: candidate.folder.clone(),
            access: format!("{access:?} {:?}", config.entry(&candidate.id).map(granted)),
        });
        Intended {
            candidate,
            cause,
            access,
            identity,
            source: None,
        }
    }

    /// What is to be started is captured now: what happens to its folder later counts at a later reload.
    fn gather_sources(&self, planned: &mut Planned) {
        let starts = std::mem::take(&mut planned.diff.started);
        for intended in &mut planned.plugins {
            if starts.contains(&intended.candidate.id) {
                intended.source = Some(self.source(&planned.settings, &intended.candidate));
            }
        }
        planned.diff.started = starts;
    }

    fn source(&self, settings: &Settings, candidate: &Candidate) -> Result<Source, Failure> {
        let failed = Failure::new;
        let Some(host) = candidate.host else {
            let why = candidate.refused.clone().unwrap_or_default();
            return Err(failed(Phase::Discovery, format!("is present but blocked: {why}")));
        };
        let entry = settings.plugins.entry(&candidate.id).cloned().unwrap_or_default();
        let own = entry.config.map_or_else(|| json!({}), |own| own.value);
        if let Some(manifest) = &candidate.manifest {
            let checked = manifest.check(&own);
            checked.map_err(|error| failed(Phase::Config, format!("its settings are refused: {error}")))?;
        }
        let capture = candidate.folder.as_deref().map(|folder| self.captures.take(folder));
        let capture = capture.transpose();
        let capture = capture.map_err(|error| failed(Phase::Discovery, error.to_string()))?;
        let workspaces = settings.agents.iter().filter_map(|agent| agent.workspace.clone());
        let load = Load {
            id: candidate.id.clone(),
            manifest: candidate.manifest.clone(),
            folder: capture
                .as_ref()
                .map(|capture| capture.folder().to_owned())
                .unwrap_or_default(),
            settings: own,
            // what lies in its own folder it may read there too, by its full path: that is how it is now, not how it was
            workspaces: workspaces.chain(candidate.folder.clone()).collect(),
            grants: entry.grants,
            limits: entry.limits,
            clock: self.supervision.clock.clone(),
            listeners: self.hosts.listeners.clone(),
        };
        Ok(Source { load, host, capture })
    }
}

/// Grants and limits are for the embedded engine alone.
fn check_grants(planned: &mut Planned) {
    let settings = planned.settings.clone();
    let others = planned
        .plugins
        .iter()
        .filter(|it| it.cause.enables() && it.candidate.host != Some(HostKind::Js));
    let asks = |id: &Name| {
        let entry = settings.plugins.entry(id);
        entry.is_some_and(|it| it.grants != PluginGrants::default() || it.limits != PluginLimits::default())
    };
    let ids: Vec<Name> = others.map(|it| it.candidate.id.clone()).filter(asks).collect();
    for id in ids {
        let message = "has grants or limits in its entry, which only plugins in JavaScript take: not used";
        planned.note(Code::SettingNotUsed, Level::Warn, Phase::Config, Some(&id), message);
    }
}

impl Planned {
    /// A plugin whose source is not as somebody expects it, and what it is.
    pub fn is_another<'a>(&self, (plugin, expected): (&'a Name, &String)) -> Option<(&'a Name, String)> {
        let mut all = self.plugins.iter();
        let intended = all.find(|it| it.candidate.id.eq_ignore_ascii_case(plugin))?;
        let source = intended.source.as_ref().and_then(|source| source.as_ref().ok());
        let found = source.and_then(Source::digest).unwrap_or_else(|| "none".to_owned());
        (found != *expected).then_some((plugin, found))
    }

    /// Why nothing can be done about a plugin that was asked for and is not on.
    pub fn why_unknown(&self, id: &str) -> String {
        let mut named = self
            .plugins
            .iter()
            .filter(|it| it.candidate.id.eq_ignore_ascii_case(id));
        match named.any(|it| it.cause == Cause::AwaitsActivation) {
            true => format!(
                "The plugin {id} is on by default and waits for something that the configuration does not ask for. \
                 Say `enabled: true` in its entry to load it all the same."
            ),
            false => format!("There is no plugin {id} that is switched on."),
        }
    }

    /// A guard that is gone is no open gate: one that serves is let go when somebody switches it off, and for no other reason.
    fn refusal(&self, serving: &Inventory) -> Option<(Name, String)> {
        let serves = |id: &str| serving.find(id).is_some_and(|plugin| plugin.working().is_some());
        let broken = self.plugins.iter().find_map(|intended| match &intended.source {
            Some(Err(failure)) if serves(&intended.candidate.id) => {
                Some((intended.candidate.id.clone(), failure.error.clone()))
            }
            _ => None,
        });
        let is_on = |id: &str| {
            let mut intended = self
                .plugins
                .iter()
                .filter(|it| it.candidate.id.eq_ignore_ascii_case(id));
            intended.any(|it| it.cause.enables())
        };
        let gone = serving.plugins.iter().find(|plugin| {
            let wanted = is_on(&plugin.id) || self.settings.plugins.switches_off(&plugin.id);
            plugin.required && plugin.working().is_some() && !wanted
        });
        let why = "guards, and is not found or not switched on any longer: put its folder and its entry in \
                   `plugins.entries` back, or say `enabled: false` in an entry of it (`understudy plugins disable`)";
        broken.or_else(|| gone.map(|plugin| (plugin.id.clone(), why.to_owned())))
    }

    fn identities(&self) -> BTreeMap<Name, Identity> {
        let identities = self
            .plugins
            .iter()
            .filter_map(|it| Some((it.candidate.id.clone(), it.identity.clone()?)));
        identities.collect()
    }
}

impl Inventory {
    fn identities(&self) -> BTreeMap<Name, Identity> {
        let identities = self
            .plugins
            .iter()
            .filter_map(|it| Some((it.id.clone(), it.identity.clone()?)));
        identities.collect()
    }
}

impl Inventory {
    /// A plan in which some plugins come anew as they were, and all others stay.
    pub(super) fn again(&self, plugins: &[Name]) -> Planned {
        let intended = |plugin: &Arc<Plugin>| Intended {
            candidate: plugin.as_candidate(),
            cause: plugin.cause,
            access: plugin.access.clone(),
            identity: plugin.identity.clone(),
            source: plugin.image().filter(|_| plugins.contains(&plugin.id)),
        };
        Planned {
            settings: self.settings.clone(),
            plugins: self.plugins.iter().map(intended).collect(),
            // what was noted while they registered is noted again
            diagnostics: (self.diagnostics.iter())
                .filter(|it| matches!(it.phase, Phase::Discovery | Phase::Config))
                .cloned()
                .collect(),
            diff: Diff::default(),
            unknown: Vec::new(),
            exclusive: false,
            refused: None,
        }
    }
}

/// What of a plugin's entry is not its settings.
fn granted(entry: &PluginEntry) -> String {
    format!("{:?} {:?} {:?}", entry.required, entry.grants, entry.limits)
}

fn own_settings(settings: &Settings, id: &str) -> Value {
    let own = settings.plugins.entry(id).and_then(|entry| entry.config.clone());
    own.map_or_else(|| json!({}), |own| own.value)
}

/// What a plugin may do. What is built in may see conversations unless somebody says otherwise.
fn access(settings: &Settings, candidate: &Candidate) -> Access {
    let said = settings.plugins.entry(&candidate.id).map(|entry| &entry.hooks);
    Access {
        conversation: (said.and_then(|hooks| hooks.conversation)).unwrap_or(candidate.origin == Origin::Bundled),
        injection: said.and_then(|hooks| hooks.injection).unwrap_or(true),
        deadlines: said.map(|hooks| hooks.timeouts.clone()).unwrap_or_default(),
        deadline: said.and_then(|hooks| hooks.timeout),
    }
}
