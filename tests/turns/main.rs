//! Turns over real sockets: what clients see, what providers see, what is counted.

mod cancel;
mod pass_through;
mod stage;
