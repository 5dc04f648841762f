//! How a reload waits for the turns that are inside.

use understudy_messages::clock::Instant;
use understudy_messages::registry::Holder;

use super::{HoldFor, MOST_HOLDERS, Operation};
use crate::registry::held::Agents;
use crate::registry::reload::machine::Event;

impl Operation {
    /// Holds the agents that use a target, and waits for those of their turns that are inside.
    pub(super) async fn drain(&mut self, until: Instant) -> Event {
        let agents = self.waits_for();
        self.show_waiting(until, &agents);
        let _registry_gone = self.registry.send(HoldFor(agents.clone())).await;
        let (inside, began) = (self.keepers(&agents), self.context.clock.now());
        let inside = inside.0.len() + inside.1;
        if inside > 0 {
            tracing::info!(operation = %self.id, plugins = ?self.targets, inside, budget = ?self.budget(),
                "a reload waits for those who use what it replaces");
        }
        tokio::select! {
            biased;
            () = self.emptied(&agents) => {
                let waited = self.context.clock.now().duration_since(began).as_secs();
                self.notices.extend((inside > 0).then(|| format!("waited {waited} s for {inside} that used it")));
                Event::Empty
            }
            () = self.shutdown.cancelled() => Event::Shutdown,
            () = self.ask.requester.cancelled() => Event::RequesterGone,
            () = self.ask.superseded.cancelled() => Event::Superseded,
            () = self.context.clock.sleep_until(until) => {
                self.holders = self.keepers(&agents);
                self.message = Some(self.held_up());
                Event::Deadline
            }
        }
    }

    /// The agents whose turns may call what goes.
    pub(super) fn waits_for(&self) -> Agents {
        self.serving.agents_using(&self.ended)
    }

    fn keepers(&self, agents: &Agents) -> (Vec<Holder>, usize) {
        let now = self.context.clock.now();
        self.serving.keepers(agents, &self.ended, MOST_HOLDERS, now)
    }

    fn held_up(&self) -> String {
        let (rows, omitted) = &self.holders;
        let count = rows.len() + omitted;
        let oldest = rows.first().map(|row| {
            let of = match (&row.session, &row.plugin) {
                (Some(session), _) => format!(" of session {session}"),
                (None, Some(plugin)) => format!(" of plugin {plugin}"),
                (None, None) => String::new(),
            };
            format!(
                "; the oldest is {} {}{of}, {} s old",
                row.kind,
                row.id,
                row.age.as_secs()
            )
        });
        format!(
            "{count} still use what is to be replaced{}. The old generation serves on. Try again, or wait longer.",
            oldest.unwrap_or_default()
        )
    }
}
