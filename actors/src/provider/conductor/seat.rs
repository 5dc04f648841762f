//! A place at a provider that takes so many attempts and no more. One that is full is passed over as if it rested, but nothing is
//! held against it; where nobody else could answer, the turn waits for a place: once in vain, and no longer than the provider's
//! settings say.

use std::time::Duration;

use understudy_messages::failure::{Cut, Failure, Reason};
use understudy_messages::settings::Bound;
use understudy_messages::turn::Candidate;

use super::Conductor;
use crate::capacity::{CapacityPermit, Whose};
use crate::provider::ledger::{Purpose, Ticket};

/// What came of asking for a place.
pub(super) enum Seat {
    /// Leave to ask, and the place; none where there is no bound.
    Taken(Ticket, Option<CapacityPermit>),
    /// Somebody else is to be asked.
    Elsewhere(Ticket),
    /// Nobody has a place; this is when to come back.
    Nowhere(Duration),
    Cancelled,
}

impl Conductor {
    fn bound(&self, candidate: &Candidate) -> Option<Bound> {
        self.ledgers.get(candidate.provider)?.bound()
    }

    /// Whether whoever asked `candidate` now would have to wait.
    pub(super) fn is_full(&self, candidate: &Candidate) -> bool {
        let bound = self.bound(candidate);
        bound.is_some_and(|bound| self.context.capacities.is_full(&place_of(candidate), &bound))
    }

    /// A place for the attempt that is about to be made. Before its place, a candidate has been told nothing.
    pub(super) async fn seat(&mut self, candidate: &Candidate, ticket: Ticket) -> Seat {
        let Some(bound) = self.bound(candidate) else {
            return Seat::Taken(ticket, None);
        };
        let place = place_of(candidate);
        if let Some(permit) = self.context.capacities.try_enter(&place, &bound) {
            return Seat::Taken(ticket, Some(permit));
        }
        let others = self.turn.effects.replay_safe() && self.successor(None).is_some();
        if !others && !self.waited_in_vain {
            match self.stand(&place, &bound).await {
                Some(permit) => return Seat::Taken(ticket, Some(permit)),
                None if self.turn.cancel.cause().is_some() => return Seat::Cancelled,
                None => self.waited_in_vain = true,
            }
        }
        // another one may have its place to probe it
        drop(ticket);
        self.pass_over_full(self.here.position, candidate);
        match self.elsewhere() {
            Some(next) => Seat::Elsewhere(next),
            None => Seat::Nowhere(bound.wait),
        }
    }

    /// Waits in the line of a provider. Whoever looks after the turn's deadline cancels it, so that the cause is told.
    async fn stand(&mut self, place: &Whose, bound: &Bound) -> Option<CapacityPermit> {
        let (context, turn) = (self.context.clone(), self.turn.clone());
        let began = context.clock.now();
        let wait = async {
            tokio::select! {
                biased;
                entered = context.capacities.enter(place, bound, &turn.agent.name, None) => entered.ok(),
                _ = turn.cancel.cancelled() => None,
            }
        };
        turn.client.begin_attempt();
        let entered = self.kept_alive(wait).await;
        self.upstream += context.clock.now().duration_since(began);
        entered
    }

    fn elsewhere(&mut self) -> Option<Ticket> {
        if !self.turn.effects.replay_safe() {
            return None;
        }
        let aside = Failure::observed(Reason::Unclassified, Cut::Refused);
        self.advance(Some(&aside)).or_else(|| self.late(Some(&aside)))
    }

    /// Leave of somebody whom one does not ask first: one that is full, to wait for a place, else one whose rest is only guessed.
    pub(super) fn late(&mut self, failure: Option<&Failure>) -> Option<Ticket> {
        self.in_line(failure).or_else(|| self.ask_early())
    }

    fn in_line(&mut self, failure: Option<&Failure>) -> Option<Ticket> {
        if self.waited_in_vain {
            return None;
        }
        let first = failure.map_or(0, |_| self.here.position + 1);
        let candidates = self.cast.candidates.iter().enumerate().skip(first);
        let mut full = candidates.filter(|(_, next)| self.unfit(next, failure).is_none() && self.is_full(next));
        let (place, ticket) = full.find_map(|(place, next)| Some((place, self.enter(next, Purpose::Fresh).ok()?)))?;
        self.stand_at(place);
        Some(ticket)
    }
}

fn place_of(candidate: &Candidate) -> Whose {
    Whose::Provider(candidate.model.provider.clone())
}
