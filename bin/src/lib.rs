//! Where Understudy runs: its configuration, and what is built from it.

pub mod config;
