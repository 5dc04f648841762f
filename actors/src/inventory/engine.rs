//! Whose context engine says what of a session a model is told.

use understudy_messages::context::TurnEngine;

use super::load::Building;
use super::{Code, Inventory, Level, Phase};

impl Inventory {
    /// The engine that the operator chose; `None`: the built-in one.
    pub fn engine(&self) -> Option<TurnEngine> {
        let chosen = self.settings.plugins.slots.context_engine.as_ref()?;
        let plugin = self.find(chosen)?;
        let port = plugin.working()?.engine.clone()?;
        Some(TurnEngine {
            plugin: plugin.id.clone(),
            port,
        })
    }
}

impl Building<'_> {
    /// Says where the chosen engine is none, and where one is there that nobody chose.
    pub(super) fn check_engine(&mut self) {
        let chosen = self.settings.plugins.slots.context_engine.clone();
        let is_chosen = |id: &str| chosen.as_ref().is_some_and(|chosen| chosen.eq_ignore_ascii_case(id));
        let working = self.plugins.iter().filter_map(|plugin| plugin.working());
        let (chosen_ones, others): (Vec<_>, Vec<_>) = working
            .filter(|working| working.engine.is_some())
            .map(|working| working.loaded.id.clone())
            .partition(|id| is_chosen(id));
        for other in others {
            let message = "has a context engine that plugins.slots.contextEngine does not name: it is not used";
            self.note(
                Code::EngineNotChosen,
                Level::Warn,
                Phase::Register,
                Some(&other),
                message,
            );
        }
        if let Some(chosen) = chosen.filter(|_| chosen_ones.is_empty()) {
            let message =
                format!("plugins.slots.contextEngine names {chosen}, which has none at work: the built-in one is used");
            self.note(Code::EngineMissing, Level::Error, Phase::Config, None, message);
        }
    }
}
