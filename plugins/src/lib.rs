//! How plugins run.
//!
//! A plugin is a folder with a manifest and an entry, or code that is compiled in. A *host* makes an [`Instance`] of it; what
//! the instance registers is a [`Registration`]. Who calls it and when is not known here: actors decide that.
//!
//! | Module | Says |
//! |---|---|
//! | [`manifest`] | what a plugin says of itself |
//! | [`capture`] | what a plugin's source was when it was loaded |
//! | [`discovery`] | where plugins are, and which are safe |
//! | [`enablement`] | which are loaded |
//! | [`activation`] | what each is needed for |
//! | [`hosts`] | who makes an instance |
//! | [`registration`] | what a plugin registers |
//! | [`declared`] | what a plugin that is not of this process says it registers |
//! | [`native`] | plugins that are compiled in |
//! | [`canon`] | the built-in plugin of that name |
//! | `js` | plugins in JavaScript, where the feature `js` is on |
//! | [`process`] | plugins that are child processes |
//! | [`webhook`] | plugins that are HTTP endpoints |

pub mod activation;
mod bounded;
pub mod canon;
pub mod capture;
pub mod declared;
pub mod discovery;
pub mod enablement;
pub mod hosts;
#[cfg(feature = "js")]
pub mod js;
pub mod listeners;
mod log;
pub mod manifest;
pub mod native;
pub mod process;
pub mod registration;
pub mod webhook;

use futures::future::BoxFuture;
use serde_json::Value;
use understudy_messages::context::CallEngine;
use understudy_messages::hooks::HookResult;
use understudy_messages::plugin::{CallError, CallHook, CallTool};
use understudy_messages::service::{CallRoute, CallService, RouteAnswer};

pub use self::registration::{HookRegistration, PolicyRegistration, Registration, ToolRegistration};

/// A plugin at work. Calls may come from any thread and at the same time; each ends when its `cancel` fires.
pub trait Instance: Send + Sync {
    /// What it registered.
    fn registration(&self) -> &Registration;

    /// Calls one of its handlers.
    fn call_hook(&self, call: CallHook) -> BoxFuture<'static, Result<HookResult, CallError>>;

    /// Runs one of its tools.
    fn call_tool(&self, call: CallTool) -> BoxFuture<'static, Result<Value, CallError>>;

    /// Starts or stops one of its services.
    fn call_service(&self, _: CallService) -> BoxFuture<'static, Result<(), CallError>> {
        Box::pin(std::future::ready(Err(CallError::Gone)))
    }

    /// Answers a request to one of its routes.
    fn call_route(&self, _: CallRoute) -> BoxFuture<'static, Result<RouteAnswer, CallError>> {
        Box::pin(std::future::ready(Err(CallError::Gone)))
    }

    /// Asks its context engine.
    fn call_engine(&self, _: CallEngine) -> BoxFuture<'static, Result<Value, CallError>> {
        Box::pin(std::future::ready(Err(CallError::Gone)))
    }

    /// Why it will never answer again: its code panicked, or its host died for good. `None` while it serves.
    fn failure(&self) -> Option<String> {
        None
    }

    /// Lets go of all that it holds. Calls after it end as [`CallError::Gone`].
    fn stop(&self) -> BoxFuture<'static, ()>;
}
