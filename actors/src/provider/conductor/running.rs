//! Calls of tools that run here: judged, run one after the other, and their results told to the model.

use std::sync::Arc;

use serde_json::{Map, Value};
use understudy_messages::answer::{Piece, Progress};
use understudy_messages::client::ClientFrame;
use understudy_messages::clock::Instant;
use understudy_messages::conversation::{Part, ToolResult};
use understudy_messages::hooks::{Hook, HookContext, HookEvent};
use understudy_messages::plugin::CallError;
use understudy_messages::tools::{HeldCalls, ToolOutcome, ToolRound, ToolSpec, TurnNote};
use understudy_messages::turn::Candidate;

use super::Conductor;
use super::gate::{Follows, Proposal, add_text, refused};
use super::rounds::MOST_ROUNDS;
use super::telling::millis;
use crate::tools::calls::{Call, plain};
use crate::tools::rulings::Ruling;

/// The most that a model is told of what one tool returned.
const MOST_RETURNED: usize = 256 << 10;
/// The most that it is told of all of them in one turn.
const MOST_RETURNED_IN_ALL: usize = 4 << 20;

/// One call while it is worked on.
struct Running<'a> {
    call: &'a Call,
    context: Arc<HookContext>,
    began: Instant,
}

/// What came of a tool.
struct Returned {
    outcome: ToolOutcome,
    value: Option<Value>,
    text: String,
}

impl Conductor {
    /// Runs the calls of an answer, so that its model may be asked again.
    pub(super) async fn run_calls(&mut self, candidate: &Candidate, proposal: Proposal) -> Follows {
        if self.rounds.count() >= MOST_ROUNDS {
            return Follows::TooManyRounds;
        }
        let Proposal {
            mut answered,
            held,
            calls,
        } = proposal;
        let HeldCalls { head, pieces, .. } = held;
        let pieces: Vec<Piece> = pieces.into_iter().filter(is_said).collect();
        add_text(&mut answered, &pieces);
        let frames = head.map(ClientFrame::Head).into_iter();
        let progress = said(&pieces);
        let body = (!pieces.is_empty()).then_some(ClientFrame::Pieces(pieces));
        if !self.deliver(frames.chain(body), progress).await {
            return Follows::Cancelled;
        }
        self.turn.client.begin_attempt();
        let mut results = Vec::with_capacity(calls.len());
        for call in calls.iter().filter(|call| call.choice == 0) {
            match self.run_call(candidate, call, &answered.said, &results).await {
                Some(result) => results.push(result),
                None => return Follows::Cancelled,
            }
        }
        self.next_round(answered, results);
        self.again(candidate)
    }

    /// What the model is told of one call; `None` when the turn was cancelled meanwhile.
    async fn run_call(
        &mut self,
        candidate: &Candidate,
        call: &Call,
        said: &[Part],
        results: &[ToolResult],
    ) -> Option<ToolResult> {
        let mut running = Running {
            call,
            context: self.context_of(candidate, call),
            began: self.context.clock.now(),
        };
        let tools = self.turn.tools.clone();
        let Some(tool) = tools.all().iter().find(|tool| tool.name == call.name) else {
            let returned = Returned::failed(format!("Tool {} not found", plain(&call.name)));
            return self
                .returned(&running, None, call.params.clone().unwrap_or_default(), returned)
                .await;
        };
        let ruling = match self.turn.hooks.fires(Hook::BeforeToolCall) {
            true => {
                let (said, results) = (said.to_vec(), results.to_vec());
                let shown = self.shown(Some(ToolRound { said, results }));
                self.judge(call, &running.context, &shown).await?
            }
            false if call.params.is_none() => Ruling::unreadable(),
            false => Ruling::Stays,
        };
        let params = match ruling {
            Ruling::Stays => call.params.clone().unwrap_or_default(),
            Ruling::Changed(params) => Arc::new(params),
            Ruling::Blocked(block) => {
                self.note_blocked(call, &block, running.began, running.context);
                let result = refused(call, &block);
                self.tell_ended(call, ToolOutcome::Blocked, block.reason).await?;
                return Some(result);
            }
        };
        running.began = self.context.clock.now();
        let returned = self.run_tool(&running, tool, &params).await?;
        self.returned(&running, Some(tool), params, returned).await
    }

    /// Runs a tool. What it does counts as done from before it begins.
    async fn run_tool(
        &self,
        running: &Running<'_>,
        tool: &ToolSpec,
        params: &Arc<Map<String, Value>>,
    ) -> Option<Returned> {
        if !tool.replay_safe {
            self.turn.effects.note_unsafe();
        }
        self.tell_note(TurnNote::ToolStarted {
            call_id: running.call.id.clone(),
            tool: tool.name.clone(),
            params: params.clone(),
        })
        .await?;
        let (tools, params) = (self.turn.tools.clone(), Map::clone(params));
        let work = tools.run(tool, &running.call.id, params, running.context.clone());
        let result = tokio::select! {
            biased;
            _ = self.turn.cancel.cancelled() => return None,
            result = self.kept_alive(work) => result,
        };
        Some(match result {
            Ok(value) => Returned {
                outcome: ToolOutcome::Ok,
                text: text(&value),
                value: Some(value),
            },
            Err(error) => {
                tracing::warn!(turn = %self.turn.request.id, tool = %tool.name, plugin = %tool.plugin,
                    error = error.as_label(), "tool failed");
                Returned {
                    outcome: match error {
                        CallError::TimedOut => ToolOutcome::Timeout,
                        CallError::Failed(_) | CallError::Invalid | CallError::Gone | CallError::Cancelled => {
                            ToolOutcome::Error
                        }
                    },
                    ..Returned::failed(format!("Tool {} {error}", tool.name))
                }
            }
        })
    }

    /// Books and tells what came of a call.
    async fn returned(
        &mut self,
        running: &Running<'_>,
        tool: Option<&ToolSpec>,
        params: Arc<Map<String, Value>>,
        returned: Returned,
    ) -> Option<ToolResult> {
        let Returned { outcome, value, text } = returned;
        let took = self.context.clock.now().duration_since(running.began);
        let ran = tool.map(|_| took);
        self.context.telemetry.tool_called(tool, outcome, ran);
        self.upstream += ran.unwrap_or_default();
        let (call, is_error) = (running.call, outcome != ToolOutcome::Ok);
        if self.turn.hooks.fires(Hook::AfterToolCall) {
            let event = HookEvent::AfterToolCall {
                run_id: running.context.run_id.clone(),
                tool_name: call.name.clone(),
                params,
                tool_call_id: call.id.clone(),
                result: value,
                error: is_error.then(|| text.clone()),
                duration_ms: Some(millis(took)),
            };
            self.turn.hooks.fire(event, running.context.clone());
        }
        let left = MOST_RETURNED_IN_ALL.saturating_sub(self.rounds.returned);
        let text = bounded(text, MOST_RETURNED.min(left));
        self.rounds.returned += text.len();
        self.tell_ended(call, outcome, text.clone()).await?;
        Some(ToolResult {
            id: call.id.clone(),
            name: Some(call.name.to_string()),
            parts: vec![Part::Text(text)],
            is_error,
        })
    }

    async fn tell_ended(&self, call: &Call, outcome: ToolOutcome, result: String) -> Option<()> {
        self.tell_note(TurnNote::ToolEnded {
            call_id: call.id.clone(),
            tool: plain(&call.name),
            outcome,
            result,
        })
        .await
    }

    /// `None` when the turn was cancelled or the client has left.
    async fn tell_note(&self, note: TurnNote) -> Option<()> {
        // a note is no part of the answer
        let told = self.deliver([ClientFrame::Note(note)], Progress::Nothing).await;
        told.then_some(())
    }
}

impl Returned {
    const fn failed(text: String) -> Self {
        Self {
            outcome: ToolOutcome::Error,
            value: None,
            text,
        }
    }
}

/// Whether a piece is for the client, where the calls of an answer are not.
const fn is_said(piece: &Piece) -> bool {
    match piece {
        Piece::Begin { .. }
        | Piece::Text { .. }
        | Piece::Refusal { .. }
        | Piece::Reasoning { .. }
        | Piece::Sealed { .. }
        | Piece::Usage(_)
        | Piece::Ping => true,
        Piece::ToolCall { .. } | Piece::Finish { .. } => false,
    }
}

/// What of an answer these pieces are.
fn said(pieces: &[Piece]) -> Progress {
    let each = pieces.iter().map(|piece| match piece {
        Piece::Text { .. } | Piece::Refusal { .. } => Progress::Content,
        Piece::Reasoning { .. } => Progress::Reasoning,
        Piece::Begin { .. }
        | Piece::Sealed { .. }
        | Piece::ToolCall { .. }
        | Piece::Finish { .. }
        | Piece::Usage(_)
        | Piece::Ping => Progress::Head,
    });
    each.max().unwrap_or_default()
}

/// What a model is told of a value. A list of texts under `content`, as tools of plugins return it, is those texts.
fn text(value: &Value) -> String {
    let parts = value["content"].as_array().filter(|parts| !parts.is_empty());
    let is_text = |part: &&Value| part["type"] == "text";
    let texts = parts.and_then(|parts| {
        parts
            .iter()
            .map(|part| Some(part).filter(is_text)?["text"].as_str())
            .collect()
    });
    let texts: Option<Vec<&str>> = texts;
    if let Some(texts) = texts {
        return texts.join("\n");
    }
    match value {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

/// At most `most` bytes of a text; what was cut is said.
fn bounded(mut text: String, most: usize) -> String {
    if text.len() <= most {
        return text;
    }
    let (whole, end) = (text.len(), text.floor_char_boundary(most));
    text.truncate(end);
    format!("{text}\n[cut here: {whole} bytes in all]")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_text_is_told_as_it_is_and_anything_else_as_json() {
        assert_eq!(text(&json!("two\nlines")), "two\nlines");
        assert_eq!(text(&json!({ "a": [1] })), "{\"a\":[1]}");
    }

    #[test]
    fn a_list_of_texts_is_told_as_these_texts() {
        let two =
            json!({ "content": [{ "type": "text", "text": "one" }, { "type": "text", "text": "two" }], "details": 1 });
        assert_eq!(text(&two), "one\ntwo");
        let image = json!({ "content": [{ "type": "text", "text": "one" }, { "type": "image" }] });
        assert_eq!(text(&image), image.to_string());
    }

    #[test]
    fn what_is_too_long_is_cut_between_characters_and_said_so() {
        assert_eq!(bounded("äöü".to_owned(), 6), "äöü");
        assert_eq!(bounded("äöü".to_owned(), 3), "ä\n[cut here: 6 bytes in all]");
        assert!(bounded("a".repeat(MOST_RETURNED + 1), MOST_RETURNED).len() < MOST_RETURNED + 50);
    }
}
