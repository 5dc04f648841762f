//! One gateway against another, round by round: what disturbed one of two neighbours disturbed the other too.

use std::time::Duration;

use serde::Serialize;

use crate::load::tally::Tally;

/// Medians of the ratios of all rounds; unknown where one of two figures is.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Ratios {
    pub(crate) p50: Option<f64>,
    pub(crate) p99: Option<f64>,
    pub(crate) cpu: Option<f64>,
    pub(crate) rss: Option<f64>,
    pub(crate) goodput: Option<f64>,
}

impl Ratios {
    /// Those of `one` over `other`.
    pub(crate) fn of(one: &[Tally], other: &[Tally]) -> Self {
        let ratio = |figure: &dyn Fn(&Tally) -> Option<f64>| {
            let rounds = one.iter().zip(other);
            median(
                rounds
                    .filter_map(|(one, other)| divided(figure(one)?, figure(other)?))
                    .collect(),
            )
        };
        let percentile = |percent| move |tally: &Tally| tally.turn.percentile(percent).map(|it| it.as_secs_f64());
        Self {
            p50: ratio(&percentile(50.0)),
            p99: ratio(&percentile(99.0)),
            cpu: ratio(&|tally| divided(tally.cpu?.as_secs_f64(), tally.begun as f64)),
            rss: ratio(&|tally| tally.rss.map(|rss| rss as f64)),
            goodput: ratio(&|tally| divided(tally.whole as f64, Duration::as_secs_f64(&tally.took))),
        }
    }

    /// Those that are known, with their names.
    pub(crate) fn named(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let all = [
            ("p50", self.p50),
            ("p99", self.p99),
            ("CPU per turn", self.cpu),
            ("memory", self.rss),
            ("goodput", self.goodput),
        ];
        all.into_iter().filter_map(|(name, ratio)| Some((name, ratio?)))
    }
}

fn divided(one: f64, other: f64) -> Option<f64> {
    (other > 0.0).then(|| one / other)
}

fn median(mut numbers: Vec<f64>) -> Option<f64> {
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    match numbers.len() % 2 {
        1 => numbers.get(middle).copied(),
        _ => Some(numbers.get(middle.checked_sub(1)?)?.midpoint(*numbers.get(middle)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_the_middle_or_between_the_two_middles() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }
}
