//! A whole, non-streaming answer: read to its end before the client sees any of it, so that the turn can still move on.

use bytes::{Bytes, BytesMut};
use reqwest::Response;
use understudy_messages::answer::Progress;
use understudy_messages::client::ClientFrame;
use understudy_messages::clock::Instant;
use understudy_messages::failure::{Cut, Failure, Reason};
use understudy_messages::provider::{Answered, AttemptError};

use super::fault::fault;
use super::{Exchange, failed, passing};
use crate::classify::{TransportFault, transport};
use crate::openai::chat::answer::{self, Answer};

/// The largest answer that is held.
const LARGEST: usize = 32 << 20;

impl Exchange<'_> {
    pub(super) async fn whole(&self, response: Response, deadline: Instant) -> Result<Answered, AttemptError> {
        let headers = response.headers().clone();
        let reading = self.read(response);
        let body = self.within(deadline, TransportFault::WholeLimit, reading).await??;
        let answer = answer::read(&body).map_err(|error| failed(error.observed()))?;
        if answer.error.is_some() {
            return Err(failed(self.classified(None, &headers, &body)));
        }
        if answer.is_empty() {
            return Err(failed(Failure::observed(Reason::EmptyResponse, Cut::CleanEnd)));
        }
        self.attempt.turn.client.note(progress(&answer));
        self.send(ClientFrame::Head(self.head(passing(&headers)))).await?;
        self.send(ClientFrame::Data(body)).await?;
        Ok(Answered {
            finish: answer.finish,
            usage: answer.usage,
            ..Answered::default()
        })
    }

    async fn read(&self, mut response: Response) -> Result<Bytes, AttemptError> {
        let too_large = || failed(Failure::observed(Reason::Unclassified, Cut::TooLarge));
        let announced = response.content_length().unwrap_or_default();
        let announced = usize::try_from(announced)
            .ok()
            .filter(|length| *length <= LARGEST)
            .ok_or_else(too_large)?;
        let mut body = BytesMut::with_capacity(announced);
        let lost = |error: reqwest::Error| failed(transport(fault(&error, TransportFault::Lost)));
        while let Some(bytes) = response.chunk().await.map_err(lost)? {
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

fn progress(answer: &Answer) -> Progress {
    match answer.tool_calls.is_empty() {
        true => Progress::Content,
        false => Progress::ToolCall,
    }
}
