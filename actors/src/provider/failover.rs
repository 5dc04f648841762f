//! What to do about a failed attempt. Pure: the whole situation comes in, one step goes out, never undecided.

use understudy_messages::answer::Progress;
use understudy_messages::events::Decision;
use understudy_messages::failure::Failure;
use understudy_messages::settings::BrokenStream;

/// What is known when an attempt has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Situation {
    /// The failed candidate's place in the cast.
    pub position: usize,
    /// The length of the cast.
    pub candidates: usize,
    /// What the client has seen.
    pub delivered: Progress,
    /// Upstream calls made so far, the failed one included.
    pub attempts: usize,
    /// What the agent wants for a stream that breaks after content.
    pub on_broken_stream: BrokenStream,
}

/// What is done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Step {
    /// Ask the candidate at this place.
    FallbackModel {
        /// Its place in the cast.
        to: usize,
    },
    /// Tell the client.
    Surface,
}

impl Step {
    /// The decision, as events and labels spell it.
    pub const fn decision(self) -> Decision {
        match self {
            Self::FallbackModel { .. } => Decision::FallbackModel,
            Self::Surface => Decision::SurfaceError,
        }
    }
}

/// The next step: the next candidate after any failure before content; otherwise the client is told.
///
/// A turn makes at most 2 × candidates + 2 attempts (design §6).
pub fn next_step(_failure: &Failure, situation: &Situation) -> Step {
    let next = situation.position + 1;
    let exhausted = next >= situation.candidates || situation.attempts >= 2 * situation.candidates + 2;
    if exhausted {
        return Step::Surface;
    }
    match (situation.delivered.is_answer(), situation.on_broken_stream) {
        (true, BrokenStream::Error) => Step::Surface,
        (false, BrokenStream::Error) => Step::FallbackModel { to: next },
    }
}

#[cfg(test)]
mod tests {
    use understudy_messages::failure::{Cut, Reason};

    use super::*;

    fn step(position: usize, delivered: Progress) -> Step {
        let situation = Situation {
            position,
            candidates: 2,
            delivered,
            attempts: position + 1,
            on_broken_stream: BrokenStream::Error,
        };
        next_step(&Failure::observed(Reason::ServerError, Cut::Answered), &situation)
    }

    #[test]
    fn before_an_answer_the_next_candidate_is_asked() {
        for delivered in [Progress::Nothing, Progress::Head, Progress::Reasoning] {
            assert_eq!(step(0, delivered), Step::FallbackModel { to: 1 }, "{delivered:?}");
        }
    }

    #[test]
    fn after_content_the_client_is_told() {
        for delivered in [Progress::Content, Progress::ToolCall] {
            assert_eq!(step(0, delivered), Step::Surface, "{delivered:?}");
        }
    }

    #[test]
    fn after_the_last_candidate_the_client_is_told() {
        assert_eq!(step(1, Progress::Nothing), Step::Surface);
    }
}
