//! What a client hears, and whether it is what the scenario promises.

use bytes::Bytes;
use serde_json::Value;
use understudy_messages::client::ClientFrame;
use understudy_messages::request::Endpoint;
use understudy_messages::settings::Api;
use understudy_messages::terminal::TurnFailure;
use understudy_messages::turn::TurnRequest;
use understudy_providers::sse::SseDecoder;
use understudy_providers::wire::{self, Answer, Decoder, Style, Writer};
use understudy_tests::protocol::{self, Ending};

use crate::Client;
use crate::scenario::{Ends, Outcome, Scenario, text};
use crate::speak::{INPUT, WORDS};

/// A response as its client has it.
#[derive(Debug, Default)]
pub struct Heard {
    pub status: u16,
    pub body: Vec<u8>,
    /// The place of who is said to answer.
    pub served_by: Option<usize>,
    /// When to come back.
    pub retry_after: Option<String>,
    /// How often each candidate was asked.
    pub attempts: Vec<u64>,
    /// Whether rests of candidates were known: they too tell when to come back.
    pub rests: bool,
}

impl Heard {
    /// What the HTTP side makes of these frames.
    pub fn of(frames: Vec<ClientFrame>, request: &std::sync::Arc<TurnRequest>) -> Self {
        let mut heard = Self {
            status: 200,
            ..Self::default()
        };
        let (mut writer, mut pieces) = (None::<Writer>, Vec::new());
        let stream = request.facts.stream;
        for frame in frames {
            if let (ClientFrame::Failed(failure), None) | (ClientFrame::Failed(failure), Some(_)) = (&frame, &writer)
                && (writer.is_none() || !stream)
            {
                heard.fail(request.endpoint, failure);
                return heard;
            }
            if let ClientFrame::Head(head) = &frame {
                heard.served_by = crate::place(&head.served_by);
                writer = Some(Writer::new(Style {
                    request: request.clone(),
                    served_by: head.served_by.clone(),
                    created: 1_700_000_000,
                }));
                continue;
            }
            let writer = writer.as_mut().expect("a head comes first");
            let bytes = match frame {
                ClientFrame::Data(bytes) => writer.pass(bytes),
                ClientFrame::Pieces(more) if !stream => {
                    pieces.extend(more);
                    Bytes::new()
                }
                ClientFrame::Pieces(pieces) => writer.pieces(pieces),
                ClientFrame::Seam(seam) => writer.seam(&seam),
                ClientFrame::Note(note) => writer.note(&note),
                ClientFrame::KeepAlive => writer.keep_alive(),
                ClientFrame::End { .. } if !stream && pieces.is_empty() => Bytes::new(),
                ClientFrame::End { .. } if !stream => writer.whole(std::mem::take(&mut pieces)),
                ClientFrame::End { last } => writer.end(last),
                ClientFrame::Failed(failure) => writer.fail(&failure),
                ClientFrame::Head(_) => Bytes::new(),
            };
            heard.body.extend_from_slice(&bytes);
        }
        heard
    }

    fn fail(&mut self, endpoint: Endpoint, failure: &TurnFailure) {
        self.status = failure.status;
        self.retry_after = failure.retry_after.map(|seconds| seconds.to_string());
        self.body = wire::error_body(endpoint, failure, None);
    }

    /// Checks all that the scenario promises.
    pub fn check(&self, client: Endpoint, stream: bool, expected: &Outcome) -> Result<(), String> {
        let body = String::from_utf8_lossy(&self.body);
        if self.status != expected.status {
            return Err(format!("status {} instead of {}: {body}", self.status, expected.status));
        }
        let checked = match expected.ends {
            Ends::Refused => self.refused(client, expected),
            Ends::Whole if stream => self.streamed(client, Ending::Whole, expected),
            Ends::Error if stream => self.streamed(client, Ending::Error, expected),
            Ends::Whole | Ends::Error => self.whole(client, expected),
        };
        checked.map_err(|wrong| format!("{wrong} in {body}"))?;
        if expected.ends != Ends::Refused && self.served_by != expected.served_by {
            return Err(format!(
                "served by {:?} instead of {:?}",
                self.served_by, expected.served_by
            ));
        }
        if self.attempts != expected.attempts {
            return Err(format!(
                "{:?} attempts instead of {:?}",
                self.attempts, expected.attempts
            ));
        }
        Ok(())
    }

    /// Checks that a client that read a stream to its end is told the sum of all tokens that were reported to have gone into
    /// what it read. Anthropic reports some at the beginning, all others nothing before the end.
    pub fn check_usage(&self, scenario: &Scenario, apis: &[Api], client: Client) -> Result<(), String> {
        let outcome = scenario.outcome(client.stream).expect("played only where it is told");
        if outcome.ends != Ends::Whole || !client.stream {
            return Ok(());
        }
        let mut expected = (0, 0);
        let last = self.attempts.iter().rposition(|times| *times > 0).unwrap_or_default();
        for (place, times) in self.attempts.iter().enumerate().take(last + 1) {
            let act = scenario.act(place, usize::try_from(*times).expect("few").saturating_sub(1));
            let said = act.says.map_or(0, |[from, to]| (to - from).div_ceil(WORDS)) as u64;
            if place == last {
                expected = (expected.0 + INPUT, expected.1 + said);
            } else if said > 0 && scenario.on_broken_stream == "continue" && apis[place] == Api::AnthropicMessages {
                expected = (expected.0 + INPUT, expected.1 + 1);
            }
        }
        let mut frames = SseDecoder::default();
        let mut decoder = Decoder::new(client.endpoint.api());
        let mut answer = Answer::default();
        frames.push(Bytes::copy_from_slice(&self.body));
        while let Some(frame) = frames.next_frame().map_err(|error| error.to_string())? {
            let mut pieces = Vec::new();
            decoder.read(&frame, &mut pieces);
            pieces.iter().for_each(|piece| answer.add(piece));
        }
        let told = answer.usage.map(|usage| (usage.input, usage.output));
        if told == Some(expected) {
            Ok(())
        } else {
            let body = String::from_utf8_lossy(&self.body);
            Err(format!("tokens {told:?} instead of {expected:?} in {body}"))
        }
    }

    fn refused(&self, client: Endpoint, expected: &Outcome) -> Result<(), String> {
        let json: Value = serde_json::from_slice(&self.body).map_err(|error| error.to_string())?;
        let error = &json["error"];
        let in_shape = error["message"].is_string()
            && error["type"].is_string()
            && match client {
                Endpoint::Messages => json["type"] == "error",
                _ => error["code"].is_string(),
            };
        if !in_shape {
            return Err("not the shape of an error".to_owned());
        }
        if self.retry_after.is_some() != expected.retry_after && (self.rests || !expected.retry_after) {
            return Err(format!("retry-after {:?}", self.retry_after));
        }
        reason(error, expected)
    }

    fn streamed(&self, client: Endpoint, ending: Ending, expected: &Outcome) -> Result<(), String> {
        protocol::check(client, &self.body, ending)?;
        same_text(&protocol::text(client, &self.body, true), expected)?;
        if ending == Ending::Error {
            let last = String::from_utf8_lossy(&self.body);
            let last = last.trim_end().rsplit("data: ").next().unwrap_or_default();
            let json: Value = serde_json::from_str(last).map_err(|error| error.to_string())?;
            let error = if client == Endpoint::Responses {
                &json["response"]["error"]
            } else {
                &json["error"]
            };
            reason(error, expected)?;
        }
        Ok(())
    }

    fn whole(&self, client: Endpoint, expected: &Outcome) -> Result<(), String> {
        same_text(&protocol::text(client, &self.body, false), expected)
    }
}

/// Where our own word for the cause is told, it is the right one.
fn reason(error: &Value, expected: &Outcome) -> Result<(), String> {
    match (error["reason"].as_str(), &expected.reason) {
        (Some(told), Some(expected)) if told != expected => Err(format!("reason {told} instead of {expected}")),
        _ => Ok(()),
    }
}

fn same_text(read: &str, expected: &Outcome) -> Result<(), String> {
    let expected = text(&expected.says);
    if read == expected {
        Ok(())
    } else {
        Err(format!("text {read:?} instead of {expected:?}"))
    }
}
