//! Notices that the configuration file was saved.
//!
//! It looks at the file each second instead of asking the system to be told: that also sees files behind links that are
//! replaced whole, as orchestrators do, and files of other machines.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use understudy_messages::registry::Trigger;

use crate::app::Shared;

/// How often the file is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How long it has to stay as it is before it is read: it may be written in steps.
const SETTLED: Duration = Duration::from_millis(300);

/// What a file looks like from outside; `None` while there is none.
type Stamp = Option<(Option<SystemTime>, u64)>;

/// Orders a look whenever the file has changed.
pub(super) async fn watch(shared: Arc<Shared>, file: Arc<Path>) {
    let clock = &shared.clock;
    let mut seen = stamp(&file).await;
    loop {
        clock.sleep(LOOK).await;
        let mut now = stamp(&file).await;
        if now == seen {
            continue;
        }
        loop {
            clock.sleep(SETTLED).await;
            let later = stamp(&file).await;
            if later == now {
                break;
            }
            now = later;
        }
        seen = now;
        shared.configuration.look(Trigger::ConfigWatch);
    }
}

async fn stamp(file: &Arc<Path>) -> Stamp {
    let file = file.clone();
    let looked = tokio::task::spawn_blocking(move || {
        let found = std::fs::metadata(&file).ok()?;
        Some((found.modified().ok(), found.len()))
    });
    looked.await.unwrap_or_default()
}
