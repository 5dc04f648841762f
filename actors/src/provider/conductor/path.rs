//! Which candidate is asked next, and who is passed over.

use std::sync::Arc;
use std::time::Duration;

use understudy_messages::events::CandidateSkipped;
use understudy_messages::failure::{Failure, Nuance, Reason};
use understudy_messages::hooks::TriedModel;
use understudy_messages::ids::ModelRef;
use understudy_messages::request::Endpoint;
use understudy_messages::session::Prompt;
use understudy_messages::terminal::{self, Outcome, TurnFailure};
use understudy_messages::turn::{Absent, Candidate};
use understudy_providers::wire::{Obstacle, obstacle};

use super::Conductor;
use super::fitting::Fitting;
use crate::provider::ledger::{Ledger, Purpose, Rest, Ticket};

/// How many bytes of text make a token at the very most: a conversation with more cannot fit for sure.
const BYTES_PER_TOKEN: usize = 8;

/// The candidate under way and what has been tried on it.
#[derive(Debug, Default)]
pub(super) struct Here {
    pub(super) position: usize,
    pub(super) retries: u32,
    pub(super) rotations: u32,
    /// Credentials used, in order.
    pub(super) used: Vec<usize>,
    /// Whether it was last given a text to go on with.
    pub(super) going_on: bool,
    /// Whether that text stood last.
    pub(super) prefilled: bool,
    /// Whether it has refused that.
    pub(super) refused_prefill: bool,
    /// What it is told, once the session has said it.
    pub(super) prompt: Option<Prompt>,
    pub(super) fitting: Fitting,
}

impl Here {
    pub(super) fn at(position: usize) -> Self {
        Self {
            position,
            ..Self::default()
        }
    }
}

/// What became of one candidate.
#[derive(Debug)]
pub(super) struct Tried {
    position: usize,
    model: ModelRef,
    outcome: TriedOutcome,
}

#[derive(Debug)]
enum TriedOutcome {
    Failed(Failure),
    Rested(Rest),
    /// Its provider had no place.
    Full,
}

/// Why a candidate is passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Passed {
    /// It rests, or would not do.
    Known,
    /// It is not there.
    Absent,
    /// Its provider is full.
    Full,
}

impl Tried {
    pub(super) fn failure(&self) -> Option<&Failure> {
        match &self.outcome {
            TriedOutcome::Failed(failure) => Some(failure),
            TriedOutcome::Rested(_) | TriedOutcome::Full => None,
        }
    }

    /// As plugins are told.
    pub(super) fn told(&self) -> TriedModel {
        TriedModel {
            provider: self.model.provider.clone(),
            model: self.model.model.clone(),
            reason: match &self.outcome {
                TriedOutcome::Failed(failure) => failure.reason,
                TriedOutcome::Rested(rest) => rest.reason,
                TriedOutcome::Full => Reason::Overloaded,
            },
        }
    }

    /// Whether nothing was sent, because the request could not be put into the provider's words.
    fn is_unasked(&self) -> bool {
        self.failure()
            .is_some_and(|failure| failure.nuance == Some(Nuance::Untranslatable))
    }
}

impl Tried {
    fn concluding(&self) -> terminal::Tried<'_> {
        terminal::Tried {
            model: &self.model,
            outcome: match &self.outcome {
                TriedOutcome::Failed(failure) => Outcome::Failed(failure),
                TriedOutcome::Rested(rest) => Outcome::Resting(rest.reason),
                TriedOutcome::Full => Outcome::Resting(Reason::Overloaded),
            },
        }
    }
}

impl Conductor {
    /// Notes a failed attempt and what follows from it for the rest of the turn.
    pub(super) fn note(&mut self, candidate: &Candidate, failure: &Failure) {
        let failed = (self.context.clock.now(), failure.reason);
        self.first_failure.get_or_insert(failed);
        if failure.reason == Reason::TlsCertificate {
            self.untrusted.push(candidate.provider);
        }
        self.tried.push(Tried {
            position: self.here.position,
            model: candidate.model.clone(),
            outcome: TriedOutcome::Failed(failure.clone()),
        });
    }

    /// The place of the next candidate that is usable and suits what failed.
    pub(super) fn successor(&self, failure: Option<&Failure>) -> Option<usize> {
        let later = self.cast.candidates.iter().enumerate().skip(self.here.position + 1);
        let usable = |candidate: &Candidate| {
            let ledger = self.ledgers.get(candidate.provider);
            let rests = |ledger: &Arc<Ledger>| ledger.rest(&candidate.model.model, self.context.clock.now());
            ledger.is_some_and(|ledger| rests(ledger).is_none()) && !self.is_full(candidate)
        };
        let mut fitting = later.filter(|(_, next)| self.unfit(next, failure).is_none() && usable(next));
        fitting.next().map(|(place, _)| place)
    }

    /// Takes leave of the next candidate that is usable and suits what failed; everyone passed over is told of.
    pub(super) fn advance(&mut self, failure: Option<&Failure>) -> Option<Ticket> {
        if let Some(filter) = failure.filter(|failure| failure.nuance == Some(Nuance::ContentFilter)) {
            let filter = filter.clone();
            let other = self.successor(Some(&filter));
            self.filtered.get_or_insert(filter);
            return other.and_then(|place| self.take(place));
        }
        let first = failure.map_or(0, |_| self.here.position + 1);
        for place in first..self.cast.candidates.len() {
            self.pass_over_absent(place);
            let candidate = self.cast.candidates[place].clone();
            if let Some(reason) = self.unfit(&candidate, failure) {
                let _told = self.skip(place, &candidate.model, reason, Passed::Known);
                continue;
            }
            if self.is_full(&candidate) {
                self.pass_over_full(place, &candidate);
                continue;
            }
            match self.enter(&candidate, Purpose::Fresh) {
                Ok(ticket) => {
                    self.here = Here::at(place);
                    return Some(ticket);
                }
                Err(rest) => self.pass_over(place, &candidate, rest),
            }
        }
        self.pass_over_absent(self.cast.candidates.len());
        None
    }

    /// Tells of those who are not there and come before the candidate at `place`: each once.
    fn pass_over_absent(&mut self, place: usize) {
        let (passed, later) = std::mem::take(&mut self.cast.absent)
            .into_iter()
            .partition(|it| it.before <= place);
        self.cast.absent = later;
        let passed: Vec<Absent> = passed;
        for Absent { model, before } in passed {
            let skipped = self.skip(before, &model, Reason::ModelNotFound, Passed::Absent);
            self.note_passed_over(&skipped);
        }
    }

    /// Asks once, before its rest ends, the candidate whose rest ends soonest, where all who rest do so by our own guess.
    pub(super) fn ask_early(&mut self) -> Option<Ticket> {
        if std::mem::replace(&mut self.asked_early, true) {
            return None;
        }
        let mut resting = Vec::new();
        for tried in &self.tried {
            if let TriedOutcome::Rested(rest) = &tried.outcome {
                if !rest.guessed || rest.probing {
                    return None;
                }
                resting.push((tried.position, rest.until));
            }
        }
        let (place, _) = resting.into_iter().min_by_key(|(_, until)| *until)?;
        let candidate = self.cast.candidates.get(place)?.clone();
        let ticket = self.enter(&candidate, Purpose::Early).ok()?;
        self.stand_at(place);
        Some(ticket)
    }

    /// The candidate at `place` is asked after all.
    pub(super) fn stand_at(&mut self, place: usize) {
        self.tried.retain(|tried| tried.position != place);
        self.here = Here::at(place);
    }

    /// The soonest end of a rest among the cast.
    pub(super) fn soonest(&self) -> Option<Duration> {
        let now = self.context.clock.now();
        let rest = |candidate: &Arc<Candidate>| {
            let ledger = self.ledgers.get(candidate.provider)?;
            let rest = ledger.rest(&candidate.model.model, now)?;
            Some(rest.until.saturating_duration_since(now))
        };
        self.cast.candidates.iter().filter_map(rest).min()
    }

    /// What became of the candidates, for the conclusion. Where the answer broke off, that is the cause, whatever became of
    /// those who were to go on with it. Where a content filter had the first word it has the last.
    pub(super) fn concluding(&self) -> Vec<terminal::Tried<'_>> {
        if let Some((model, failure)) = &self.broken.cause {
            let outcome = Outcome::Failed(failure);
            return vec![terminal::Tried { model, outcome }];
        }
        let refusal = self.filtered.as_ref().and_then(|filter| {
            let first = self.tried.iter().find(|tried| tried.failure() == Some(filter))?;
            Some(vec![terminal::Tried {
                model: &first.model,
                outcome: Outcome::Failed(filter),
            }])
        });
        refusal.unwrap_or_else(|| self.causes().map(Tried::concluding).collect())
    }

    /// Those who tell why there is no answer: whoever was not asked for want of words, only where nobody else was.
    fn causes(&self) -> impl Iterator<Item = &Tried> {
        let only_unasked = self.tried.iter().all(Tried::is_unasked);
        self.tried
            .iter()
            .filter(move |tried| only_unasked || !tried.is_unasked())
    }

    /// What the client is told where nobody could be asked because of what the request asks for.
    pub(super) fn unsupported(&self) -> Option<TurnFailure> {
        let candidates = self.cast.candidates.iter();
        let unfit = candidates.filter_map(|it| Some((&it.model, self.obstacle(it)?.as_words())));
        let unfit: Vec<_> = unfit.collect();
        (self.tried.is_empty() && !unfit.is_empty()).then(|| terminal::unsupported(&unfit))
    }

    /// What the client is told where nobody was asked because the conversation is too long for all who could give what it
    /// asks for.
    pub(super) fn outgrown(&self) -> Option<TurnFailure> {
        let mut candidates = self.cast.candidates.iter();
        let too_long = candidates.any(|it| self.unfit(it, None) == Some(Reason::ContextOverflow));
        (self.tried.is_empty() && too_long).then(terminal::outgrown)
    }

    fn obstacle(&self, candidate: &Candidate) -> Option<Obstacle> {
        let request = &self.turn.request;
        obstacle(request.endpoint, &request.facts, candidate.api)
    }

    /// Whether its vectors could not be compared with those of the lead (design §6, "Embeddings").
    fn is_elsewhere(&self, candidate: &Candidate) -> bool {
        let lead = self.cast.candidates.first();
        self.turn.request.endpoint == Endpoint::Embeddings && lead.is_some_and(|lead| space(lead) != space(candidate))
    }

    fn take(&mut self, place: usize) -> Option<Ticket> {
        let candidate = self.cast.candidates.get(place)?.clone();
        let ticket = self.enter(&candidate, Purpose::Fresh).ok()?;
        self.here = Here::at(place);
        Some(ticket)
    }

    /// Why `candidate` would not do after `failure`, whatever its health.
    pub(super) fn unfit(&self, candidate: &Candidate, failure: Option<&Failure>) -> Option<Reason> {
        if self.obstacle(candidate).is_some() || self.is_elsewhere(candidate) {
            return Some(Reason::Format);
        }
        let from = self.cast.candidates.get(self.here.position);
        let text = self.turn.request.facts.own_text();
        let window = candidate.settings.context;
        let too_long = window.is_some_and(|window| (text / BYTES_PER_TOKEN) as u64 > window);
        if too_long {
            return Some(Reason::ContextOverflow);
        }
        if self.untrusted.contains(&candidate.provider) {
            return Some(Reason::TlsCertificate);
        }
        match failure.map(|failure| (failure.reason, failure.nuance)) {
            Some((Reason::ContextOverflow, None)) => {
                let overflown = from.and_then(|from| from.settings.context);
                let no_larger = window
                    .zip(overflown)
                    .is_some_and(|(window, overflown)| window <= overflown);
                no_larger.then_some(Reason::ContextOverflow)
            }
            Some((Reason::Format, Some(Nuance::ContentFilter))) => {
                let same = from.is_some_and(|from| from.provider == candidate.provider);
                (same || self.filtered.is_some()).then_some(Reason::Format)
            }
            Some(_) if self.filtered.is_some() => Some(Reason::Format),
            Some(_) | None => None,
        }
    }

    pub(super) fn pass_over(&mut self, position: usize, candidate: &Candidate, rest: Rest) {
        let skipped = self.skip(position, &candidate.model, rest.reason, Passed::Known);
        self.passed_over(&skipped, TriedOutcome::Rested(rest));
    }

    pub(super) fn pass_over_full(&mut self, position: usize, candidate: &Candidate) {
        let skipped = self.skip(position, &candidate.model, Reason::Overloaded, Passed::Full);
        self.passed_over(&skipped, TriedOutcome::Full);
    }

    fn passed_over(&mut self, skipped: &CandidateSkipped, outcome: TriedOutcome) {
        self.note_passed_over(skipped);
        self.tried.push(Tried {
            position: skipped.position,
            model: skipped.model.clone(),
            outcome,
        });
    }

    fn skip(&self, position: usize, model: &ModelRef, reason: Reason, passed: Passed) -> CandidateSkipped {
        let skipped = CandidateSkipped {
            absent: passed == Passed::Absent,
            full: passed == Passed::Full,
            turn: self.turn.request.id,
            model: model.clone(),
            reason,
            position,
            candidates: self.cast.candidates.len(),
        };
        self.skipped(&skipped);
        skipped
    }
}

/// The space of a model's vectors: models of the same name share one.
fn space(candidate: &Candidate) -> &str {
    let named = candidate.settings.embedding_space.as_ref();
    named.unwrap_or(&candidate.model.model)
}
