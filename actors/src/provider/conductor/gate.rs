//! Calls of tools that the client is to run: each is judged before the client gets it.
//!
//! Of an answer whose calls may all pass nothing is changed. Blocked ones go; where none is left the model is told why and
//! asked again, and at last the client is.

use std::sync::Arc;

use understudy_messages::answer::{Piece, Progress};
use understudy_messages::client::{ClientFrame, Seam};
use understudy_messages::clock::Instant;
use understudy_messages::conversation::{Part, ToolResult};
use understudy_messages::hooks::{Hook, HookContext, HookEvent, Snapshot};
use understudy_messages::provider::Answered;
use understudy_messages::request::Endpoint;
use understudy_messages::tools::{HeldCalls, RemovedCall, ToolOutcome, ToolRound};
use understudy_messages::turn::Candidate;

use super::Conductor;
use super::telling::millis;
use crate::provider::ledger::Ticket;
use crate::tools::calls::{Call, calls, plain};
use crate::tools::rulings::{Block, Ruling, add_usage, ruled};

/// How often a model is told in one turn that none of its calls may pass.
const MOST_TOLD: usize = 2;

/// What follows an answer that has come whole.
pub(super) enum Follows {
    /// The client has it, but for its end.
    End(Box<Answered>),
    /// Somebody is asked again, with what has been said meanwhile.
    Ask(Ticket),
    /// Somebody would be, and nobody is left.
    Nobody,
    /// The turn was cancelled meanwhile.
    Cancelled,
    /// The model has called tools as often as it may.
    TooManyRounds,
}

/// An answer whose end is held, and the calls in it.
pub(super) struct Proposal {
    pub(super) answered: Answered,
    pub(super) held: HeldCalls,
    pub(super) calls: Vec<Call>,
}

impl Conductor {
    /// Does about an answer what its calls of tools ask for.
    pub(super) async fn follow(&mut self, candidate: &Candidate, mut answered: Answered) -> Follows {
        let Some(held) = answered.held.take() else {
            return Follows::End(Box::new(answered));
        };
        // from here on it is the conductor who works while the client waits
        self.turn.client.begin_attempt();
        let proposal = Proposal {
            calls: calls(&held.pieces, &answered.said),
            held: *held,
            answered,
        };
        match self.turn.request.endpoint {
            Endpoint::Native => Box::pin(self.run_calls(candidate, proposal)).await,
            Endpoint::Chat
            | Endpoint::Responses
            | Endpoint::Messages
            | Endpoint::CountTokens
            | Endpoint::Embeddings => Box::pin(self.gate(candidate, proposal)).await,
        }
    }

    /// Judges the calls and gives the client what is left of them.
    async fn gate(&mut self, candidate: &Candidate, mut proposal: Proposal) -> Follows {
        let calls = std::mem::take(&mut proposal.calls);
        let Some(judged) = self.judge_all(candidate, &proposal.answered.said, calls).await else {
            return Follows::Cancelled;
        };
        // frames of calls in which no call could be found have not been judged
        let unchanged = !judged.is_empty() && judged.iter().all(|(_, ruling)| *ruling == Ruling::Stays);
        // bytes that went out before are gone on from in bytes, or behind a seam
        if unchanged && (proposal.held.sent.is_empty() || !proposal.held.raw.is_empty()) {
            return self.release(candidate, proposal, None).await;
        }
        let one_choice = self.turn.request.facts.choices <= 1 && judged.iter().all(|(call, _)| call.choice == 0);
        let blocks = judged.iter().map(|(call, ruling)| Some(refused(call, ruling.block()?)));
        let blocks: Option<Vec<ToolResult>> = blocks.collect();
        match blocks.filter(|blocks| one_choice && !blocks.is_empty()) {
            Some(blocks) if self.rounds.count() < MOST_TOLD => {
                if !self.tell_tokens(candidate, &mut proposal).await {
                    return Follows::Cancelled;
                }
                self.next_round(proposal.answered, blocks);
                self.again(candidate)
            }
            Some(_) | None => {
                let after_text = self.turn.client.progress().is_answer();
                let pieces = std::mem::take(&mut proposal.held.pieces);
                let pieces = ruled(pieces, &judged, Some(after_text));
                self.release(candidate, proposal, Some(pieces)).await
            }
        }
    }

    async fn judge_all(
        &mut self,
        candidate: &Candidate,
        said: &[Part],
        calls: Vec<Call>,
    ) -> Option<Vec<(Call, Ruling)>> {
        let shown = self.shown(Some(ToolRound {
            said: said.to_vec(),
            results: Vec::new(),
        }));
        let mut judged = Vec::with_capacity(calls.len());
        for call in calls {
            let began = self.context.clock.now();
            let context = self.context_of(candidate, &call);
            let ruling = self.judge(&call, &context, &shown).await?;
            if let Some(block) = ruling.block() {
                self.note_blocked(&call, block, began, context);
            }
            judged.push((call, ruling));
        }
        Some(judged)
    }

    /// What becomes of one call; `None` when the turn was cancelled meanwhile.
    pub(super) async fn judge(&self, call: &Call, context: &Arc<HookContext>, shown: &Arc<Snapshot>) -> Option<Ruling> {
        let Some(params) = &call.params else {
            return Some(Ruling::unreadable());
        };
        let event = HookEvent::BeforeToolCall {
            run_id: context.run_id.clone(),
            tool_name: call.name.clone(),
            params: params.clone(),
            tool_call_id: call.id.clone(),
            conversation: shown.clone(),
        };
        tokio::select! {
            biased;
            _ = self.turn.cancel.cancelled() => None,
            fate = self.kept_alive(self.turn.hooks.judge(event, context.clone())) => Some(Ruling::of(fate, params)),
        }
    }

    /// Who is at work while a call is judged or runs.
    pub(super) fn context_of(&self, candidate: &Candidate, call: &Call) -> Arc<HookContext> {
        Arc::new(HookContext {
            tool_name: Some(call.name.clone()),
            tool_call_id: Some(call.id.clone()),
            ..HookContext::clone(&self.turn.scene.context_for(candidate))
        })
    }

    /// Keeps a blocked call for the turn's record, and tells of it.
    pub(super) fn note_blocked(&mut self, call: &Call, block: &Block, began: Instant, context: Arc<HookContext>) {
        let removed = RemovedCall {
            tool: plain(&call.name),
            plugin: block.plugin.clone(),
            veto: block.veto,
        };
        tracing::info!(request = %self.turn.request.request_id, turn = %self.turn.request.id, tool = %removed.tool,
            plugin = %removed.plugin, veto = removed.veto, "tool call blocked");
        let tool = self.turn.tools.all().iter().find(|tool| tool.name == call.name);
        self.context.telemetry.tool_called(tool, ToolOutcome::Blocked, None);
        if self.turn.hooks.fires(Hook::AfterToolCall) {
            let event = HookEvent::AfterToolCall {
                run_id: context.run_id.clone(),
                tool_name: call.name.clone(),
                params: call.params.clone().unwrap_or_default(),
                tool_call_id: call.id.clone(),
                result: None,
                error: Some(block.reason.clone()),
                duration_ms: Some(millis(self.context.clock.now().duration_since(began))),
            };
            self.turn.hooks.fire(event, context, self.turn.lease.clone());
        }
        self.rounds.removed.push(removed);
    }

    /// Gives the client the end of the answer: as it came, or `changed`.
    async fn release(&mut self, candidate: &Candidate, proposal: Proposal, changed: Option<Vec<Piece>>) -> Follows {
        let Proposal {
            mut answered, mut held, ..
        } = proposal;
        let (is_changed, mut seam) = (changed.is_some(), None);
        if is_changed {
            seam = same_goes_on(candidate, &mut held);
        }
        let HeldCalls {
            head, raw, mut pieces, ..
        } = held;
        if let Some(changed) = changed {
            pieces = changed;
            answered.last = None;
            if self.turn.client.progress() == Progress::Nothing {
                // no seam has told the client's side of the rounds before
                add_usage(&mut pieces, self.broken.usage());
            }
        }
        add_text(&mut answered, &pieces);
        let body = match raw.is_empty() || is_changed {
            true => vec![ClientFrame::Pieces(pieces)],
            false => raw.into_iter().map(ClientFrame::Data).collect(),
        };
        let frames = head.map(ClientFrame::Head).into_iter();
        let frames = frames.chain(seam).chain(body);
        match self.deliver(frames, Progress::ToolCall).await {
            true => Follows::End(Box::new(answered)),
            false => Follows::Cancelled,
        }
    }

    /// Tells the client's side of the tokens of a round whose end it does not get: the next round's come on top of them.
    async fn tell_tokens(&self, candidate: &Candidate, proposal: &mut Proposal) -> bool {
        if self.turn.client.progress() == Progress::Nothing {
            return true;
        }
        let seam = same_goes_on(candidate, &mut proposal.held);
        let tokens = proposal
            .answered
            .usage
            .map(|usage| ClientFrame::Pieces(vec![Piece::Usage(usage)]));
        self.deliver(seam.into_iter().chain(tokens), Progress::Head).await
    }

    /// Sends frames of an answer, of which the client has then seen this much. `false` when the turn was cancelled or the
    /// client has left.
    pub(super) async fn deliver(&self, frames: impl IntoIterator<Item = ClientFrame>, progress: Progress) -> bool {
        let client = &self.turn.client;
        for frame in frames {
            client.note(match frame {
                ClientFrame::Head(_) | ClientFrame::Seam(_) => Progress::Head,
                _ => progress,
            });
            let sent = tokio::select! {
                biased;
                _ = self.turn.cancel.cancelled() => return false,
                sent = client.send(frame) => sent,
            };
            if sent.is_err() {
                return false;
            }
        }
        true
    }
}

/// The seam behind which a candidate's own answer comes in pieces.
fn same_goes_on(candidate: &Candidate, held: &mut HeldCalls) -> Option<ClientFrame> {
    if held.sent.is_empty() {
        return None;
    }
    Some(ClientFrame::Seam(Seam {
        sent: std::mem::take(&mut held.sent),
        served_by: candidate.model.clone(),
        continued: false,
    }))
}

/// What was held and goes out after all is part of the text that the client reads.
pub(super) fn add_text(answered: &mut Answered, pieces: &[Piece]) {
    let Some(text) = &mut answered.text else { return };
    for piece in pieces {
        if let Piece::Text { choice: 0, text: more } = piece {
            text.push_str(more);
        }
    }
}

/// What the model is told of a blocked call.
pub(super) fn refused(call: &Call, block: &Block) -> ToolResult {
    ToolResult {
        id: call.id.clone(),
        name: Some(call.name.to_string()),
        parts: vec![Part::Text(block.reason.clone())],
        is_error: true,
    }
}
