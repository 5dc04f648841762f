//! Text that plugins put into a client's request, in the client's own wire format.
//!
//! Every byte that is not theirs stays: text goes in as messages and parts of its own (design §2.4). System text before the
//! client's own is a first message (Messages: a first block of `system`), after it likewise; user-side text is a part of the
//! newest message in which the user says something. In a Responses request it all goes into `input`: `instructions` stand
//! before that anyway, and would be shown to the client in the answer.

mod edits;
mod request;
mod system;
mod tools;
mod user;

#[cfg(test)]
mod tests;

use bytes::Bytes;
use understudy_messages::request::Endpoint;

use self::edits::Edits;
use self::request::Request;
use crate::request_error::RequestError;

/// What goes into a request. Texts that are `None` or empty add nothing.
#[derive(Clone, Copy, Default)]
pub struct Segments<'a> {
    /// In place of the client's own system text.
    pub system_prompt: Option<&'a str>,
    /// Before it.
    pub before_system: Option<&'a str>,
    /// After it.
    pub after_system: Option<&'a str>,
    /// Before what the user says.
    pub before_user: Option<&'a str>,
    /// After it.
    pub after_user: Option<&'a str>,
    /// Which tools stay; `None`: all of them.
    pub tools: Option<&'a dyn Fn(&str) -> bool>,
}

/// The body with the segments in it. With nothing to change it is the same allocation.
///
/// # Errors
/// [`RequestError`] for a body that is no conversation of this endpoint.
pub fn inject(endpoint: Endpoint, body: &Bytes, segments: &Segments<'_>) -> Result<Bytes, RequestError> {
    let request = Request::read(endpoint, body)?;
    let mut edits = Edits::default();
    system::edit(&request, segments, &mut edits);
    user::edit(&request, segments, &mut edits);
    if let Some(stays) = segments.tools {
        tools::edit(&request, stays, &mut edits)?;
    }
    Ok(edits.apply(body))
}

/// A text that adds something.
fn given(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}
