//! Turns over real sockets: what clients see, what providers see, what is counted.

mod activation;
mod backpressure;
mod broken_streams;
mod brought;
mod cancel;
mod configuration;
mod continued_across;
mod continued_streams;
mod crowd;
mod deadlines;
mod ends;
mod engine;
mod exhaustion;
mod failover;
mod given;
mod headers;
mod held;
mod hooks;
mod messages;
mod native;
mod old_clients;
mod operations;
mod pass_through;
mod plugins;
mod references;
mod reload;
mod responses;
mod secrets;
mod services;
mod sessions;
mod stage;
mod surface;
mod translation;
mod usage;

use understudy_tests::house;
