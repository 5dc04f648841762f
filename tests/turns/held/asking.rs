//! One attempt at a real upstream, with nobody who conducts it.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use understudy::config::ServerConfig;
use understudy_messages::cancel::TurnCancel;
use understudy_messages::client::{ClientChannel, ClientFrame};
use understudy_messages::clock::Clock;
use understudy_messages::hooks::Scene;
use understudy_messages::ids::{GenerationId, ModelRef, SessionKey, TurnId};
use understudy_messages::lease::{Holding, TurnLease};
use understudy_messages::plugin::NoHooks;
use understudy_messages::provider::{Answered, Attempt, AttemptError};
use understudy_messages::request::Endpoint;
use understudy_messages::session::{Continuation, Prompt};
use understudy_messages::settings::{Api, Settings};
use understudy_messages::tools::{HeldCalls, NoTools, ToolRound};
use understudy_messages::turn::{Candidate, SideEffects, TurnContext, TurnRequest};
use understudy_providers::sim::{SimOptions, Simulator};
use understudy_providers::wire::{self, Style, Writer};
use understudy_providers::{Upstream, http_client};

pub const CLIENTS: [Endpoint; 3] = [Endpoint::Chat, Endpoint::Responses, Endpoint::Messages];

/// What a client asks, with one tool.
pub fn question(client: Endpoint, stream: bool) -> Value {
    let schema = json!({ "type": "object" });
    match client {
        Endpoint::Responses => json!({ "model": "main", "input": "hi", "stream": stream,
            "tools": [{ "type": "function", "name": "look", "parameters": schema, "strict": false }] }),
        Endpoint::Messages => json!({ "model": "main", "max_tokens": 99, "stream": stream,
            "messages": [{ "role": "user", "content": "hi" }], "tools": [{ "name": "look", "input_schema": schema }] }),
        _ => json!({ "model": "main", "stream": stream, "messages": [{ "role": "user", "content": "hi" }],
            "tools": [{ "type": "function", "function": { "name": "look", "parameters": schema } }] }),
    }
}

/// A provider that plays calls.
pub struct Asking {
    pub simulator: Simulator,
    clock: Clock,
    at: String,
    settings: Settings,
    upstream: Upstream,
}

/// A turn whose attempts are made one by one.
pub struct Turn {
    pub context: Arc<TurnContext>,
    frames: mpsc::Receiver<ClientFrame>,
}

/// How an attempt is made.
#[derive(Default)]
pub struct How {
    pub ungated: bool,
    pub continuable: bool,
    pub rounds: Vec<ToolRound>,
    pub continuation: Option<Continuation>,
    /// Whether time passes quickly once the client has been sent something.
    pub hurried: bool,
}

/// What came of one.
#[derive(Debug)]
pub struct Outcome {
    /// What the client was sent.
    pub frames: Vec<ClientFrame>,
    pub result: Result<Answered, AttemptError>,
}

struct Held;

impl Holding for Held {
    fn generation(&self) -> GenerationId {
        GenerationId(1)
    }
}

impl Asking {
    /// A provider that speaks `api` and plays these calls; further settings of it, and of the agent.
    pub async fn set(api: Api, calls: &[Value], provider: &str, agent: &str) -> Self {
        understudy::install_tls();
        let plan = serde_json::from_value(json!({ "a/m": { "calls": calls } })).expect("a plan");
        let clock = Clock::movable();
        let options = SimOptions {
            clock: clock.clone(),
            ..SimOptions::default()
        };
        let simulator = Simulator::start(plan, options).await.expect("a simulator");
        let url = simulator.base_url_of(&ModelRef::new("a", "m"));
        let yaml = format!(
            "providers:\n  a: {{ api: {}, base_url: \"{url}\", api_key: k, models: [m], {provider} }}\n\
             defaults: {{ timeouts: {{ first_content: 1h, first_content_last: 1h, idle: 1h, turn: 2h }} }}\nagents:\n  main: {{ model: {{ primary: a/m, fallbacks: [] }}, {agent} }}\n",
            api.as_label()
        );
        let settings = ServerConfig::parse(&yaml, &|_| None).expect("a good config").settings;
        let client = http_client(settings.timeouts.connect).expect("a client");
        let provider = settings.providers.values().next().expect("one").clone();
        Self {
            upstream: Upstream::new(provider, client, clock.clone()),
            clock,
            at: url.split('/').nth(2).expect("a host").to_owned(),
            simulator,
            settings,
        }
    }

    /// A turn of a client that asks this.
    pub fn turn(&self, client: Endpoint, body: &Value) -> Turn {
        let body = Bytes::from(body.to_string());
        let request = Arc::new(TurnRequest {
            id: TurnId::new(),
            request_id: "r".into(),
            session: SessionKey::Ephemeral,
            agent: None,
            endpoint: client,
            facts: wire::scan(client, &body).expect("a good body"),
            body,
            headers: Vec::new(),
        });
        let (client, frames) = ClientChannel::open();
        let clock = &self.clock;
        let agent = self.settings.agents.first().expect("one").clone();
        let context = TurnContext {
            scene: Scene::new(request.clone(), agent.clone(), |_| Default::default(), None),
            request,
            client,
            cancel: TurnCancel::new(),
            received: clock.now(),
            deadline: clock.now() + self.settings.timeouts.turn,
            effects: SideEffects::default(),
            retry: self.settings.retry,
            lease: TurnLease::new(Arc::new(Held)),
            agent,
            timeouts: self.settings.timeouts,
            hooks: Arc::new(NoHooks),
            tools: Arc::new(NoTools),
            engine: None,
            providers: Arc::new([]),
        };
        Turn {
            context: Arc::new(context),
            frames,
        }
    }

    /// Makes one attempt in a turn.
    pub async fn attempt(&self, turn: &mut Turn, how: How) -> Outcome {
        let context = turn.context.clone();
        context.client.begin_attempt();
        let provider = self.settings.providers.values().next().expect("one");
        let attempt = Attempt {
            candidate: Arc::new(Candidate {
                model: ModelRef::new("a", "m"),
                provider: 0,
                api: provider.api,
                settings: Default::default(),
            }),
            prompt: Prompt {
                body: context.request.body.clone(),
                edited: None,
                rounds: Arc::new(how.rounds),
                continuation: how.continuation.map(Arc::new),
            },
            turn: context,
            number: 1,
            successor: false,
            continuable: how.continuable,
            gated: !how.ungated,
            credential: 0,
            traffic: None,
            cancel: turn.context.cancel.child(),
        };
        let mut frames = Vec::new();
        let mut asked = pin!(self.upstream.attempt(&attempt));
        let (result, _rest) = loop {
            tokio::select! {
                biased;
                Some(frame) = turn.frames.recv() => frames.push(frame),
                asked = &mut asked => break asked,
                // a connection is the pause between two steps
                _ = TcpStream::connect(&self.at), if how.hurried && !frames.is_empty() => {
                    self.clock.advance(Duration::from_secs(1));
                }
            }
        };
        while let Ok(frame) = turn.frames.try_recv() {
            frames.push(frame);
        }
        Outcome { frames, result }
    }

    /// Makes one attempt in a turn of its own.
    pub async fn ask(&self, client: Endpoint, stream: bool, how: How) -> Outcome {
        let mut turn = self.turn(client, &question(client, stream));
        self.attempt(&mut turn, how).await
    }

    /// The newest body that the provider got.
    pub fn was_asked(&self) -> Value {
        let body = self.simulator.journal().read(|it| {
            let record = it.records().next_back().expect("asked");
            record.body.clone()
        });
        serde_json::from_slice(&body).expect("JSON")
    }
}

impl Turn {
    /// What writes the answer for the client.
    pub fn writer(&self) -> Writer {
        Writer::new(Style {
            request: self.context.request.clone(),
            served_by: ModelRef::new("a", "m"),
            created: 7,
        })
    }
}

impl Outcome {
    /// The bytes that went out.
    pub fn bytes(&self) -> Vec<u8> {
        let bytes = self.frames.iter().filter_map(|frame| match frame {
            ClientFrame::Data(bytes) => Some(&bytes[..]),
            _ => None,
        });
        bytes.collect::<Vec<_>>().concat()
    }

    pub fn answered(&self) -> &Answered {
        self.result.as_ref().expect("an answer")
    }

    pub fn held(&self) -> &HeldCalls {
        self.answered().held.as_ref().expect("calls are held")
    }

    /// All that was sent or would be, so that it can be searched.
    pub fn shown(&self) -> String {
        self.frames
            .iter()
            .map(|frame| match frame {
                ClientFrame::Data(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                other => format!("{other:?}"),
            })
            .collect()
    }
}

/// Writes frames as a client gets them.
pub fn write(writer: &mut Writer, frames: Vec<ClientFrame>) -> Vec<u8> {
    let written = frames.into_iter().map(|frame| match frame {
        ClientFrame::Head(_) => Bytes::new(),
        ClientFrame::Data(bytes) => writer.pass(bytes),
        ClientFrame::Pieces(pieces) => writer.pieces(pieces),
        ClientFrame::Seam(seam) => writer.seam(&seam),
        ClientFrame::Note(note) => writer.note(&note),
        ClientFrame::KeepAlive => writer.keep_alive(),
        ClientFrame::End { last } => writer.end(last),
        ClientFrame::Failed(failure) => writer.fail(&failure),
    });
    written.collect::<Vec<_>>().concat()
}
