//! `state.cooldown`: who is left alone at the end.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use super::{Complaints, within};
use crate::seen::Seen;
use crate::windows::{Scope, Window};

/// The state of the gateway at the end.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct State {
    /// By target; empty: nobody is in a window.
    cooldown: Option<BTreeMap<String, Cooldown>>,
}

/// What is known of one target.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Cooldown {
    /// In no window.
    None,
    /// In a window that holds no other model.
    Phrase(Phrase),
    /// In a window like this.
    Window(Rest),
}

#[derive(Clone, Copy, Debug, Deserialize)]
enum Phrase {
    #[serde(rename = "model scope only")]
    ModelScopeOnly,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rest {
    reason: String,
    max_ms: Option<u64>,
}

pub(super) fn check(state: &State, seen: &Seen, complaints: &mut Complaints) {
    let Some(cooldown) = &state.cooldown else {
        return;
    };
    let windows = match &seen.windows {
        Ok(windows) => windows,
        Err(error) => return complaints.add("state.cooldown", cooldown, error),
    };
    if cooldown.is_empty() {
        complaints.unless(windows.is_empty(), "state.cooldown", &"nobody in a window", windows);
    }
    for (target, rule) in cooldown {
        let holding: Vec<_> = windows.iter().filter(|window| window.scope.holds(target)).collect();
        let admitted = match rule {
            Cooldown::None => holding.is_empty(),
            Cooldown::Phrase(Phrase::ModelScopeOnly) => {
                let alone = |window: &&Window| window.scope == Scope::Model(target.clone());
                !holding.is_empty() && holding.iter().all(alone)
            }
            Cooldown::Window(rest) => holding.iter().any(|window| rest.admits(window)),
        };
        complaints.unless(admitted, format!("state.cooldown.{target}"), rule, &holding);
    }
}

impl Rest {
    fn admits(&self, window: &Window) -> bool {
        let short_enough = self.max_ms.is_none_or(|most| within(window.remaining, most));
        window.reason == self.reason && window.remaining > Duration::ZERO && short_enough
    }
}
