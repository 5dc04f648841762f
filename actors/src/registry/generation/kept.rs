//! Who keeps what a reload is to replace: turns of the agents that use it, and calls that belong to no turn.

use std::cmp::Reverse;

use understudy_messages::clock::Instant;
use understudy_messages::ids::Name;
use understudy_messages::registry::Holder;

use super::Generation;
use crate::registry::held::Agents;

impl Generation {
    /// The oldest first, at most `most`, and how many more there are.
    pub(in crate::registry) fn keepers(
        &self,
        agents: &Agents,
        plugins: &[Name],
        most: usize,
        now: Instant,
    ) -> (Vec<Holder>, usize) {
        let (mut rows, omitted) = self.holders(agents, most, now);
        rows.extend(self.inventory.callers(plugins, now));
        rows.sort_by_key(|row| Reverse(row.age));
        let omitted = omitted + rows.len().saturating_sub(most);
        rows.truncate(most);
        (rows, omitted)
    }
}
