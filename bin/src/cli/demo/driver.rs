//! The clients of the demo: many sessions at once, each turn's answer checked by the one who asked.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use futures::StreamExt;
use serde_json::{Value, json};
use understudy_messages::clock::Clock;
use understudy_providers::answer::Answer;
use understudy_providers::openai::chat::answer::{self, Assembly};
use understudy_providers::openai::chat::chunk;
use understudy_providers::sse::SseDecoder;
use understudy_providers::stream::Signal;

use super::scenes::{SCENES, Scene};
use super::script::{TOOL, TORN};

/// The longest text that is kept of one answer.
const LONGEST: usize = 64 << 10;

/// What one client got for one turn.
#[derive(Clone, Debug)]
pub(super) struct Receipt {
    pub(super) scene: usize,
    pub(super) got: Got,
    /// Whether it was its session's last turn.
    pub(super) last: bool,
    /// What was wrong with it, if anything.
    pub(super) complaint: Option<String>,
}

/// How an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Got {
    /// Whole, from the lead.
    Lead,
    /// Whole, from another.
    Understudy,
    /// Whole, begun by the lead and ended by another.
    Continued,
    /// Whole, and what it wanted to call was blocked.
    Guarded,
    /// An error ending in its stream.
    ErrorEvent,
    /// An error response.
    Refusal,
    /// No ending that the protocol knows.
    Broken,
}

/// Sends turns to the gateway.
pub(super) struct Driver {
    client: reqwest::Client,
    url: String,
}

/// What came back, read to its end.
#[derive(Default)]
struct Reply {
    status: u16,
    served_by: String,
    text: String,
    calls: bool,
    done: bool,
    error: bool,
}

impl Reply {
    fn take(&mut self, answer: Answer) {
        self.calls = !answer.tool_calls.is_empty();
        self.text = answer.text;
    }
}

impl Driver {
    pub(super) fn new(api: SocketAddr) -> anyhow::Result<Self> {
        let client = reqwest::Client::builder().no_proxy().tcp_nodelay(true).build()?;
        Ok(Self {
            client,
            url: format!("http://{api}/v1/chat/completions"),
        })
    }

    /// Runs all sessions at the same time, the turns of each one after the other. Those that time happens to begin first:
    /// on a slow machine an outage would else be over before they ask.
    pub(super) async fn run(&self, sessions: u16, turns: u16) -> Vec<Receipt> {
        let mut order: Vec<usize> = (0..usize::from(sessions)).collect();
        order.sort_by_key(|session| SCENES[scene_of(*session)].paced.is_none());
        let sessions = futures::stream::iter(order.into_iter().map(|session| self.session(session, turns)));
        let receipts: Vec<Vec<Receipt>> = sessions.buffer_unordered(usize::from(u16::MAX)).collect().await;
        receipts.into_iter().flatten().collect()
    }

    async fn session(&self, session: usize, turns: u16) -> Vec<Receipt> {
        let scene = scene_of(session);
        let (turns, pause) = SCENES[scene].paced.unwrap_or((turns, Duration::ZERO));
        let mut receipts = Vec::with_capacity(usize::from(turns));
        for turn in 0..usize::from(turns) {
            let stream = SCENES[scene].streams_only || (session + turn).is_multiple_of(2);
            let said = format!("session {session}, turn {turn}");
            let reply = self.ask(&SCENES[scene], session, &said, stream).await;
            let last = turn + 1 == usize::from(turns);
            receipts.push(Receipt {
                last,
                ..receipt(scene, &said, stream, reply)
            });
            Clock::real().sleep(pause).await;
        }
        receipts
    }

    async fn ask(&self, scene: &Scene, session: usize, said: &str, stream: bool) -> anyhow::Result<Reply> {
        let mut body =
            json!({ "model": scene.model, "stream": stream, "messages": [{ "role": "user", "content": said }] });
        if scene.tools {
            body["tools"] = json!([{ "type": "function", "function": { "name": TOOL, "parameters": {} } }]);
        }
        let request = self
            .client
            .post(&self.url)
            .header("x-session-id", format!("demo-{session}"))
            .header("x-understudy-agent", scene.agent);
        let mut response = request.body(body.to_string()).send().await.context("no response")?;
        let served_by = response.headers().get("x-understudy-served-by");
        let mut reply = Reply {
            status: response.status().as_u16(),
            served_by: served_by
                .and_then(|value| value.to_str().ok())
                .unwrap_or_default()
                .to_owned(),
            ..Reply::default()
        };
        if stream && reply.status == 200 {
            let mut frames = SseDecoder::default();
            let mut text = Assembly::with_limit(LONGEST);
            while let Some(bytes) = response.chunk().await.context("the stream broke off")? {
                frames.push(bytes);
                while let Some(frame) = frames.next_frame()? {
                    let read = chunk::decode(&frame, &mut text);
                    reply.done |= read.signal == Signal::Done;
                    reply.error |= read.error.is_some();
                }
            }
            reply.take(text.finish());
            return Ok(reply);
        }
        let body = response.bytes().await.context("the body broke off")?;
        match reply.status {
            200 => reply.take(answer::read(&body)?),
            _ => {
                let no_json = || format!("status {} with a body that is no JSON", reply.status);
                let error: Value = serde_json::from_slice(&body).with_context(no_json)?;
                reply.error = error["error"]["code"].is_string();
            }
        }
        Ok(reply)
    }
}

/// How many turns these sessions take in all.
pub(super) fn turns_in_all(sessions: u16, turns: u16) -> usize {
    let of = |session| SCENES[scene_of(session)].paced.map_or(turns, |(own, _)| own);
    (0..usize::from(sessions)).map(|session| usize::from(of(session))).sum()
}

/// Of as many sessions as there are shares, each scene gets its own; neighbours play different ones.
fn scene_of(session: usize) -> usize {
    let shares: usize = SCENES.iter().map(|scene| scene.share).sum();
    // seven has no factor in common with the shares: every place comes once in each round
    let mut place = session * 7 % shares;
    for (index, scene) in SCENES.iter().enumerate() {
        match place.checked_sub(scene.share) {
            Some(rest) => place = rest,
            None => return index,
        }
    }
    0
}

fn receipt(scene: usize, said: &str, stream: bool, reply: anyhow::Result<Reply>) -> Receipt {
    let (got, complaint) = match reply {
        Err(error) => (Got::Broken, Some(format!("{error:#}"))),
        Ok(reply) => {
            let got = got(&SCENES[scene], stream, &reply);
            (got, complaint(&SCENES[scene], said, &reply, got))
        }
    };
    let complaint = complaint.map(|what| format!("{}, {said}: {what}", SCENES[scene].model));
    Receipt {
        scene,
        got,
        complaint,
        last: false,
    }
}

fn got(scene: &Scene, stream: bool, reply: &Reply) -> Got {
    match (reply.status, reply.error, stream && !reply.done) {
        (200, false, false) if reply.text.starts_with(TORN) => Got::Continued,
        (200, false, false) if scene.tools && !reply.calls => Got::Guarded,
        (200, false, false) if reply.served_by == scene.chain[0] => Got::Lead,
        (200, false, false) => Got::Understudy,
        (200, true, true) => Got::ErrorEvent,
        (400.., true, _) => Got::Refusal,
        _ => Got::Broken,
    }
}

fn complaint(scene: &Scene, said: &str, reply: &Reply, got: Got) -> Option<String> {
    let heard = |place: usize| {
        let (_, model) = scene.chain[place].split_once('/').unwrap_or_default();
        format!("{model} heard: {said}")
    };
    let is_right = match got {
        Got::Lead => reply.text == heard(0),
        Got::Understudy => reply.text == heard(1),
        // who goes on hears the request to do so
        Got::Continued => reply.text.starts_with(&[TORN, "second heard: "].concat()),
        Got::Guarded => reply.text.ends_with("which is forbidden."),
        Got::ErrorEvent => reply.text == TORN,
        Got::Refusal | Got::Broken => reply.text.is_empty(),
    };
    match (scene.allowed.contains(&got), is_right) {
        (true, true) => None,
        (true, false) => Some(format!("wrong text: {:?}", reply.text)),
        (false, _) => Some(format!("got {got:?} (status {})", reply.status)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scene_is_played_by_its_share() {
        let all: usize = SCENES.iter().map(|scene| scene.share).sum();
        assert_eq!(all, if cfg!(feature = "js") { 20 } else { 19 });
        for (index, scene) in SCENES.iter().enumerate() {
            assert_eq!(
                (0..all).filter(|session| scene_of(*session) == index).count(),
                scene.share,
                "{}",
                scene.model
            );
        }
    }
}
