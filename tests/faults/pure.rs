//! A turn without I/O: attempts played, the next step decided by the gateway's own function, frames written by its own
//! writer. No rests, no breaker: one turn alone does not know them.

use std::time::Duration;

use understudy_actors::provider::{Situation, Step, next_step};
use understudy_messages::answer::Progress;
use understudy_messages::client::{AnswerHead, ClientFrame};
use understudy_messages::failure::{Failure, Reason};
use understudy_messages::provider::AttemptError;
use understudy_messages::settings::{Api, BrokenStream, ContentFilter, RetrySettings};
use understudy_messages::terminal::{self, conclude};

use crate::heard::Heard;
use crate::played::{Played, Setting, play};
use crate::request;
use crate::scenario::Scenario;
use crate::speak::speak;

/// Plays a scenario for one client.
pub fn turn(scenario: &Scenario, apis: &[Api], client: crate::Client) -> Heard {
    let (frames, attempts) = frames(scenario, apis, client);
    Heard {
        attempts,
        ..Heard::of(frames, &request(client))
    }
}

fn frames(scenario: &Scenario, apis: &[Api], client: crate::Client) -> (Vec<ClientFrame>, Vec<u64>) {
    let (mut sent, mut attempts) = (Vec::new(), vec![0; apis.len()]);
    let (mut at, mut retries, mut progress) = (0, 0, Progress::Nothing);
    let mut tried: Vec<(usize, Failure)> = Vec::new();
    loop {
        let setting = Setting {
            endpoint: client.endpoint,
            api: apis[at],
            stream: client.stream,
            successor: at + 1 < apis.len(),
            as_pieces: false,
        };
        let act = scenario.act(at, attempts[at] as usize);
        let Played { frames, result, took } = play(&speak(act, apis[at], client.stream), setting);
        attempts[at] += 1;
        for (_, reached, frame) in frames {
            if progress == Progress::Nothing {
                sent.push(ClientFrame::Head(head(at, client)));
                progress = Progress::Head;
            }
            progress = progress.max(reached);
            sent.push(frame);
        }
        let failure = match result {
            Ok(answered) => {
                sent.push(ClientFrame::End { last: answered.last });
                return (sent, attempts);
            }
            Err(AttemptError::Failed { failure, .. }) => failure,
            Err(AttemptError::Cancelled) => unreachable!("nobody cancels"),
        };
        tried.push((at, failure.clone()));
        let total = attempts.iter().sum::<u64>();
        let step = next_step(
            &failure,
            &situation(
                &scenario.on_broken_stream,
                progress,
                at,
                apis.len(),
                retries,
                total,
                took,
                &failure,
            ),
        );
        match step {
            Step::RetrySame { .. } => retries += 1,
            Step::RotateCredential => unreachable!("there is one"),
            Step::FallbackModel { to } => (at, retries) = (to, 0),
            Step::Surface { retry_after } => {
                sent.push(ClientFrame::Failed(concluded(&tried, retry_after)));
                return (sent, attempts);
            }
        }
    }
}

#[expect(clippy::too_many_arguments, reason = "a situation is all of this")]
fn situation(
    policy: &str,
    delivered: Progress,
    at: usize,
    candidates: usize,
    retries: u32,
    attempts: u64,
    took: Duration,
    failure: &Failure,
) -> Situation<'static> {
    static RETRY: std::sync::LazyLock<RetrySettings> = std::sync::LazyLock::new(RetrySettings::default);
    let larger = failure.reason != Reason::ContextOverflow || at + 1 < candidates;
    Situation {
        delivered,
        replay_safe: true,
        successor: (larger && at + 1 < candidates).then_some(at + 1),
        same_again: true,
        took,
        retries,
        other_credential: false,
        rotations: 0,
        attempts: u32::try_from(attempts).unwrap_or(u32::MAX),
        max_attempts: u32::try_from(2 * candidates + 2).unwrap_or(u32::MAX),
        remaining: Duration::from_secs(600),
        jitter: 1.0,
        retry: &RETRY,
        on_broken_stream: match policy {
            "hold" => BrokenStream::Hold,
            "continue" => BrokenStream::Continue,
            _ => BrokenStream::Error,
        },
        on_content_filter: ContentFilter::Surface,
        on_status: false,
    }
}

fn concluded(tried: &[(usize, Failure)], retry_after: Option<Duration>) -> terminal::TurnFailure {
    let models: Vec<_> = tried.iter().map(|(at, _)| crate::model(*at)).collect();
    let tried = tried.iter().zip(&models).map(|((_, failure), model)| terminal::Tried {
        model,
        outcome: terminal::Outcome::Failed(failure),
    });
    conclude(&tried.collect::<Vec<_>>(), retry_after)
}

/// The head of an answer by the candidate at this place.
pub fn head(at: usize, client: crate::Client) -> AnswerHead {
    AnswerHead {
        served_by: crate::model(at),
        attempts: 1,
        streaming: client.stream,
        headers: Vec::new(),
        dropped: Vec::new(),
    }
}
