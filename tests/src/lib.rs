//! Black-box harnesses over the real app, and what they share: a gateway in a thread of its own, its actors on the test's
//! thread, the protocols of its clients, what benches need, and the folder of shared test material.

pub mod bench;
pub mod gateway;
pub mod house;
pub mod protocol;
pub mod recast;

use std::path::PathBuf;

/// The folder of shared test material: `$UNDERSTUDY_SHARED`, else `../shared` beside the workspace. It may be absent.
pub fn shared() -> PathBuf {
    let beside = || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared"));
    std::env::var_os("UNDERSTUDY_SHARED").map_or_else(beside, PathBuf::from)
}
