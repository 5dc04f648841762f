//! What clients ask for, and what one target made of it.

use std::time::Duration;

use futures::future::join_all;
use serde_json::json;
use understudy_messages::clock::{Clock, Instant};

use super::client::Client;
use super::target::Target;
use super::{percentile, upstream};

/// How long a phase may take beyond its time.
const PATIENCE: Duration = Duration::from_secs(20);
/// What conversations are made of.
pub const SENTENCE: &str = "She said \"the show goes on\" when the lead lost his voice, and the understudy went on.\n";

/// Clients that each wait for their answer before they ask again.
pub struct Load {
    /// What it is called.
    pub name: &'static str,
    connections: usize,
    messages: usize,
    /// Sentences in each message.
    sentences: usize,
    /// Whether the answers are streams.
    pub stream: bool,
}

/// The usual one.
pub const MANY: Load = Load {
    name: "64 connections, 0.7 KB requests",
    connections: 64,
    messages: 3,
    sentences: 2,
    stream: false,
};

/// Every load that a gateway is measured under.
pub static LOADS: [Load; 4] = [
    MANY,
    Load {
        name: "64 connections, 64 KB requests",
        messages: 46,
        sentences: 15,
        ..MANY
    },
    Load {
        name: "1 connection, 0.7 KB requests",
        connections: 1,
        ..MANY
    },
    Load {
        name: "64 connections, streams of 20 chunks",
        stream: true,
        ..MANY
    },
];

/// One target under one load for a while.
#[derive(Clone, Copy)]
pub struct Sample {
    /// CPU time of the target for each request, for streams for each event.
    pub cpu: Duration,
    /// How long half of the answers took at most, to their last byte.
    pub p50: Duration,
    /// How long 99 of 100 took at most.
    pub p99: Duration,
    /// Requests answered in a second.
    pub rate: f64,
}

impl Load {
    /// Puts `target` under this load.
    pub async fn run(&self, target: &Target<'_>, warm_up: Duration, phase: Duration) -> Sample {
        let clock = Clock::real();
        let (body, answer) = (self.request(target.model), self.answer());
        let clients = (0..self.connections).map(|number| Client::connect(target, number, &body, &answer));
        let mut clients = join_all(clients).await;
        crowd(&mut clients, clock.now() + warm_up).await;
        let (began, cpu) = (clock.now(), target.program.cpu());
        let latencies = crowd(&mut clients, began + phase).await;
        let (took, cpu) = (clock.now().duration_since(began), target.program.cpu() - cpu);
        self.sample(latencies, took, cpu)
    }

    fn sample(&self, mut latencies: Vec<Duration>, took: Duration, cpu: Duration) -> Sample {
        latencies.sort_unstable();
        let requests = u32::try_from(latencies.len()).expect("far fewer in a few seconds");
        let events = if self.stream {
            u32::try_from(upstream::EVENTS).expect("a handful")
        } else {
            1
        };
        Sample {
            cpu: cpu / (requests * events),
            p50: percentile(&latencies, 50),
            p99: percentile(&latencies, 99),
            rate: f64::from(requests) / took.as_secs_f64(),
        }
    }

    fn request(&self, model: &str) -> String {
        let content = SENTENCE.repeat(self.sentences);
        let messages = vec![json!({ "role": "user", "content": content }); self.messages];
        let mut request = json!({ "model": model, "temperature": 0.7, "max_tokens": 256, "messages": messages });
        if self.stream {
            request["stream"] = true.into();
            request["stream_options"] = json!({ "include_usage": true });
        }
        request.to_string()
    }

    fn answer(&self) -> Vec<u8> {
        if self.stream {
            upstream::FRAMES.concat()
        } else {
            upstream::ANSWER.to_vec()
        }
    }
}

/// Lets everybody ask until `end`; how long each answer took.
async fn crowd(clients: &mut [Client<'_>], end: Instant) -> Vec<Duration> {
    let clock = Clock::real();
    let asking = join_all(clients.iter_mut().map(|client| ask_until(client, end)));
    let latencies = clock.timeout_at(end + PATIENCE, asking).await;
    latencies.expect("every answer comes").concat()
}

async fn ask_until(client: &mut Client<'_>, end: Instant) -> Vec<Duration> {
    let clock = Clock::real();
    let mut latencies = Vec::new();
    let mut now = clock.now();
    while now < end {
        client.ask().await;
        let answered = clock.now();
        latencies.push(answered.duration_since(now));
        now = answered;
    }
    latencies
}
