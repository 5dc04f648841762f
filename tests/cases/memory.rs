//! What this process holds of memory.

use std::fs;

/// The most that this process has held so far, in bytes.
///
/// The high-water mark and not what is held now: while a load is under way what a request needs for itself is in use, so that
/// nothing that has stayed behind can lie in memory that the allocator has only not given back.
///
/// # Errors
/// When the system does not tell.
pub(crate) fn peak() -> Result<u64, String> {
    let status = fs::read_to_string("/proc/self/status").map_err(|error| error.to_string())?;
    peak_in(&status).ok_or_else(|| "/proc/self/status tells no VmHWM".to_owned())
}

/// Reads `/proc/<pid>/status`.
pub(crate) fn peak_in(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib << 10)
}
