//! The load generator: many sessions that ask a gateway, check every answer, and measure what it takes.
//!
//! `scenario` is what a file says, `plan` the simulator and the gateway that it makes of it, `agenda` who asks next and when,
//! `driver` asks, `answer` reads and `verdict` judges what comes back, `tally` counts, `census` looks at what is left, `stage` has the programs, `report` tells.

mod address;
mod agenda;
mod answer;
mod census;
mod client;
mod connection;
mod driver;
mod expectation;
mod figures;
mod filler;
mod gateway;
mod limits;
mod meter;
mod plan;
mod play;
mod process;
mod receipt;
pub(crate) mod reloads;
pub(crate) mod report;
mod request;
pub(crate) mod scenario;
mod stage;
mod tag;
mod tally;
mod verdict;

pub(crate) use address::Address;
pub(crate) use limits::{Core, make_room, move_to};
pub(crate) use play::{Glance, play};
pub(crate) use stage::{Other, Stage};
