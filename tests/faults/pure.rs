//! A turn without I/O: attempts played, the next step decided by the gateway's own function, frames written by its own
//! writer. No rests, no breaker: one turn alone does not know them.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use understudy_actors::provider::{Situation, Step, continuable, next_step};
use understudy_messages::answer::Progress;
use understudy_messages::client::{AnswerHead, ClientFrame};
use understudy_messages::failure::{Failure, Nuance};
use understudy_messages::provider::{AttemptError, Delivered};
use understudy_messages::session::Continuation;
use understudy_messages::settings::{Api, BrokenStream, ContentFilter, RetrySettings};
use understudy_messages::terminal::{self, conclude};
use understudy_messages::turn::TurnRequest;
use understudy_providers::continuation::takes_prefill;

use crate::heard::Heard;
use crate::played::{Played, Setting, play};
use crate::scenario::Scenario;
use crate::speak::speak;
use crate::{Client, model};

static RETRY: LazyLock<RetrySettings> = LazyLock::new(RetrySettings::default);

/// Plays a scenario for one client.
pub fn turn(scenario: &Scenario, apis: &[Api], client: Client) -> Heard {
    let request = crate::request(scenario, client, "main");
    let turn = Turn::new(scenario, apis, client, &request);
    let (frames, attempts) = turn.play();
    Heard {
        attempts,
        ..Heard::of(frames, &request)
    }
}

/// A turn under way.
struct Turn<'a> {
    scenario: &'a Scenario,
    apis: &'a [Api],
    client: Client,
    request: &'a TurnRequest,
    policy: BrokenStream,
    at: usize,
    retries: u32,
    attempts: Vec<u64>,
    sent: Vec<ClientFrame>,
    so_far: Continuation,
    plain: bool,
    refused_prefill: bool,
    tried: Vec<(usize, Failure)>,
    /// Who broke off first after content.
    cause: Option<(usize, Failure)>,
}

impl<'a> Turn<'a> {
    fn new(scenario: &'a Scenario, apis: &'a [Api], client: Client, request: &'a TurnRequest) -> Self {
        Self {
            scenario,
            apis,
            client,
            request,
            policy: match &*scenario.on_broken_stream {
                "hold" => BrokenStream::Hold,
                "continue" => BrokenStream::Continue,
                _ => BrokenStream::Error,
            },
            at: 0,
            retries: 0,
            attempts: vec![0; apis.len()],
            sent: Vec::new(),
            so_far: Continuation::default(),
            plain: false,
            refused_prefill: false,
            tried: Vec::new(),
            cause: None,
        }
    }

    fn play(mut self) -> (Vec<ClientFrame>, Vec<u64>) {
        loop {
            let setting = self.setting();
            let act = self.scenario.act(self.at, self.attempts[self.at] as usize);
            let played = play(&speak(act, self.apis[self.at], self.client.stream), &setting);
            self.attempts[self.at] += 1;
            let Played { frames, result, took } = played;
            let seen = frames
                .iter()
                .map(|(_, progress, _)| *progress)
                .max()
                .unwrap_or_default();
            self.send(frames);
            match result {
                Ok(answered) => {
                    self.sent.push(ClientFrame::End { last: answered.last });
                    return (self.sent, self.attempts);
                }
                Err(AttemptError::Failed { failure, delivered, .. }) => {
                    self.note(&failure, seen, delivered.map(|it| *it), &setting);
                    match next_step(&failure, &self.situation(seen, took, &setting)) {
                        Step::RetrySame { .. } => self.retries += 1,
                        Step::RotateCredential => unreachable!("there is one"),
                        Step::FallbackModel { to } => {
                            (self.at, self.retries, self.refused_prefill) = (to, 0, false);
                        }
                        Step::Surface { retry_after } => {
                            let failure = self.concluded(retry_after);
                            self.sent.push(ClientFrame::Failed(failure));
                            return (self.sent, self.attempts);
                        }
                    }
                }
                Err(AttemptError::Cancelled) => unreachable!("nobody cancels"),
            }
        }
    }

    fn continuable(&self) -> bool {
        self.policy == BrokenStream::Continue
            && self.apis.len() > 1
            && continuable(self.request.endpoint, &self.request.facts)
    }

    fn setting(&self) -> Setting {
        let (request, api) = (self.request, self.apis[self.at]);
        let prefill = !self.so_far.text.trim_end().is_empty()
            && !self.refused_prefill
            && takes_prefill(api, request.endpoint, &request.body);
        let continuation = Continuation {
            prefill,
            ..self.so_far.clone()
        };
        Setting {
            endpoint: self.client.endpoint,
            api,
            stream: self.client.stream,
            successor: self.at + 1 < self.apis.len(),
            model: model(self.at),
            holds: self.policy == BrokenStream::Hold && self.client.stream,
            continuable: self.continuable(),
            continuation: (!self.sent.is_empty()).then(|| Arc::new(continuation)),
        }
    }

    fn send(&mut self, frames: Vec<(Duration, Progress, ClientFrame)>) {
        if self.sent.is_empty() && !frames.is_empty() {
            self.sent.push(ClientFrame::Head(AnswerHead {
                served_by: model(self.at),
                attempts: 1,
                streaming: self.client.stream,
                headers: Vec::new(),
                dropped: Vec::new(),
            }));
        }
        self.sent.extend(frames.into_iter().map(|(_, _, frame)| frame));
    }

    fn note(&mut self, failure: &Failure, seen: Progress, delivered: Option<Delivered>, setting: &Setting) {
        self.tried.push((self.at, failure.clone()));
        let prefilled = setting.continuation.as_ref().is_some_and(|it| it.prefill);
        self.refused_prefill |= prefilled && failure.nuance == Some(Nuance::PrefillRefused);
        if seen == Progress::Nothing {
            return;
        }
        self.plain = !seen.is_answer() || delivered.is_some();
        if seen.is_answer() {
            self.cause.get_or_insert_with(|| (self.at, failure.clone()));
        }
        let Delivered { text, sent, .. } = delivered.unwrap_or_default();
        self.so_far.text.push_str(&text);
        self.so_far.sent = sent;
    }

    fn situation(&self, delivered: Progress, took: Duration, setting: &Setting) -> Situation<'static> {
        let candidates = self.apis.len();
        let continuation = setting.continuation.as_ref();
        Situation {
            delivered,
            continuable: self.plain && self.continuable(),
            going_on: continuation.is_some_and(|it| !it.text.is_empty()),
            prefilled: continuation.is_some_and(|it| it.prefill),
            replay_safe: true,
            successor: (self.at + 1 < candidates).then_some(self.at + 1),
            same_again: true,
            took,
            retries: self.retries,
            other_credential: false,
            rotations: 0,
            attempts: u32::try_from(self.attempts.iter().sum::<u64>()).unwrap_or(u32::MAX),
            max_attempts: u32::try_from(2 * candidates + 2).unwrap_or(u32::MAX),
            remaining: Duration::from_secs(600),
            jitter: 1.0,
            retry: &RETRY,
            on_broken_stream: self.policy,
            on_content_filter: ContentFilter::Surface,
            on_status: false,
        }
    }

    /// A stream that broke off tells why it did, whatever came after.
    fn concluded(&self, retry_after: Option<Duration>) -> terminal::TurnFailure {
        let told = self.cause.as_ref().map_or(&*self.tried, std::slice::from_ref);
        let models: Vec<_> = told.iter().map(|(at, _)| model(*at)).collect();
        let tried = told.iter().zip(&models).map(|((_, failure), model)| terminal::Tried {
            model,
            outcome: terminal::Outcome::Failed(failure),
        });
        conclude(&tried.collect::<Vec<_>>(), retry_after)
    }
}
