//! How a reload waits for the turns that are inside.

use understudy_messages::clock::Instant;

use super::{HoldFor, MOST_HOLDERS, Operation};
use crate::registry::held::Agents;
use crate::registry::reload::machine::Event;

impl Operation {
    /// Holds the agents that use a target, and waits for those of their turns that are inside.
    pub(super) async fn drain(&mut self, until: Instant) -> Event {
        let agents = self.waits_for();
        self.show_waiting(until, &agents);
        let _registry_gone = self.registry.send(HoldFor(agents.clone())).await;
        tokio::select! {
            biased;
            () = self.emptied(&agents) => Event::Empty,
            () = self.shutdown.cancelled() => Event::Shutdown,
            () = self.ask.requester.cancelled() => Event::RequesterGone,
            () = self.ask.superseded.cancelled() => Event::Superseded,
            () = self.context.clock.sleep_until(until) => {
                self.holders = self.serving.holders(&agents, MOST_HOLDERS, self.context.clock.now());
                self.message = Some(self.held_up());
                Event::Deadline
            }
        }
    }

    /// The agents whose turns may call what goes.
    pub(super) fn waits_for(&self) -> Agents {
        self.serving.agents_using(&self.ended)
    }

    fn held_up(&self) -> String {
        let (rows, omitted) = &self.holders;
        let count = rows.len() + omitted;
        let oldest = rows.first().map(|row| {
            let session = row.session.as_deref().unwrap_or("-");
            format!(
                "; the oldest is turn {} of session {session}, {} s old",
                row.id,
                row.age.as_secs()
            )
        });
        format!(
            "{count} turns still use what is to be replaced{}. The old generation serves on. Try again, or wait longer.",
            oldest.unwrap_or_default()
        )
    }
}
