//! A whole, non-streaming answer: read to its end before the client sees any of it, so that the turn can still move on.

use bytes::{Bytes, BytesMut};
use reqwest::Response;
use reqwest::header::HeaderMap;
use understudy_messages::answer::{Piece, Progress};
use understudy_messages::client::{ClientFrame, Seam};
use understudy_messages::clock::Instant;
use understudy_messages::conversation::Part;
use understudy_messages::failure::{Cut, Failure, Reason};
use understudy_messages::provider::{Answered, AttemptError};
use understudy_messages::tools::HeldCalls;

use super::fault::fault;
use super::going_on::GoingOn;
use super::heard::text_of;
use super::holding::{Naming, unjudgeable};
use super::{Exchange, failed, passing};
use crate::classify::{TransportFault, transport};
use crate::said;
use crate::wire::{self, Whole};

/// The largest answer that is held.
const LARGEST: usize = 32 << 20;

impl Exchange<'_> {
    pub(super) async fn whole(
        &self,
        mut response: Response,
        deadline: Instant,
        dropped: Vec<String>,
    ) -> Result<Answered, AttemptError> {
        let reading = self.read(&mut response);
        let body = self.within(deadline, TransportFault::WholeLimit, reading).await??;
        let headers = response.headers();
        let (answer, mut pieces) = self.understood(headers, &body)?;
        let mut answered = Answered {
            finish: answer.finish,
            usage: answer.usage,
            ..Answered::default()
        };
        let has_begun = self.attempt.turn.client.progress() > Progress::Nothing;
        let head = (!has_begun).then(|| self.head(passing(headers), dropped));
        let raw = self.passes_bytes().then_some(body);
        let listens = self.attempt.turn.wants_text();
        if self.attempt.gated {
            answered.said = self.judgeable(&answer, &mut pieces)?;
            if calls_tools(&answer, &pieces) {
                if let Some(seam) = self.seam(has_begun) {
                    self.send(seam).await?;
                }
                let pieces = self.new_in(pieces);
                let raw = raw.into_iter().collect();
                let sent = Vec::new();
                answered.held = Some(Box::new(HeldCalls {
                    head,
                    raw,
                    pieces,
                    sent,
                }));
                answered.text = listens.then(String::new);
                return Ok(answered);
            }
        }
        let pieces = self.new_in(pieces);
        answered.text = listens.then(|| text_of(&pieces));
        self.attempt.turn.client.note(progress(&answer));
        let frames = head.map(ClientFrame::Head).into_iter().chain(self.seam(has_begun));
        for frame in frames.chain([raw.map_or(ClientFrame::Pieces(pieces), ClientFrame::Data)]) {
            self.send(frame).await?;
        }
        Ok(answered)
    }

    /// The answer, unless it is none, and what it says where somebody wants to know.
    fn understood(&self, headers: &HeaderMap, body: &[u8]) -> Result<(Whole, Vec<Piece>), AttemptError> {
        let (endpoint, api) = (self.attempt.turn.request.endpoint, self.upstream.settings.api);
        let mut pieces = Vec::new();
        let wanted = !self.passes_bytes() || self.attempt.gated || self.attempt.turn.wants_text();
        let answer = wire::read_whole(endpoint, api, body, wanted.then_some(&mut pieces));
        let answer = answer.map_err(|error| failed(error.observed()))?;
        if answer.error.is_some() {
            return Err(failed(self.classified(None, headers, body)));
        }
        if answer.is_empty() {
            return Err(failed(Failure::observed(Reason::EmptyResponse, Cut::CleanEnd)));
        }
        Ok((answer, pieces))
    }

    /// What the model said, each of its calls with a name and an id.
    fn judgeable(&self, answer: &Whole, pieces: &mut [Piece]) -> Result<Vec<Part>, AttemptError> {
        let mut naming = Naming::of(self.attempt);
        naming.complete(pieces);
        match answer.untold || naming.nameless {
            true => Err(failed(unjudgeable())),
            false => Ok(said::of(pieces)),
        }
    }

    /// What of the pieces is new to a client who has read the answer's beginning.
    fn new_in(&self, pieces: Vec<Piece>) -> Vec<Piece> {
        let Some(mut going_on) = self.attempt.prompt.continuation.as_deref().map(GoingOn::new) else {
            return pieces;
        };
        let mut new = going_on.new_in(pieces);
        new.extend(going_on.finish());
        new
    }

    /// What comes between the answer's beginning and what goes on from it.
    fn seam(&self, has_begun: bool) -> Option<ClientFrame> {
        let continuation = self.attempt.prompt.continuation.as_ref().filter(|_| has_begun)?;
        Some(ClientFrame::Seam(Seam {
            sent: continuation.sent.clone(),
            served_by: self.attempt.candidate.model.clone(),
            continued: true,
        }))
    }

    async fn read(&self, response: &mut Response) -> Result<Bytes, AttemptError> {
        let too_large = || failed(Failure::observed(Reason::Unclassified, Cut::TooLarge));
        let announced = response.content_length().unwrap_or_default();
        let announced = usize::try_from(announced)
            .ok()
            .filter(|length| *length <= LARGEST)
            .ok_or_else(too_large)?;
        let mut body = BytesMut::with_capacity(announced);
        let lost = |error: reqwest::Error| failed(transport(fault(&error, TransportFault::Lost)));
        while let Some(bytes) = response.chunk().await.map_err(lost)? {
            self.note_heard(&bytes);
            if body.len() + bytes.len() > LARGEST {
                return Err(too_large());
            }
            if body.is_empty() && bytes.len() >= announced && announced > 0 {
                return Ok(bytes);
            }
            body.extend_from_slice(&bytes);
        }
        Ok(body.freeze())
    }
}

fn progress(answer: &Whole) -> Progress {
    match answer.calls_tools {
        false => Progress::Content,
        true => Progress::ToolCall,
    }
}

/// Whether it calls tools in any of its choices.
fn calls_tools(answer: &Whole, pieces: &[Piece]) -> bool {
    answer.calls_tools || pieces.iter().any(|piece| matches!(piece, Piece::ToolCall { .. }))
}
