//! A plugin that counts what it is told, and which of its instances was told it: one more source for the referee.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use tokio::sync::watch;
use understudy_messages::clock::Clock;
use understudy_messages::hooks::{Hook, HookContext, HookResult};
use understudy_plugins::native::{NativeApi, NativePlugin};
use understudy_plugins::registration::HookOptions;

/// The plugin's id.
pub(super) const ID: &str = "witness";

/// Hooks by which an instance learns of a turn: its beginning, its calls and its end.
const TOLD: [Hook; 4] = [
    Hook::BeforeModelResolve,
    Hook::ModelCallStarted,
    Hook::ModelCallEnded,
    Hook::AgentEnd,
];

/// The plugin. Its instances share what they note.
#[derive(Clone, Default)]
pub(super) struct Witness {
    /// How many turns it was told of that failed before any answer.
    failed: watch::Sender<u64>,
    instances: Arc<AtomicU64>,
    turns: Arc<Mutex<HashMap<String, Seen>>>,
}

/// Which instance was told of a turn, and whether another one was as well.
struct Seen {
    by: u64,
    also_by_another: bool,
}

impl Witness {
    /// What it was told so far. Nobody waits for its handler, so that it may come a little later: waits for `expected`, but not
    /// long.
    pub(super) async fn heard(&self, expected: u64) -> u64 {
        let clock = Clock::real();
        let mut heard = self.failed.subscribe();
        let all = heard.wait_for(|heard| *heard >= expected);
        let _else_the_numbers_differ = clock.timeout_at(clock.now() + super::SETTLE, all).await;
        *self.failed.borrow()
    }

    /// How many instances there were.
    pub(super) fn instances(&self) -> u64 {
        self.instances.load(Ordering::Relaxed)
    }

    /// Turns that one instance was told of and no other.
    pub(super) fn seen_by_one(&self) -> u64 {
        let turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.values().filter(|seen| !seen.also_by_another).count() as u64
    }

    fn note(&self, turn: &str, by: u64) {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = turns.entry(turn.to_owned()).or_insert(Seen {
            by,
            also_by_another: false,
        });
        seen.also_by_another |= seen.by != by;
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
        let number = self.instances.fetch_add(1, Ordering::Relaxed) + 1;
        for hook in TOLD {
            let notes = self.clone();
            let note = move |_: &_, context: &HookContext| {
                if let Some(turn) = &context.run_id {
                    notes.note(turn, number);
                }
                Ok(HookResult::None)
            };
            api.on_quick(hook.as_label(), HookOptions::default(), Arc::new(note));
        }
        let count = self.failed.clone();
        let hook = Hook::ModelFailureTerminal.as_label();
        let hear = move |_: &_, _: &_| {
            count.send_modify(|heard| *heard += 1);
            Ok(HookResult::None)
        };
        api.on_quick(hook, HookOptions::default(), Arc::new(hear));
        Ok(())
    }
}
