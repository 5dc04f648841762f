//! When things happen: the actors of Understudy and the pure decisions inside them.
//!
//! ```text
//! App (bin)
//! ├── RegistryActor            one per process: the serving generation and its gate
//! ├── CatalogKeeper            one per process: looks at the providers' lists of models
//! ├── PluginInstanceActor      one per loaded plugin, on an arbiter of its own
//! └── per session arbiter
//!     ├── SessionShardActor    directory of its sessions, wakes and forgets them
//!     │   └── SessionActor     one per session with work: turn queue
//!     └── ProviderActor        one per provider: conducts turns, makes attempts
//! ```
//!
//! Strong addresses follow this tree. Everyone else holds a port or a [`Slot`](understudy_messages::ports::Slot).

pub mod catalog;
mod engine;
pub mod hooks;
pub mod inventory;
pub mod plugin;
pub mod provider;
pub mod registry;
pub mod session;
pub mod state;
pub mod supervision;
pub mod tap;
pub mod telemetry;
pub mod tools;
