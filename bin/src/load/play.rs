//! All rounds: each gateway in turn, again and again, so that what disturbs one disturbs the other too.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::census::{self, Census, OutOfSight, Remains};
use super::client::Client;
use super::driver::Driver;
use super::reloads::{self, Reloaded};
use super::request::Requests;
use super::stage::{Side, Stage};
use super::tally::Tally;
use super::verdict::Expected;

/// With two gateways it takes several rounds to tell them apart.
const ROUNDS_TO_COMPARE: u32 = 3;

/// How far it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Glance<'a> {
    pub(crate) side: &'static str,
    pub(crate) round: u32,
    pub(crate) rounds: u32,
    pub(crate) tally: &'a Tally,
    pub(crate) at: Duration,
}

/// What was measured at one gateway.
pub(crate) struct Measured {
    pub(crate) name: &'static str,
    pub(crate) url: String,
    /// One for each round.
    pub(crate) rounds: Vec<Tally>,
    pub(crate) reloads: Option<Reloaded>,
    /// What was left of the load, where somebody asked for it.
    pub(crate) left: Option<Remains>,
}

/// Plays the scenario until it is over, or `stop`. `watch` sees how far it is about twenty times a second.
///
/// # Errors
/// The simulator cannot be started, there is no memory, or something is expected that cannot be looked at.
pub(crate) async fn play(
    stage: &Stage,
    stop: &CancellationToken,
    mut watch: impl FnMut(Glance<'_>),
) -> anyhow::Result<Vec<Measured>> {
    let usual = if stage.sides.len() > 1 { ROUNDS_TO_COMPARE } else { 1 };
    let rounds = stage.scenario.rounds.unwrap_or(usual);
    let before = seen(stage).await?;
    let mut measured: Vec<Measured> = stage.sides.iter().map(Measured::new).collect();
    for round in 1..=rounds {
        for (side, measured) in stage.sides.iter().zip(&mut measured) {
            if stop.is_cancelled() {
                break;
            }
            let began = stage.clock.now();
            let (tally, reloaded) = one(stage, side, stop, |tally| {
                watch(Glance {
                    side: side.name,
                    round,
                    rounds,
                    tally,
                    at: stage.clock.now().saturating_duration_since(began),
                });
            })
            .await?;
            measured.rounds.push(tally);
            measured.add(reloaded);
        }
    }
    let expected = stage.scenario.expect.max_left.as_ref();
    if let (Some(expected), [side, ..], [measured, ..]) = (expected, &stage.sides[..], &mut measured[..]) {
        measured.left = Some(census::at_rest(expected, &side.meter, &stage.clock, &before, stop).await);
    }
    Ok(measured)
}

/// What the first gateway holds before it is asked, if all can be looked at that is expected of it.
async fn seen(stage: &Stage) -> Result<Census, OutOfSight> {
    let (Some(side), expect) = (stage.sides.first(), &stage.scenario.expect) else {
        return Ok(Census::default());
    };
    if expect.max_rss_growth.is_some() && side.meter.glance().is_none() {
        return Err(OutOfSight {
            what: "max_rss_growth",
            source_of_it: census::PROCESS,
        });
    }
    match &expect.max_left {
        None => Ok(Census::default()),
        Some(expected) => {
            let census = side.meter.census().await;
            census.shows(expected).map(|()| census)
        }
    }
}

async fn one(
    stage: &Stage,
    side: &Side,
    stop: &CancellationToken,
    watch: impl FnMut(&Tally),
) -> anyhow::Result<(Tally, Option<Reloaded>)> {
    let scenario = &stage.scenario;
    let expected = Expected::of(scenario);
    let seed = fastrand::u64(..);
    let driver = Driver {
        clock: &stage.clock,
        scenario,
        client: Client {
            clock: &stage.clock,
            to: &side.address,
            requests: Requests::new(&scenario.client, &side.address, fastrand::u32(..)),
            expected: &expected,
            scenario,
        },
        meter: &side.meter,
        stop,
        seed,
    };
    let simulator = stage.simulator().await?;
    let over = CancellationToken::new();
    let reloads = async {
        match (&scenario.reloads, &stage.gateway) {
            (Some(reloads), Some(gateway)) if side.name == stage.sides[0].name => {
                Some(reloads::ask(reloads, gateway, &stage.clock, &over).await)
            }
            _ => None,
        }
    };
    let turns = async {
        let tally = driver.run(watch).await;
        over.cancel();
        tally
    };
    let (tally, reloaded) = tokio::join!(turns, reloads);
    if let Some(simulator) = simulator {
        simulator.stop().await;
    }
    Ok((tally?, reloaded))
}

impl Measured {
    fn new(side: &Side) -> Self {
        Self {
            name: side.name,
            url: format!("http://{}{}", side.address.host, side.address.path),
            rounds: Vec::new(),
            reloads: None,
            left: None,
        }
    }

    fn add(&mut self, reloaded: Option<Reloaded>) {
        let Some(more) = reloaded else {
            return;
        };
        let all = self.reloads.get_or_insert_default();
        all.applied += more.applied;
        all.refused += more.refused;
        all.why.extend(more.why);
        all.longest = all.longest.max(more.longest);
    }
}
