//! Turns over real sockets: what clients see, what providers see, what is counted.

mod cancel;
mod ends;
