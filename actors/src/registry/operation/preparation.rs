//! What a reload looks at before it touches anything.

use understudy_messages::registry::{Reload, Trigger};

use super::{MOST_HOLDERS, Operation};
use crate::inventory::{Anew, Planned};
use crate::registry::barrier::Barred;
use crate::registry::reload::machine::{Event, Plan};

/// How many plugins one reload may name.
const MOST_PLUGINS: usize = 64;

impl Operation {
    pub(super) async fn prepare(&mut self) -> Event {
        if let Err(why) = check(&self.ask) {
            self.message = Some(why);
            return Event::Refused;
        }
        let Some(planned) = self.plan().await else {
            self.message = Some("The candidate could not be prepared.".to_owned());
            return Event::Refused;
        };
        if let Some(why) = refused(&self.ask, &planned) {
            self.message = Some(why);
            return Event::Refused;
        }
        self.started.clone_from(&planned.diff.started);
        self.ended.clone_from(&planned.diff.ended);
        self.targets = [&self.started[..], &self.ended].concat();
        self.targets.sort();
        self.targets.dedup();
        if let Err(barred) = self.context.published.barrier().check(&self.targets) {
            self.busy = matches!(barred, Barred::Pending(_));
            self.message = Some(barred.to_string());
            return Event::Refused;
        }
        if let Some(lingers) = self.serving.lingering(&self.started) {
            self.busy = true;
            self.message = Some(Barred::Pending(lingers).to_string());
            return Event::Refused;
        }
        if self.is_from_inside() {
            return self.would_wait_for_itself();
        }
        let plan = Plan {
            changes: !planned.diff.is_empty() || self.changes_settings(),
            exclusive: planned.exclusive,
            drain_until: self.context.clock.now() + self.budget(),
            watched: self.ask.settings.is_some(),
        };
        self.planned = Some(planned);
        if self.ask.superseded.is_cancelled() {
            return Event::Superseded;
        }
        self.show("reloading", None, None);
        Event::Prepared(plan)
    }

    /// What there is, looked at off the arbiters.
    async fn plan(&self) -> Option<Planned> {
        let (loader, ask) = (self.context.loader.clone(), self.ask.clone());
        let serving = self.serving.clone();
        let settings = ask.settings.unwrap_or_else(|| serving.inventory.settings().clone());
        let folders = ask.trigger == Trigger::Signal;
        let plan = move || {
            let plugins = &ask.plugins;
            loader.plan(settings, Some(&serving.inventory), Anew { plugins, folders })
        };
        tokio::task::spawn_blocking(plan).await.ok()
    }

    /// Whether it is asked for by what would be waited for.
    fn is_from_inside(&self) -> bool {
        let asks = self
            .ask
            .origin
            .and_then(|token| self.context.published.origins().find(token));
        asks.is_some_and(|asks| asks.uses(&self.ended))
    }

    /// Plugins wait for their own end. What is saved serves by itself once they have ended.
    fn would_wait_for_itself(&mut self) -> Event {
        let names = self.ended.iter().map(|name| &**name).collect::<Vec<_>>().join(", ");
        self.holders = self
            .serving
            .holders(&self.waits_for(), MOST_HOLDERS, self.context.clock.now());
        let (what, event) = match self.ask.settings {
            None => ("Try again after the call.", Event::Refused),
            Some(_) => ("It is applied once the call has ended.", Event::FromInside),
        };
        self.message = Some(format!(
            "A plugin cannot replace itself while its own call, or a turn that it is called in, waits for that: {names}. {what}"
        ));
        event
    }

    fn changes_settings(&self) -> bool {
        let serving = self.serving.inventory.settings();
        self.ask.settings.as_ref().is_some_and(|settings| settings != serving)
    }
}

/// What is wrong with a request, before anything is looked at.
fn check(ask: &Reload) -> Result<(), String> {
    if ask.plugins.len() > MOST_PLUGINS {
        return Err(format!("One reload may name {MOST_PLUGINS} plugins."));
    }
    match ask.plugins.is_empty() && ask.settings.is_none() {
        true => Err("Name the plugins to reload.".to_owned()),
        false => Ok(()),
    }
}

/// Why what there is cannot take the place of what serves.
fn refused(ask: &Reload, planned: &Planned) -> Option<String> {
    if let Some(unknown) = planned.unknown.first() {
        return Some(planned.why_unknown(unknown));
    }
    if let Some((plugin, found)) = ask.digests.iter().find_map(|it| planned.is_another(it)) {
        let what = format!("The source of {plugin} is not the one that was expected: it is {found}.");
        return Some(format!("{what} Nothing was changed."));
    }
    let (plugin, why) = planned.refused.as_ref()?;
    Some(format!("The plugin {plugin} {why}. Nothing was changed."))
}
