//! The machine, as far as figures depend on it.

use std::fs;
use std::thread::available_parallelism;

/// One line: processor, cores, and how busy it was before the bench began.
pub fn describe() -> String {
    let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let mut names = processors.lines().filter_map(|line| line.strip_prefix("model name"));
    let name = names
        .next()
        .map_or("unknown processor", |name| name.trim_start_matches(['\t', ' ', ':']));
    let cores = processors.lines().filter(|line| line.starts_with("processor")).count();
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("unknown");
    let usable = available_parallelism().map_or(0, usize::from);
    format!("machine: {name}, {cores} cores ({usable} usable), load average {load} before the bench")
}
