//! Who plays: the simulator, the gateway that is measured, and perhaps another one.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;

use anyhow::Context;
use understudy_messages::clock::Clock;
use understudy_providers::sim::journal::JournalLimits;
use understudy_providers::sim::{SimOptions, Simulator};

use super::address::Address;
use super::gateway::Gateway;
use super::meter::Meter;
use super::plan;
use super::scenario::Scenario;

/// A gateway that runs already.
#[derive(Clone, Debug)]
pub(crate) struct Other {
    pub(crate) address: Address,
    /// Its process, where it is one of this machine.
    pub(crate) pid: Option<u32>,
    /// A scrape that tells what it holds, and what its process uses.
    pub(crate) metrics: Option<String>,
}

/// A gateway that is measured.
pub(crate) struct Side {
    pub(crate) name: &'static str,
    pub(crate) address: Address,
    pub(crate) meter: Meter,
}

/// The running programs.
pub(crate) struct Stage {
    pub(crate) clock: Clock,
    pub(crate) scenario: Scenario,
    pub(crate) sides: Vec<Side>,
    /// The one that was started.
    pub(crate) gateway: Option<Gateway>,
    /// Where simulated upstreams are, if any are wanted.
    simulated: Option<SocketAddr>,
}

impl Other {
    fn side(self, name: &'static str) -> Side {
        Side {
            name,
            address: self.address,
            meter: Meter {
                process: self.pid,
                scrape: self.metrics,
            },
        }
    }
}

impl Stage {
    /// A gateway started for the scenario, or `target` in its place; `other` is what it is compared with. Simulated upstreams
    /// will be at `simulator`, else wherever there is a port, unless nobody is known to ask them.
    ///
    /// # Errors
    /// The gateway does not come up, or there is no port.
    pub(crate) async fn set(
        scenario: Scenario,
        target: Option<Other>,
        other: Option<Other>,
        simulator: Option<SocketAddr>,
        program: PathBuf,
    ) -> anyhow::Result<Self> {
        let clock = Clock::real();
        let (side, gateway, simulated) = match target {
            Some(target) => (target.side("target"), None, simulator),
            None => {
                let simulated = match simulator {
                    Some(address) => address,
                    None => free_port()?,
                };
                let config = plan::configuration(&scenario, simulated);
                let gateway = Gateway::start(&program, config, &clock).await?;
                let started = Other {
                    address: Address::read(&gateway.api, None)?,
                    pid: Some(gateway.pid),
                    metrics: Some(format!("{}/metrics", gateway.admin)),
                };
                (started.side("gateway"), Some(gateway), Some(simulated))
            }
        };
        Ok(Self {
            clock,
            scenario,
            sides: [side]
                .into_iter()
                .chain(other.map(|other| other.side("other")))
                .collect(),
            gateway,
            simulated,
        })
    }

    /// Starts the upstreams anew: what goes wrong there counts from now.
    pub(super) async fn simulator(&self) -> anyhow::Result<Option<Simulator>> {
        let Some(bind) = self.simulated else {
            return Ok(None);
        };
        let plan = serde_json::from_value(plan::scripts(&self.scenario)).context("the scripts are not sound")?;
        let options = SimOptions {
            bind,
            clock: self.clock.clone(),
            // nobody reads it
            journal: JournalLimits {
                records: 1,
                body_bytes: 0,
            },
            ..SimOptions::default()
        };
        let simulator = Simulator::start(plan, options).await;
        Ok(Some(simulator.context("the simulator did not start")?))
    }

    /// Ends what was started.
    pub(crate) async fn strike(self) {
        if let Some(gateway) = self.gateway {
            gateway.stop(&self.clock).await;
        }
    }
}

/// A port of the loopback interface that nobody has. It is taken once everything else is up.
fn free_port() -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("there is no free port")?;
    Ok(listener.local_addr()?)
}
