//! What is learnt of providers and outlives the process: windows that rest, and models that take no prefill. Pure.
//!
//! A credential stands here as a digest that is mixed with a salt of the state file: it is found again with the credential, and
//! the credential is not found with it. What belongs to a credential, an address or an account that is no longer configured is
//! not found, and so forgotten.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use secrecy::ExposeSecret;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use understudy_messages::clock::Instant;
use understudy_messages::failure::Reason;
use understudy_messages::ids::Name;
use understudy_messages::settings::ProviderSettings;

use super::ladder::{LAPSE, Rested};
use super::windows::Scope;
use super::{Ledger, lock};

/// Ends that differ by less are the same: two clocks are read, one after the other.
const SAME: u64 = 1_000;

/// What something was learnt of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Subject {
    /// The provider, or the quota group.
    account: String,
    /// The digest of what it belongs to.
    of: String,
    /// The one model that it is about.
    model: Option<Name>,
    /// Why a window rests; `None`: the model takes no prefill.
    reason: Option<Reason>,
}

/// When a window ends. Times are milliseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mark {
    until: u64,
    failed: u64,
    stated: bool,
    rests: u32,
}

impl Mark {
    /// Whether nothing has happened between two looks at it.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let near = |one: u64, other: u64| one.abs_diff(other) < SAME;
        let same = |mark: &Self| (mark.stated, mark.rests);
        near(self.until, other.until) && near(self.failed, other.failed) && same(self) == same(other)
    }

    fn of(rested: &Rested, wall: SystemTime) -> Self {
        Self {
            until: millis(wall + rested.remaining),
            failed: millis(wall.checked_sub(rested.since).unwrap_or(UNIX_EPOCH)),
            stated: rested.stated,
            rests: rested.rests,
        }
    }

    /// `wall` may be earlier than it ever was for the one that wrote it.
    fn rested(&self, reason: Reason, wall: SystemTime) -> Rested {
        let now = millis(wall);
        Rested {
            reason,
            remaining: Duration::from_millis(self.until.saturating_sub(now)).min(LAPSE),
            since: Duration::from_millis(now.saturating_sub(self.failed)),
            stated: self.stated,
            rests: self.rests,
        }
    }
}

/// All that is learnt.
pub(super) type Marks = BTreeMap<Subject, Mark>;

/// What an earlier process has learnt.
#[derive(Debug, Default)]
pub struct Learnt {
    pub(super) salt: Vec<u8>,
    pub(super) marks: Marks,
    /// When it was read, by both clocks.
    pub(super) read: Option<(Instant, SystemTime)>,
}

impl Learnt {
    /// Puts it into the ledger of a provider.
    pub(super) fn restore(&self, ledger: &Ledger, now: Instant) {
        let Some((read, wall)) = self.read else { return };
        let wall = wall + now.saturating_duration_since(read);
        let known = Known::new(&self.salt, &ledger.settings);
        for (subject, mark) in &self.marks {
            match (known.scope(subject), subject.reason, &subject.model) {
                (Some(scope), Some(reason), _) => {
                    let rested = mark.rested(reason, wall);
                    ledger.windows(|windows| windows.restore(scope, rested, now));
                }
                (Some(Scope::Model(_)), None, Some(model)) => ledger.note_prefill_refused(model),
                (Some(_) | None, _, _) => {}
            }
        }
    }

    /// Adds what a ledger has learnt.
    pub(super) fn gather(&self, ledger: &Ledger, now: Instant, wall: SystemTime, marks: &mut Marks) {
        let known = Known::new(&self.salt, &ledger.settings);
        for (scope, ladder) in lock(&ledger.account.windows).all() {
            if let Some((rested, subject)) = ladder.rested(now).zip(known.subject(scope, Some(ladder.reason))) {
                marks.insert(subject, Mark::of(&rested, wall));
            }
        }
        for model in lock(&ledger.record.without_prefill).iter() {
            let subject = known.subject(&Scope::Model(model.clone()), None);
            marks.extend(subject.map(|subject| (subject, Mark::default())));
        }
    }
}

/// A provider as it is configured, in digests.
struct Known {
    account: String,
    whole: String,
    credentials: Vec<String>,
    grouped: bool,
}

impl Known {
    fn new(salt: &[u8], settings: &ProviderSettings) -> Self {
        let (name, url) = (&*settings.name, &*settings.base_url);
        let keys: Vec<&str> = settings.api_keys.iter().map(ExposeSecret::expose_secret).collect();
        let of = |parts: &[&str]| digest(salt, parts);
        let bare = [""];
        let each = if keys.is_empty() { &bare[..] } else { &keys[..] };
        let group = settings.quota_group.as_deref();
        Self {
            account: group.map_or_else(|| format!("provider {name}"), |group| format!("group {group}")),
            whole: group.map_or_else(
                || of(&[&["whole", name, url], &keys[..]].concat()),
                |group| of(&["group", group]),
            ),
            credentials: each.iter().map(|key| of(&["credential", name, url, key])).collect(),
            grouped: group.is_some(),
        }
    }

    fn subject(&self, scope: &Scope, reason: Option<Reason>) -> Option<Subject> {
        let (of, model) = match scope {
            Scope::Credential(place) => (self.credentials.get(*place)?, None),
            Scope::CredentialModel(place, model) => (self.credentials.get(*place)?, Some(model.clone())),
            Scope::Model(model) => (&self.whole, Some(model.clone())),
            Scope::Group => (&self.whole, None),
        };
        Some(Subject {
            account: self.account.clone(),
            of: of.clone(),
            model,
            reason,
        })
    }

    /// What a subject is here, if it is anything.
    fn scope(&self, subject: &Subject) -> Option<Scope> {
        if subject.account != self.account {
            return None;
        }
        let credential = self.credentials.iter().position(|known| *known == subject.of);
        match (credential, &subject.model) {
            (Some(place), None) => Some(Scope::Credential(place)),
            (Some(place), Some(model)) => Some(Scope::CredentialModel(place, model.clone())),
            (None, _) if subject.of != self.whole => None,
            (None, Some(model)) => Some(Scope::Model(model.clone())),
            (None, None) => self.grouped.then_some(Scope::Group),
        }
    }
}

fn digest(salt: &[u8], parts: &[&str]) -> String {
    let mut digest = Sha256::new().chain_update(salt);
    for part in parts {
        digest.update(part);
        digest.update([0]);
    }
    let bytes = digest.finalize();
    bytes.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
