//! What has to hold at the end.

use std::time::Duration;

use schemars::JsonSchema;

use super::rest::{self, Growth, Left};
use crate::config::document::{Bytes, Decimal, Time, Whole};
use crate::config::field::Field;

/// A count that may be none.
pub(crate) type Most = Whole<0, { u32::MAX }>;

/// What has to hold.
#[derive(Clone, Debug, Default, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Expect {
    /// The most turns that were lost: no answer in time, one that broke off, or a wrong one.
    #[schemars(with = "Option<Most>")]
    pub(crate) max_lost: Option<u32>,
    /// The most turns that ended with a proper error.
    #[schemars(with = "Option<Most>")]
    pub(crate) max_errors: Option<u32>,
    /// The most turns that were due and could not be begun, because too many waited.
    #[schemars(with = "Option<Most>")]
    pub(crate) max_not_begun: Option<u32>,
    /// The fewest turns with a whole answer.
    #[schemars(with = "Option<Most>")]
    pub(crate) min_whole: Option<u32>,
    /// The fewest turns that were answered after more than one attempt.
    #[schemars(with = "Option<Most>")]
    pub(crate) min_failed_over: Option<u32>,
    /// The fewest reloads that were applied.
    #[schemars(with = "Option<Most>")]
    pub(crate) min_reloads: Option<u32>,
    /// The longest that half of the turns may take.
    #[schemars(with = "Option<Time>")]
    pub(crate) max_p50: Option<Duration>,
    /// The longest that 99 of 100 turns may take.
    #[schemars(with = "Option<Time>")]
    pub(crate) max_p99: Option<Duration>,
    /// The longest that 99 of 100 turns may wait for their first token.
    #[schemars(with = "Option<Time>")]
    pub(crate) max_first_p99: Option<Duration>,
    /// The longest that a failover may add to the first token of 99 of 100 turns that needed one.
    #[schemars(with = "Option<Time>")]
    pub(crate) max_failover_p99: Option<Duration>,
    /// The fewest whole answers in a second.
    #[schemars(with = "Option<Decimal>")]
    pub(crate) min_goodput: Option<f64>,
    /// The goodput of the last step, as a part of the best step's.
    #[schemars(with = "Option<Decimal>")]
    pub(crate) min_goodput_ratio: Option<f64>,
    /// The most memory that the gateway may hold.
    #[schemars(with = "Option<Bytes>")]
    pub(crate) max_rss: Option<usize>,
    /// How much memory may grow once the gateway is warm, in each round.
    pub(crate) max_rss_growth: Option<Growth>,
    /// How much more than before the load the gateway may hold after it.
    pub(crate) max_left: Option<Left>,
    /// The fewest refusals (429 and 503), those after which a client came back included.
    #[schemars(with = "Option<Most>")]
    pub(crate) min_refused: Option<u32>,
    /// The most refusals that do not say when to come back.
    #[schemars(with = "Option<Most>")]
    pub(crate) max_without_retry_after: Option<u32>,
    /// The longest that 99 of 100 turns that were refused may have waited for it.
    #[schemars(with = "Option<Time>")]
    pub(crate) max_refused_p99: Option<Duration>,
    /// The median of turns, against the other gateway's (`--compare`).
    #[schemars(with = "Option<Decimal>")]
    pub(crate) max_p50_ratio: Option<f64>,
    /// The 99th percentile of turns, against the other gateway's (`--compare`).
    #[schemars(with = "Option<Decimal>")]
    pub(crate) max_p99_ratio: Option<f64>,
    /// CPU time for each turn, against the other gateway's (`--compare`, `--compare-pid`).
    #[schemars(with = "Option<Decimal>")]
    pub(crate) max_cpu_ratio: Option<f64>,
}

pub(super) fn read(field: &Field<'_>, expect: &mut Expect) {
    field.section(|keys| {
        for (name, most) in [
            ("max_lost", &mut expect.max_lost),
            ("max_errors", &mut expect.max_errors),
            ("max_not_begun", &mut expect.max_not_begun),
            ("min_whole", &mut expect.min_whole),
            ("min_failed_over", &mut expect.min_failed_over),
            ("min_reloads", &mut expect.min_reloads),
            ("min_refused", &mut expect.min_refused),
            ("max_without_retry_after", &mut expect.max_without_retry_after),
        ] {
            *most = keys.key(name).whole(Most::RANGE);
        }
        for (name, longest) in [
            ("max_p50", &mut expect.max_p50),
            ("max_p99", &mut expect.max_p99),
            ("max_first_p99", &mut expect.max_first_p99),
            ("max_failover_p99", &mut expect.max_failover_p99),
            ("max_refused_p99", &mut expect.max_refused_p99),
        ] {
            *longest = keys.key(name).duration();
        }
        for (name, number) in [
            ("min_goodput", &mut expect.min_goodput),
            ("min_goodput_ratio", &mut expect.min_goodput_ratio),
            ("max_p50_ratio", &mut expect.max_p50_ratio),
            ("max_p99_ratio", &mut expect.max_p99_ratio),
            ("max_cpu_ratio", &mut expect.max_cpu_ratio),
        ] {
            *number = keys.key(name).decimal();
        }
        expect.max_rss = keys.key("max_rss").size();
        let (growth, left) = (keys.key("max_rss_growth"), keys.key("max_left"));
        expect.max_rss_growth = if growth.is_absent() {
            None
        } else {
            rest::growth(&growth)
        };
        expect.max_left = (!left.is_absent()).then(|| rest::left(&left));
    });
}
