//! The program as an operator types it.

#[cfg(test)]
mod plugins;
