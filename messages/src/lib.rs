//! What the actors of Understudy say to each other.
//!
//! Messages say what; providers and plugins know how, actors decide when, the binary decides where. This crate holds the
//! whole vocabulary: no I/O, no metrics, no decisions.
//!
//! | Module | Says |
//! |---|---|
//! | [`ids`] | names of things |
//! | [`settings`] | what a generation is built from |
//! | [`request`], [`turn`] | what was asked, who may answer, what came of it |
//! | [`conversation`] | a request taken apart, on its way into another wire format |
//! | [`session`], [`provider`], [`registry`] | the messages, by receiver |
//! | [`ports`] | who may be told what |
//! | [`client`], [`cancel`], [`lease`] | what a turn carries: its answer's channel, its cancellation, its generation |
//! | [`answer`], [`failure`], [`terminal`] | progress and usage, reasons, what a client is told |
//! | [`catalog`] | what providers say that they serve |
//! | [`events`] | what has happened |
//! | [`clock`] | the one source of time |

pub mod answer;
pub mod cancel;
pub mod catalog;
pub mod client;
pub mod clock;
pub mod context;
pub mod conversation;
pub mod events;
pub mod failure;
pub mod hooks;
pub mod ids;
pub mod lease;
pub mod origin;
pub mod plugin;
pub mod ports;
pub mod provider;
pub mod registry;
pub mod request;
pub mod service;
pub mod session;
pub mod settings;
pub mod terminal;
pub mod tools;
pub mod traffic;
pub mod turn;
