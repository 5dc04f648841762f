//! Turns over real sockets: what clients see, what providers see, what is counted.

mod broken_streams;
mod cancel;
mod deadlines;
mod exhaustion;
mod failover;
mod headers;
mod pass_through;
mod sessions;
mod stage;
mod surface;
