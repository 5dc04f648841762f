//! What has to hold after a long time: memory that does not grow, and nothing that is kept.

use std::time::Duration;

use schemars::JsonSchema;

use super::expect::Most;
use crate::config::document::{Decimal, Time};
use crate::config::field::Field;
use crate::load::census::Holding;
use crate::load::scenario::read::needed;

/// How much memory may grow once a gateway is warm.
#[derive(Clone, Copy, Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Growth {
    /// When it is warm, from the beginning of a round.
    #[schemars(with = "Time")]
    pub(crate) from: Duration,
    /// The most memory at the end, as a multiple of what it was then. Both are medians over a tenth of the time between.
    #[schemars(with = "Decimal")]
    pub(crate) ratio: f64,
}

/// How much more than before the load the gateway may hold after it.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Left {
    /// How long it has to come to rest after the last answer (default 30s).
    #[schemars(with = "Option<Time>")]
    pub(crate) within: Duration,
    /// Open files, connections among them; of a process (`--pid`).
    #[schemars(with = "Option<Most>")]
    pub(crate) open_files: Option<u32>,
    /// Threads; of a process (`--pid`).
    #[schemars(with = "Option<Most>")]
    pub(crate) threads: Option<u32>,
    /// Supervised actors; of a scrape (`--metrics`).
    #[schemars(with = "Option<Most>")]
    pub(crate) actors: Option<u32>,
    /// Tasks that run; of a scrape (`--metrics`).
    #[schemars(with = "Option<Most>")]
    pub(crate) tasks: Option<u32>,
    /// Turns in flight; of a scrape (`--metrics`).
    #[schemars(with = "Option<Most>")]
    pub(crate) turns: Option<u32>,
    /// Sessions in memory; of a scrape (`--metrics`).
    #[schemars(with = "Option<Most>")]
    pub(crate) sessions: Option<u32>,
}

impl Default for Left {
    fn default() -> Self {
        Self {
            within: Duration::from_secs(30),
            open_files: None,
            threads: None,
            actors: None,
            tasks: None,
            turns: None,
            sessions: None,
        }
    }
}

impl Left {
    /// What is expected, kind by kind.
    pub(crate) fn limits(&self) -> impl Iterator<Item = (Holding, u32)> + use<> {
        let all = [
            (Holding::OpenFiles, self.open_files),
            (Holding::Threads, self.threads),
            (Holding::Actors, self.actors),
            (Holding::Tasks, self.tasks),
            (Holding::Turns, self.turns),
            (Holding::Sessions, self.sessions),
        ];
        all.into_iter().filter_map(|(holding, limit)| Some((holding, limit?)))
    }
}

pub(super) fn growth(field: &Field<'_>) -> Option<Growth> {
    let (mut from, mut ratio) = (None, None);
    field.section(|keys| {
        let fields = [keys.key("from"), keys.key("ratio")];
        needed(&fields[0], "say when it is warm: 5m");
        needed(&fields[1], "say how much it may grow: 1.05");
        (from, ratio) = (fields[0].duration(), fields[1].decimal());
    });
    Some(Growth {
        from: from?,
        ratio: ratio?,
    })
}

pub(super) fn left(field: &Field<'_>) -> Left {
    let mut left = Left::default();
    field.section(|keys| {
        left.within = keys.key("within").duration().unwrap_or(left.within);
        for (name, most) in [
            ("open_files", &mut left.open_files),
            ("threads", &mut left.threads),
            ("actors", &mut left.actors),
            ("tasks", &mut left.tasks),
            ("turns", &mut left.turns),
            ("sessions", &mut left.sessions),
        ] {
            *most = keys.key(name).whole(Most::RANGE);
        }
    });
    left
}
