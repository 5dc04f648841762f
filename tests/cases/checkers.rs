//! The checkers of the cases harness can fail: each passes what is right and refuses what was falsified.

#![expect(dead_code, reason = "a file of the harness is more than its checkers")]

mod case;
mod config;
mod expect;
mod falsified;
mod hooks;
mod log;
mod memory;
mod plugins;
mod reply;
mod seen;
mod windows;
