//! What is told at the end: text for people, JSON for programs, a page for both.

use serde::Serialize;

use super::expectation::{self, Outcome};
use super::figures::{Figures, Limit};
use super::play::Measured;
use super::scenario::Scenario;
use super::tally::NoHistogram;

mod html;
mod plot;
pub(super) mod ratios;
#[cfg(test)]
mod tests;
mod text;
mod timeline;

use ratios::Ratios;
use timeline::Timeline;

/// All that is told.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    scenario: String,
    about: String,
    /// Whether everything held that had to, and nothing ended it early.
    holds: bool,
    stopped: bool,
    expectations: Vec<Outcome>,
    gateways: Vec<Figures>,
    /// The first gateway's figures over the other one's.
    ratios: Option<Ratios>,
    timelines: Vec<Timeline>,
}

impl Report {
    /// What was measured, told; `name` is the scenario's.
    ///
    /// # Errors
    /// There is no memory for histograms.
    pub(crate) fn new(
        name: String,
        scenario: &Scenario,
        measured: &[Measured],
        stopped: bool,
    ) -> Result<Self, NoHistogram> {
        let figures = measured.iter().map(|it| Figures::of(it, scenario));
        let gateways = figures.collect::<Result<Vec<_>, _>>()?;
        let ratios = match measured {
            [one, other] => Some(Ratios::of(&one.rounds, &other.rounds)),
            _ => None,
        };
        let first = gateways
            .first()
            .map(|first| expectation::judge(&scenario.expect, first, ratios.as_ref()));
        let expectations = first.unwrap_or_default();
        Ok(Self {
            scenario: name,
            about: scenario.about.clone(),
            holds: !stopped && expectations.iter().all(|outcome| outcome.holds),
            stopped,
            expectations,
            gateways,
            ratios,
            timelines: measured.iter().map(Timeline::of).collect(),
        })
    }

    /// Whether everything held that had to.
    pub(crate) fn holds(&self) -> bool {
        self.holds
    }

    /// For people.
    pub(crate) fn text(&self) -> String {
        text::of(self)
    }

    /// One page with plots that needs nothing else.
    pub(crate) fn page(&self) -> String {
        html::of(self)
    }

    /// Why the figures may be the driver's own.
    fn caveats(&self) -> impl Iterator<Item = String> {
        let busy = self.gateways.iter().filter(|it| it.driver.limit != Limit::None);
        busy.map(|it| {
            let (busy, late) = (it.driver.cpu_share * 100.0, it.driver.lag_ms.get("p99"));
            let why = match it.driver.limit {
                Limit::Thread => "the driver's thread had no more time to give",
                Limit::Machine => "the machine had no time for the driver",
                Limit::None => "",
            };
            format!(
                "{}: these are not the gateway's figures alone: {why} (busy {busy:.0} % of the time, {:.1} ms late, p99)",
                it.name,
                late.copied().unwrap_or_default()
            )
        })
    }
}
