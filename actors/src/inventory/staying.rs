//! Which plugins stay where they are found, whatever lies in their folders by now.
//!
//! What serves runs from a copy. So a folder that is gone, cannot be read for a moment, or lies behind another one with the same
//! id, is no reason to touch a plugin that nobody has asked about.

use understudy_messages::ids::Name;

use super::candidates::Candidate;
use super::{Inventory, Level, Phase, Planned};

/// What is to be looked at anew.
#[derive(Clone, Copy, Debug, Default)]
pub struct Anew<'a> {
    /// These plugins.
    pub plugins: &'a [Name],
    /// All folders: what is not found there any more goes.
    pub folders: bool,
}

impl Anew<'_> {
    pub(super) fn names(&self, id: &str) -> bool {
        self.plugins.iter().any(|name| name.eq_ignore_ascii_case(id))
    }
}

/// `found`, with those that serve as they were found when they were loaded. That is so as long as the load paths say the same.
pub(super) fn kept_where_they_are(
    mut found: Vec<Candidate>,
    planned: &mut Planned,
    serving: Option<&Inventory>,
    anew: &Anew<'_>,
) -> Vec<Candidate> {
    let same = |it: &&Inventory| it.settings.plugins.load_paths == planned.settings.plugins.load_paths;
    let Some(serving) = serving.filter(same).filter(|_| !anew.folders) else {
        return found;
    };
    let served = serving.plugins.iter().filter(|plugin| plugin.working().is_some());
    for plugin in served.filter(|plugin| !anew.names(&plugin.id)) {
        let place = found.iter().position(|it| it.id.eq_ignore_ascii_case(&plugin.id));
        if place.is_some_and(|place| found[place].folder == plugin.source_folder && found[place].refused.is_none()) {
            continue;
        }
        let why = match place.and_then(|place| found[place].refused.clone()) {
            Some(why) => why,
            None if place.is_some() => "another one has its id and comes first".to_owned(),
            None => "nothing in `load_paths` has its id any more".to_owned(),
        };
        let message = format!("serves on from its copy, until it is reloaded or switched off: {why}");
        planned.note(Level::Warn, Phase::Discovery, Some(&plugin.id), message);
        match place {
            Some(place) => found[place] = plugin.as_candidate(),
            None => found.push(plugin.as_candidate()),
        }
    }
    found
}
