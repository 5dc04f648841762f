//! Replacing what is published while turns run.
//!
//! [`machine`] is one reload from its request to its outcome, [`instance`] one plugin instance from registration to disposal,
//! [`diff`] tells what a new generation keeps. All of it is pure; the registry carries its effects out.

pub mod diff;
pub mod instance;
pub mod machine;
