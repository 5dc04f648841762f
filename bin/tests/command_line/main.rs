//! The program as an operator types it.

#[cfg(all(test, unix, feature = "js"))]
mod plugins;
