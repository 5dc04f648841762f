//! The act in which plugins are replaced while all sessions run.

use std::net::SocketAddr;
use std::time::Duration;

use understudy_messages::clock::Clock;

use super::props::GUARD;
use super::witness;
use crate::load::reloads;

/// How often they are replaced.
pub(super) const TIMES: u64 = 5;
/// The time between two reloads: the last one comes while the flapping lead is still being asked.
const PAUSE: Duration = Duration::from_millis(400);

/// The plugins that are replaced: without its engine there is no guard.
pub(super) fn targets() -> Vec<&'static str> {
    let guard = cfg!(feature = "js").then_some(GUARD);
    guard.into_iter().chain([witness::ID]).collect()
}

/// Asks the gateway for all reloads, one after the other; what was wrong with them.
pub(super) async fn ask(admin: SocketAddr) -> Vec<String> {
    let mut complaints = Vec::new();
    let targets: Vec<String> = targets().into_iter().map(str::to_owned).collect();
    for number in 1..=TIMES {
        Clock::real().sleep(PAUSE).await;
        if let Err(why) = reloads::plugins(&format!("http://{admin}"), &targets).await {
            complaints.push(format!("reload {number}: {why:#}"));
        }
    }
    complaints
}
