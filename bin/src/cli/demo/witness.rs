//! A plugin that counts what it is told: one more source for the referee.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::watch;
use understudy_messages::clock::Clock;
use understudy_messages::hooks::{Hook, HookResult};
use understudy_plugins::native::{NativeApi, NativePlugin};
use understudy_plugins::registration::HookOptions;

/// The plugin's id.
pub(super) const ID: &str = "witness";

/// The plugin: how many turns it was told of that failed before any answer. Clones share the count.
#[derive(Clone, Default)]
pub(super) struct Witness(watch::Sender<u64>);

impl Witness {
    /// What it was told so far. Nobody waits for its handler, so that it may come a little later: waits for `expected`, but not
    /// long.
    pub(super) async fn heard(&self, expected: u64) -> u64 {
        let clock = Clock::real();
        let mut heard = self.0.subscribe();
        let all = heard.wait_for(|heard| *heard >= expected);
        let _else_the_numbers_differ = clock.timeout_at(clock.now() + super::SETTLE, all).await;
        *self.0.borrow()
    }
}

impl NativePlugin for Witness {
    fn id(&self) -> &str {
        ID
    }

    fn enabled_by_default(&self) -> bool {
        true
    }

    fn register(&self, api: &mut NativeApi, _: &Value) -> Result<(), String> {
        let count = self.0.clone();
        let hook = Hook::ModelFailureTerminal.as_label();
        let hear = move |_: &_, _: &_| {
            count.send_modify(|heard| *heard += 1);
            Ok(HookResult::None)
        };
        api.on_quick(hook, HookOptions::default(), Arc::new(hear));
        Ok(())
    }
}
