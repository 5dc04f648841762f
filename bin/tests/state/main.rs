//! What outlives a gateway that is killed: the real program, at any moment.
#![cfg(all(test, unix))]

mod kept;
mod killed;
mod place;
