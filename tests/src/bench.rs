//! What the benches share: programs with a core to run on, an upstream, loads, handlers and sessions without a gateway, and
//! what is made of what was measured.

pub mod client;
pub mod hooks;
pub mod load;
pub mod machine;
pub mod process;
pub mod sessions;
pub mod target;
pub mod upstream;

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Whether `cargo bench` started this program. `cargo test --benches` starts it as well: then nothing is measured, and it says so.
pub fn is_asked_for() -> bool {
    let asked = std::env::args().any(|argument| argument == "--bench");
    if !asked {
        eprintln!("nothing is measured: that is done by cargo bench");
    }
    asked
}

/// CPU time of this process so far: user and system, all threads.
pub fn cpu() -> Duration {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(spent.tv_sec).expect("not negative");
    Duration::new(seconds, u32::try_from(spent.tv_nsec).expect("below a second"))
}

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

/// What so many of a hundred took at most, of times in ascending order; nothing without any.
pub fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let place = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(place).copied().unwrap_or_default()
}
