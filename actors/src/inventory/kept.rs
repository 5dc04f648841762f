//! What of an inventory is kept beyond it.

use understudy_messages::ids::Name;
use understudy_plugins::enablement::Origin;

use super::required::is_guard;
use super::{Failure, Inventory, Loader, Phase, Plugin, Source};
use crate::state::records::{note_captured, unix_seconds};

impl Inventory {
    /// Outsiders that guard, and that somebody has not said need not.
    fn guards(&self) -> Vec<Name> {
        let guards = self.plugins.iter().filter(|plugin| {
            let registers = plugin.working().is_some_and(|it| is_guard(&it.loaded.registration));
            plugin.origin != Origin::Bundled && plugin.required && registers
        });
        guards.map(|plugin| plugin.id.clone()).collect()
    }

    /// What the instances that serve were made of.
    fn sources(&self) -> Vec<(Name, String)> {
        let serving = self.plugins.iter().filter(|plugin| plugin.working().is_some());
        let captured = serving.filter_map(|it| Some((it.id.clone(), it.source.as_ref().and_then(Source::digest)?)));
        captured.collect()
    }
}

impl Inventory {
    /// Some plugins' instances that could not be put back.
    pub(super) fn without_image(&self, plugins: &[Name]) -> Vec<Name> {
        let gone = self
            .named(plugins)
            .filter(|plugin| plugin.image().is_some_and(|it| it.is_err()));
        gone.map(|plugin| plugin.id.clone()).collect()
    }
}

impl Plugin {
    /// What its instance was made of, as long as that is there: what its folder holds by now is something else.
    pub(super) fn image(&self) -> Option<Result<Source, Failure>> {
        let source = self.source.clone()?;
        let gone = source
            .capture
            .as_ref()
            .is_some_and(|capture| !capture.folder().is_dir());
        let failure = || Failure {
            phase: Phase::Register,
            error: "was not put back: what it was loaded from is gone".to_owned(),
            guards: self.working().is_some_and(|it| is_guard(&it.loaded.registration)),
        };
        Some(if gone { Err(failure()) } else { Ok(source) })
    }
}

impl Loader {
    /// Before an inventory serves: from here on its guards are missed when they are gone, over a restart too.
    pub async fn remember(&self, inventory: &Inventory) {
        let remembered = self.state.guards().remember(self.state.file(), inventory.guards());
        if let Err(error) = remembered.await {
            tracing::error!(%error, "guards are not remembered over a restart");
        }
    }

    /// Once it serves: guards that were switched off are forgotten, and what serves is written down.
    pub async fn settle(&self, inventory: &Inventory, generation: u64) {
        let plugins = &inventory.settings.plugins;
        let spared = |id: &Name| plugins.entry(id).is_some_and(|entry| entry.required == Some(false));
        let (state, at) = (&self.state, unix_seconds(&self.supervision.clock));
        let off = |id: &Name| plugins.switches_off(id) || spared(id);
        let forgotten = state.guards().forget(state.file(), off).await;
        let noted = note_captured(state.file(), inventory.sources(), generation, at).await;
        if let Err(error) = forgotten.and(noted) {
            tracing::error!(%error, "what serves was not written down");
        }
    }
}
