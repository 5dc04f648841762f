//! Windows: which credentials and models are left alone, and until when (design §6, rows "Windows" and "Probe"). Pure.

use std::collections::HashMap;
use std::time::Duration;

use understudy_messages::clock::Instant;
use understudy_messages::failure::{Failure, Reason};
use understudy_messages::ids::Name;

use super::ladder::{Ladder, Phase, Rested, Steps};

/// How many windows are remembered; beyond it the one that ends soonest is forgotten.
const MOST: usize = 4096;

/// What one window covers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Scope {
    /// A credential, whatever the model.
    Credential(usize),
    /// A model on one credential.
    CredentialModel(usize, Name),
    /// A model, whatever the credential.
    Model(Name),
    /// Every member of a quota group.
    Group,
}

/// How a provider's failures are spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Spread {
    /// It passes requests on: windows belong to single models.
    pub(super) aggregator: bool,
    /// Its members draw on one account.
    pub(super) grouped: bool,
}

/// Who was asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    pub(super) credential: usize,
    pub(super) model: &'a Name,
}

/// The windows of one account.
#[derive(Debug, Default)]
pub(super) struct Windows {
    ladders: HashMap<(Scope, Reason), Ladder>,
}

/// A window that a failure opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Opened {
    pub(super) until: Instant,
    pub(super) stated: bool,
}

impl Windows {
    /// How many there are, resting or not.
    pub(super) fn len(&self) -> usize {
        self.ladders.len()
    }

    /// All of them.
    pub(super) fn all(&self) -> impl Iterator<Item = (&Scope, &Ladder)> {
        self.ladders.iter().map(|((scope, _), ladder)| (scope, ladder))
    }

    /// Those that still hold where the credentials are others: `kept` tells of each of them its place before, if it had one. What
    /// is of no credential alone goes on as long as one of them does. Probes that are out come back to the old ones.
    pub(super) fn moved(&self, kept: &[Option<usize>]) -> Self {
        let place = |before: usize| kept.iter().position(|place| *place == Some(before));
        let moved = self.ladders.iter().filter_map(|((scope, reason), ladder)| {
            let scope = match scope {
                Scope::Credential(before) => Scope::Credential(place(*before)?),
                Scope::CredentialModel(before, model) => Scope::CredentialModel(place(*before)?, model.clone()),
                Scope::Model(_) | Scope::Group => kept.iter().any(Option::is_some).then(|| scope.clone())?,
            };
            let mut ladder = *ladder;
            ladder.probe_abandoned();
            Some(((scope, *reason), ladder))
        });
        Self {
            ladders: moved.collect(),
        }
    }

    /// Puts back one that rested when the process ended, unless that rest is over; none is longer than it can have been.
    pub(super) fn restore(&mut self, scope: Scope, rested: Rested, now: Instant) {
        if let Some(steps) = steps(rested.reason).filter(|_| !rested.remaining.is_zero()) {
            self.make_room();
            let ladder = Ladder::restored(rested, steps, now);
            self.ladders.insert((scope, rested.reason), ladder);
        }
    }

    /// The ladders that cover `asked`.
    pub(super) fn covering<'a>(&'a self, asked: Asked<'a>) -> impl Iterator<Item = (&'a Scope, &'a Ladder)> {
        let covers = move |scope: &Scope| covers(scope, asked);
        self.ladders
            .iter()
            .filter(move |((scope, _), _)| covers(scope))
            .map(|((scope, _), ladder)| (scope, ladder))
    }

    /// Lets a probe of `asked` out: every window that is due waits for its verdict.
    pub(super) fn probe(&mut self, asked: Asked<'_>, early: bool, now: Instant) {
        for ((scope, _), ladder) in &mut self.ladders {
            let due = ladder.phase(now) == Phase::Due || early && ladder.phase(now) == Phase::Resting;
            if due && covers(scope, asked) {
                ladder.probe();
            }
        }
    }

    /// The probe of `asked` came back without a verdict.
    pub(super) fn probe_abandoned(&mut self, asked: Asked<'_>) {
        let covering = self.ladders.iter_mut().filter(|((scope, _), _)| covers(scope, asked));
        covering.for_each(|(_, ladder)| ladder.probe_abandoned());
    }

    /// An attempt answered: what covered it is cleared.
    pub(super) fn succeeded(&mut self, asked: Asked<'_>) {
        self.ladders.retain(|(scope, _), _| !covers(scope, asked));
    }

    /// An attempt failed. Tells the window that it opened, if it did.
    pub(super) fn failed(
        &mut self,
        asked: Asked<'_>,
        failure: &Failure,
        spread: Spread,
        now: Instant,
    ) -> Option<Opened> {
        let steps = steps(failure.reason)?;
        let stated = failure.retry_after.filter(|_| failure.reason == Reason::RateLimit);
        let scope = self.scope(asked, failure.reason, spread, now);
        let key = (scope, failure.reason);
        let opened = match self.ladders.get_mut(&key) {
            Some(ladder) => ladder.failed(steps, stated, now),
            None => {
                self.make_room();
                self.ladders
                    .insert(key.clone(), Ladder::new(failure.reason, steps, stated, now));
                true
            }
        };
        let ladder = self.ladders.get(&key).filter(|_| opened)?;
        Some(Opened {
            until: ladder.until,
            stated: ladder.stated,
        })
    }

    /// A probe of `asked` failed: whatever it stood for rests again, unless the failure says nothing about it, as a model
    /// that is not served says nothing about an account. Tells the window that opened anew.
    pub(super) fn probe_failed(&mut self, asked: Asked<'_>, failure: &Failure, now: Instant) -> Option<Opened> {
        let mut opened = None;
        for ((scope, reason), ladder) in &mut self.ladders {
            if ladder.phase(now) != Phase::Probing || !covers(scope, asked) {
                continue;
            }
            let elsewhere = failure.reason == Reason::ModelNotFound && *reason != Reason::ModelNotFound;
            match (steps(*reason), elsewhere || super::says_nothing(failure.reason)) {
                (Some(steps), false) => {
                    let stated = failure.retry_after.filter(|_| *reason == failure.reason);
                    if ladder.probe_failed(steps, stated, now) {
                        opened = Some(Opened {
                            until: ladder.until,
                            stated: ladder.stated,
                        });
                    }
                }
                (Some(_) | None, _) => ladder.probe_abandoned(),
            }
        }
        opened
    }

    /// Forgets the windows of a scope that an operator or a new credential has settled.
    pub(super) fn reset(&mut self, model: Option<&Name>) {
        self.ladders.retain(|(scope, _), _| match (model, scope) {
            (None, _) => false,
            (Some(_), Scope::Credential(_) | Scope::Group) => false,
            (Some(model), Scope::CredentialModel(_, of) | Scope::Model(of)) => model != of,
        });
    }

    /// Forgets what has lapsed.
    pub(super) fn sweep(&mut self, now: Instant) {
        self.ladders.retain(|_, ladder| ladder.phase(now) != Phase::Lapsed);
    }

    /// What a failure is about. A second model that meets a rate limit while the first one's window on the same credential
    /// is running widens it to the whole credential (contract §5.5).
    fn scope(&self, asked: Asked<'_>, reason: Reason, spread: Spread, now: Instant) -> Scope {
        let model = || Scope::Model(asked.model.clone());
        match (reason, spread) {
            (Reason::ModelNotFound, _) | (_, Spread { aggregator: true, .. }) => model(),
            (_, Spread { grouped: true, .. }) => Scope::Group,
            (Reason::RateLimit, _) if self.other_model_rests(asked, now) => Scope::Credential(asked.credential),
            (Reason::RateLimit, _) => Scope::CredentialModel(asked.credential, asked.model.clone()),
            _ => Scope::Credential(asked.credential),
        }
    }

    fn other_model_rests(&self, asked: Asked<'_>, now: Instant) -> bool {
        self.ladders.iter().any(|((scope, reason), ladder)| {
            let other = matches!(scope, Scope::CredentialModel(credential, model)
                if *credential == asked.credential && model != asked.model);
            other && *reason == Reason::RateLimit && ladder.phase(now) == Phase::Resting
        })
    }

    fn make_room(&mut self) {
        if self.ladders.len() >= MOST {
            let soonest = self.ladders.iter().min_by_key(|(_, ladder)| ladder.until);
            if let Some(key) = soonest.map(|(key, _)| key.clone()) {
                self.ladders.remove(&key);
            }
        }
    }
}

fn covers(scope: &Scope, asked: Asked<'_>) -> bool {
    match scope {
        Scope::Group => true,
        Scope::Credential(credential) => *credential == asked.credential,
        Scope::Model(model) => model == asked.model,
        Scope::CredentialModel(credential, model) => *credential == asked.credential && model == asked.model,
    }
}

/// How long the windows of a reason are; `None` for a reason that opens none.
fn steps(reason: Reason) -> Option<Steps> {
    let of = |first, cap| {
        Some(Steps {
            first: Duration::from_secs(first),
            cap: Duration::from_secs(cap),
        })
    };
    match reason {
        Reason::RateLimit => of(30, 5 * 60),
        Reason::Auth | Reason::ModelNotFound => of(30, 10 * 60),
        Reason::Billing | Reason::AuthPermanent => of(10 * 60, 60 * 60),
        Reason::Overloaded
        | Reason::ServerError
        | Reason::Timeout
        | Reason::EmptyResponse
        | Reason::NoErrorDetails
        | Reason::Unclassified
        | Reason::Unknown
        | Reason::Format
        | Reason::ContextOverflow
        | Reason::SessionExpired
        | Reason::TlsCertificate => None,
    }
}
