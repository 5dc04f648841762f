//! Names in the settings that no plugin has.

use std::sync::Arc;

use crate::hooks::Access;
use understudy_messages::ids::Name;
use understudy_plugins::enablement::{self, Origin};

use super::load::Building;
use super::{Code, Failure, Level, Phase, Plugin, Status};

/// What is said of one that has guarded and is nowhere.
const GUARD_IS_GONE: &str = "has guarded before and was not found: put it back into `load_paths`, or say `enabled: false` in an entry of it \
     (`understudy plugins disable`)";

impl Building<'_> {
    /// Plugins that are nowhere: those that have an entry, and those that have guarded before. One that is required is missing.
    pub(super) fn add_what_was_not_found(&mut self) {
        let settings = self.settings.clone();
        let guards = self.loader.state.guards().all();
        let unnamed = guards.iter().filter(|id| settings.plugins.entry(id).is_none());
        for id in settings.plugins.entries.keys().chain(unnamed) {
            let entry = settings.plugins.entry(id).cloned().unwrap_or_default();
            if self.knows(id) || (entry.enabled == Some(false) && entry.config.is_none()) {
                continue;
            }
            let guarded = guards.iter().any(|guard| guard.eq_ignore_ascii_case(id));
            let required = entry.required.unwrap_or(guarded) && !settings.plugins.switches_off(id);
            if guarded && !required && settings.plugins.entry(id).is_none() {
                continue;
            }
            let level = if required { Level::Error } else { Level::Warn };
            let error = match guarded && required {
                true => GUARD_IS_GONE,
                false => "was not found: nothing in `load_paths` has this id, and nothing of it is built in",
            };
            self.note(Code::EntryNotFound, level, Phase::Discovery, Some(id), error);
            if required {
                self.plugins.push(Arc::new(Plugin {
                    id: id.clone(),
                    origin: Origin::Config,
                    source_folder: None,
                    identity: None,
                    source: None,
                    noted: Vec::new(),
                    host: None,
                    manifest: None,
                    cause: enablement::decide(&settings.plugins, id, Origin::Config, false),
                    required,
                    access: Access::default(),
                    status: Status::Failed(Failure::new(Phase::Discovery, error.to_owned())),
                }));
            }
        }
    }

    /// Names in lists that no plugin has.
    pub(super) fn check_names(&mut self) {
        let settings = self.settings.clone();
        let config = &settings.plugins;
        let lists = [("plugins.allow", &config.allow), ("plugins.deny", &config.deny)];
        let lists = lists.map(|(place, list)| (place.to_owned(), list.clone()));
        let agents = settings.agents.iter().filter_map(|agent| {
            let list = agent.plugins.clone()?;
            Some((format!("agents.{}.plugins", agent.name), list))
        });
        let required = self.plugins.iter().filter_map(|plugin| {
            let list = plugin.manifest.as_ref().filter(|_| plugin.cause.enables())?;
            let list = list.requires_plugins.iter().map(|id| id.as_str().into()).collect();
            Some((format!("requiresPlugins of {}", plugin.id), list))
        });
        let lists: Vec<(String, Vec<Name>)> = lists.into_iter().chain(agents).chain(required).collect();
        for (place, list) in lists {
            for id in list.iter().filter(|id| !self.knows(id)).cloned().collect::<Vec<_>>() {
                let message = format!("{place} names {id}, which was not found");
                self.note(Code::NameNotFound, Level::Warn, Phase::Config, None, message);
            }
        }
    }

    fn knows(&self, id: &str) -> bool {
        self.plugins.iter().any(|plugin| plugin.id.eq_ignore_ascii_case(id))
    }
}
