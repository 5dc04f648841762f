//! What the benches share: programs with a core to run on, an upstream, loads, and the middle of what was measured.

pub mod client;
pub mod load;
pub mod machine;
pub mod process;
pub mod target;
pub mod upstream;

use std::time::Duration;

/// In microseconds.
pub fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

/// The one in the middle.
///
/// # Panics
/// Without any.
pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}
