//! An answer that broke off after the client had seen some of it, and who goes on with it how.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use understudy_messages::answer::{Progress, Usage};
use understudy_messages::client::ClientFrame;
use understudy_messages::events::{Event, Manner, StreamContinued};
use understudy_messages::failure::{Failure, Nuance};
use understudy_messages::ids::ModelRef;
use understudy_messages::provider::Delivered;
use understudy_messages::session::Continuation;
use understudy_messages::settings::BrokenStream;
use understudy_messages::turn::Candidate;
use understudy_providers::continuation::takes_prefill;

use super::Conductor;
use crate::provider::failover::continuable;

/// The most text that is gone on from.
const MOST_TEXT: usize = 1 << 20;
/// How often a client whose answer has begun hears that somebody is at work: half of the shortest idle limits that
/// proxies have.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// What the client has seen of an answer that broke off, in one attempt or in several.
#[derive(Debug, Default)]
pub(super) struct Broken {
    so_far: Continuation,
    /// Who spoke last.
    from: Option<ModelRef>,
    /// Who broke off first in mid-answer, and how: what the client is told if nobody can go on.
    pub(super) cause: Option<(ModelRef, Failure)>,
    /// Whether all that was delivered is text that may be gone on from.
    pub(super) is_plain: bool,
}

impl Broken {
    /// Where the client has seen an earlier round of this turn.
    pub(super) fn new(so_far: Continuation) -> Self {
        Self {
            so_far,
            ..Self::default()
        }
    }

    /// The text of this round's answer that the client has seen.
    pub(super) fn text(&self) -> &str {
        &self.so_far.text
    }

    /// Tokens that were reported so far.
    pub(super) const fn usage(&self) -> Usage {
        self.so_far.usage
    }

    /// Adds what an attempt delivered before it failed; the client has seen this much of it.
    fn add(&mut self, seen: Progress, model: &ModelRef, failure: &Failure, delivered: Option<Box<Delivered>>) {
        self.is_plain = !seen.is_answer() || delivered.is_some();
        if seen.is_answer() {
            self.cause.get_or_insert_with(|| (model.clone(), failure.clone()));
            self.from = Some(model.clone());
        }
        let Delivered { text, sent, usage } = delivered.map(|it| *it).unwrap_or_default();
        self.so_far.text.push_str(&text);
        self.so_far.sent = sent;
        self.so_far.usage = self.so_far.usage + usage.unwrap_or_default();
        self.is_plain &= self.so_far.text.len() <= MOST_TEXT;
    }
}

impl Conductor {
    /// Whether the policy and the request let somebody else go on with what this attempt may deliver.
    pub(super) fn is_continuable(&self) -> bool {
        let request = &self.turn.request;
        self.turn.agent.on_broken_stream == BrokenStream::Continue
            && self.turn.effects.replay_safe()
            && self.cast.candidates.len() > 1
            && continuable(request.endpoint, &request.facts)
    }

    /// What the candidate is to go on from: `None` while the client has seen nothing.
    pub(super) fn continuation(&self, candidate: &Candidate) -> Option<Arc<Continuation>> {
        if self.turn.client.progress() == Progress::Nothing {
            return None;
        }
        let so_far = self.broken.so_far.clone();
        let prefill = !so_far.text.trim_end().is_empty() && self.takes_prefill(candidate);
        Some(Arc::new(Continuation {
            prefill,
            after_text: so_far.after_text && so_far.text.is_empty(),
            ..so_far
        }))
    }

    fn takes_prefill(&self, candidate: &Candidate) -> bool {
        let (request, model) = (&self.turn.request, &candidate.model.model);
        let ledger = self.ledgers.get(candidate.provider);
        let usual = || {
            !ledger.is_some_and(|ledger| ledger.refuses_prefill(model))
                && takes_prefill(candidate.api, request.endpoint, &request.body)
        };
        !self.here.refused_prefill && candidate.settings.prefill.unwrap_or_else(usual)
    }

    /// Notes what a failed attempt has shown to the client, and whether its model takes no prefill.
    pub(super) fn note_broken(&mut self, candidate: &Candidate, failure: &Failure, delivered: Option<Box<Delivered>>) {
        let seen = self.turn.client.attempt_progress();
        if seen > Progress::Nothing {
            self.broken.add(seen, &candidate.model, failure, delivered);
        }
        if failure.nuance == Some(Nuance::PrefillRefused) && self.here.prefilled {
            self.here.refused_prefill = true;
            if let Some(ledger) = self.ledgers.get(candidate.provider) {
                ledger.note_prefill_refused(&candidate.model.model);
            }
        }
    }

    /// Publishes the seam, if the attempt went on with somebody's text and the client has seen it.
    pub(super) fn continued(&self, to: &ModelRef, continuation: Option<&Continuation>) {
        let Some((continuation, from)) = continuation.zip(self.broken.from.clone()) else {
            return;
        };
        if self.turn.client.attempt_progress() == Progress::Nothing || continuation.text.is_empty() {
            return;
        }
        let continued = StreamContinued {
            turn: self.turn.request.id,
            from,
            to: to.clone(),
            delivered_bytes: continuation.text.len(),
            manner: match continuation.prefill {
                true => Manner::Prefill,
                false => Manner::Instruction,
            },
        };
        tracing::info!(request = %self.turn.request.request_id, turn = %continued.turn, from = %continued.from,
            to = %continued.to, delivered_bytes = continued.delivered_bytes, manner = continued.manner.as_label(),
            "stream continued");
        self.context.tap.publish(|| Event::StreamContinued(continued));
    }

    /// The tokens of the whole answer, where its last part took `usage`.
    pub(super) fn whole_usage(&self, usage: Option<Usage>) -> Option<Usage> {
        let before = self.broken.so_far.usage;
        match usage {
            Some(usage) => Some(before + usage),
            None => (before != Usage::default()).then_some(before),
        }
    }

    /// The text of the whole answer, where its last part is `text`.
    pub(super) fn whole_text(&self, text: &str) -> String {
        self.rounds.whole_text(&format!("{}{text}", self.broken.text()))
    }

    /// Does `work`, and lets the client hear of it as long as its answer has begun and nothing comes.
    pub(super) async fn kept_alive<T>(&self, work: impl Future<Output = T>) -> T {
        let (client, clock) = (&self.turn.client, &self.context.clock);
        let mut work = pin!(work);
        let waits = || client.progress() > Progress::Nothing && client.attempt_progress() == Progress::Nothing;
        let mut due = None;
        while waits() {
            let next = due.unwrap_or_else(|| clock.now() + KEEP_ALIVE);
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = clock.sleep_until(next) => {}
            }
            due = Some(next + KEEP_ALIVE);
            if waits() {
                tokio::select! {
                    biased;
                    done = &mut work => return done,
                    _ = client.send(ClientFrame::KeepAlive) => {}
                }
            }
        }
        work.await
    }
}
