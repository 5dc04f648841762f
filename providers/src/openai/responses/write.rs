//! An answer written as Responses.
//!
//! Frames of the provider's own pass as they are; of them only the first and the last are remembered, so that the stream can
//! end properly whatever comes. What comes in pieces is written as the events that clients expect, numbered without a gap.
//! Calls stay open until the end: their arguments may come in turns.

use bytes::Bytes;
use understudy_messages::answer::Piece;
use understudy_messages::client::Seam;
use understudy_messages::terminal::TurnFailure;

use self::draft::Draft;
use self::envelope::Status;
use super::kept::{self, Kept};
use crate::wire::Style;

mod draft;
mod envelope;
mod events;
mod item;
mod passed;
#[cfg(test)]
mod tests;

/// Writes one answer.
#[derive(Debug)]
pub struct Writer {
    style: Style,
    passed: Option<Passed>,
    /// What is written in pieces; `None` as long as nothing is.
    draft: Option<Draft>,
    kept: Option<Kept>,
}

/// What is remembered of frames that passed.
#[derive(Debug)]
struct Passed {
    first: Bytes,
    last: Bytes,
}

impl Writer {
    /// At the beginning of an answer.
    pub(crate) fn new(style: Style) -> Self {
        Self {
            style,
            passed: None,
            draft: None,
            kept: None,
        }
    }

    /// A frame on its way as it is.
    pub(crate) fn pass(&mut self, frame: &Bytes) {
        if frame.starts_with(b":") {
            return;
        }
        match &mut self.passed {
            Some(passed) => passed.last = frame.clone(),
            None => {
                self.passed = Some(Passed {
                    first: frame.clone(),
                    last: frame.clone(),
                });
            }
        }
    }

    /// Pieces as frames of a stream.
    pub(crate) fn pieces(&mut self, pieces: Vec<Piece>) -> Bytes {
        let draft = self.draft();
        pieces.into_iter().for_each(|piece| draft.piece(piece));
        draft.events.take()
    }

    /// From here on the answer comes in pieces: somebody else's, or the rest of what was sent.
    pub(crate) fn seam(&mut self, seam: &Seam) -> Bytes {
        let nothing_written = self.draft.as_ref().is_none_or(|draft| !draft.events.begun());
        if !seam.sent.is_empty() && nothing_written {
            let mut draft = Draft::new(&self.style);
            passed::go_on(&mut draft, &seam.sent);
            self.draft = Some(draft);
        }
        let draft = self.draft();
        if seam.continued {
            draft.handed_to(&seam.served_by.model);
            let name = seam.served_by.to_string().replace(char::is_control, "");
            draft.events.comment(&format!("understudy continued by {name}"));
        }
        draft.events.take()
    }

    /// The proper end of a stream.
    pub(crate) fn end(&mut self, last: Option<Bytes>) -> Bytes {
        let stores = self.stores();
        let Some(draft) = &mut self.draft else {
            let last = last.unwrap_or_default();
            self.kept = stores.then(|| kept::of_frame(&last)).flatten();
            return last;
        };
        let status = Status::of(draft.finish);
        draft.close(status);
        if stores {
            self.kept = kept::of_body(&draft.body(status, None));
        }
        let kind = format!("response.{}", status.as_label());
        draft.respond(&kind, status, None);
        draft.events.take()
    }

    /// The proper end of a stream that is not whole.
    pub(crate) fn fail(&mut self, failure: &TurnFailure) -> Bytes {
        self.kept = None;
        if let Some(passed) = self.passed.take().filter(|_| self.draft.is_none()) {
            let mut draft = Draft::new(&self.style);
            passed::go_on(&mut draft, &[passed.first, passed.last]);
            // of what passed between the two nothing is known
            draft.items.clear();
            self.draft = Some(draft);
        }
        let draft = self.draft();
        draft.begin();
        draft.respond("response.failed", Status::Failed, Some(failure));
        draft.events.take()
    }

    /// All of an answer that does not stream.
    pub(crate) fn whole(&mut self, pieces: Vec<Piece>) -> Bytes {
        let stores = self.stores();
        let draft = self.draft();
        pieces.into_iter().for_each(|piece| draft.piece(piece));
        let status = Status::of(draft.finish);
        draft.close(status);
        let _events_of_a_stream = draft.events.take();
        let body = draft.body(status, None);
        if stores {
            self.kept = kept::of_body(&body);
        }
        body.into()
    }

    /// The answer, once it is whole, if it is to be found again by its id.
    pub(crate) fn kept(&mut self) -> Option<Kept> {
        self.kept.take()
    }

    fn stores(&self) -> bool {
        self.style
            .request
            .facts
            .responses
            .as_ref()
            .is_some_and(|facts| facts.store)
    }

    fn draft(&mut self) -> &mut Draft {
        let style = &self.style;
        self.draft.get_or_insert_with(|| Draft::new(style))
    }
}
