//! A scenario: what the models of a chain do, in neutral words, and what the client must get for it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};
use understudy_messages::request::Endpoint;
use understudy_messages::settings::Api;

use crate::Client;

/// What everybody says in these scenarios, word by word.
const SPEECH: &str = "At the harbour the old keeper counted eleven lanterns before dusk, wrote their colours into a narrow \
    book, and waited for the ferry that seldom came. Nobody in town remembered who had built the crooked pier, yet \
    every child could name the three stones beneath it. When wind turned east he closed both shutters, fed his one-eyed \
    cat, poured black tea, and read aloud from letters that sailors had left behind. Morning found him asleep, the last \
    lamp still burning.";

/// One scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// What goes wrong, as the table of faults names it.
    pub fault: String,
    /// What each candidate does, call by call; the last call stands for all that follow.
    pub chain: Vec<Vec<Act>>,
    /// What the agent wants for a stream that breaks.
    #[serde(default = "error")]
    pub on_broken_stream: String,
    /// What a client gets that streams.
    pub streaming: Option<Outcome>,
    /// What a client gets that does not.
    pub whole: Option<Outcome>,
    /// What clients of each format ask beside their question; without a word here everybody asks, else only those named.
    #[serde(default)]
    pub asks: BTreeMap<String, Map<String, Value>>,
    /// Which formats the candidates may speak; without a word all.
    #[serde(default)]
    pub speak: Speak,
    /// How far the clock moves while a client waits, in milliseconds for each step.
    #[serde(default = "hundred")]
    pub step_ms: u64,
}

/// Which formats the candidates may speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Speak {
    /// Any.
    #[default]
    Anything,
    /// The client's own.
    Same,
    /// All who follow the lead speak a format in which an assistant message may stand last.
    Prefill,
    /// The lead speaks one in which only the last word tells why the answer ended.
    LateFinish,
    /// Any in which the reason why an answer ended comes before its last word.
    EarlyFinish,
}

/// What a provider does with one request.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Act {
    /// Which words it says, from and to.
    pub says: Option<[usize; 2]>,
    /// What it does after these words.
    #[serde(default)]
    pub then: After,
    /// Whether it begins to call a tool after these words.
    #[serde(default)]
    pub calls: bool,
    /// Whether a frame among them is broken.
    #[serde(default)]
    pub malformed: bool,
    /// How it refuses.
    pub refuses: Option<Refusal>,
    /// The seconds after which it wants to be asked again.
    pub retry_after: Option<u64>,
    /// What it does in place of a response.
    pub instead: Option<Instead>,
    /// How long it waits before its first word.
    #[serde(default)]
    pub first_ms: u64,
}

/// What comes after the words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum After {
    /// The proper end.
    #[default]
    End,
    /// The reason why the answer ended, and no closing word.
    NoClosingWord,
    /// The body ends.
    Close,
    /// The connection is reset.
    Reset,
    /// Silence.
    Hang,
    /// An error.
    Error,
    /// The proper end, but a filter brought it about.
    Filter,
}

/// How a provider refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// Too many requests.
    RateLimit,
    /// It broke.
    ServerError,
    /// No capacity.
    Overloaded,
    /// The conversation is too long.
    ContextLength,
    /// The prompt is not liked.
    ContentFilter,
    /// No assistant message may stand last.
    Prefill,
}

/// What is done in place of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Instead {
    /// The connection is reset.
    Reset,
    /// Nothing ever comes.
    Silence,
}

/// What the client gets.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// The HTTP status.
    #[serde(default = "ok")]
    pub status: u16,
    /// How it ends.
    pub ends: Ends,
    /// Which words it reads, from and to; several ranges follow one another.
    #[serde(default)]
    pub says: Vec<[usize; 2]>,
    /// The cause that it is told.
    pub reason: Option<String>,
    /// Whether it is told when to come back.
    #[serde(default)]
    pub retry_after: bool,
    /// The place of who answers.
    pub served_by: Option<usize>,
    /// How often each candidate is asked.
    pub attempts: Vec<u64>,
}

/// How an answer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ends {
    /// As a whole answer.
    Whole,
    /// As a stream that is told to have broken.
    Error,
    /// It never began: an error is the response.
    Refused,
}

impl Scenario {
    /// All scenarios by the names of their files.
    pub fn all() -> BTreeMap<String, Self> {
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/faults/scenarios"));
        let files = fs::read_dir(folder)
            .expect("the scenarios")
            .map(|entry| entry.expect("a file").path());
        let only = std::env::var("UNDERSTUDY_SCENARIO").unwrap_or_default();
        let read = files.map(|file| {
            let name = file.file_stem().expect("a name").to_string_lossy().into_owned();
            let text = fs::read(&file).expect("a file");
            let scenario = serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
            (name, scenario)
        });
        read.filter(|(name, _)| name.contains(&only)).collect()
    }

    /// A chain of which nothing else is said.
    pub fn of(chain: Vec<Vec<Act>>) -> Self {
        Self {
            fault: String::new(),
            chain,
            on_broken_stream: error(),
            streaming: None,
            whole: None,
            asks: BTreeMap::new(),
            speak: Speak::default(),
            step_ms: hundred(),
        }
    }

    /// What a client asks.
    pub fn question(&self, client: Client, model: &str) -> Value {
        let mut question = crate::question(client, model);
        if let Some(more) = self.asks.get(label(client.endpoint)) {
            question.as_object_mut().expect("an object").extend(more.clone());
        }
        question
    }

    /// Whether it is played for this client, with providers that speak this.
    pub fn is_for(&self, client: Client, chain: &[Api]) -> bool {
        let asked = self.asks.is_empty() || self.asks.contains_key(label(client.endpoint));
        let speaks = match self.speak {
            Speak::Anything => true,
            Speak::Same => chain.iter().all(|api| *api == client.endpoint.api()),
            Speak::Prefill => chain.iter().skip(1).all(|api| *api == Api::AnthropicMessages),
            Speak::LateFinish => chain[0] == Api::OpenaiResponses,
            Speak::EarlyFinish => chain[0] != Api::OpenaiResponses,
        };
        self.outcome(client.stream).is_some() && asked && speaks
    }

    /// What a client gets.
    pub fn outcome(&self, stream: bool) -> Option<&Outcome> {
        if stream {
            self.streaming.as_ref()
        } else {
            self.whole.as_ref()
        }
    }

    /// What the candidate at this place does with its `call`-th request, counted from 0.
    pub fn act(&self, place: usize, call: usize) -> &Act {
        let acts = &self.chain[place];
        &acts[call.min(acts.len() - 1)]
    }
}

/// The words from `from` to `to`, each with the blank before it.
pub fn words([from, to]: [usize; 2]) -> Vec<String> {
    let words = SPEECH.split_whitespace().enumerate();
    let blank = |(at, word): (usize, &str)| if at == 0 { word.to_owned() } else { format!(" {word}") };
    words.map(blank).skip(from).take(to - from).collect()
}

/// These ranges of words as one text.
pub fn text(ranges: &[[usize; 2]]) -> String {
    ranges.iter().flat_map(|range| words(*range)).collect()
}

/// A client's format as scenarios and documents call it.
pub fn label(endpoint: Endpoint) -> &'static str {
    match endpoint {
        Endpoint::Responses | Endpoint::Native => "responses",
        Endpoint::Messages | Endpoint::CountTokens => "messages",
        Endpoint::Chat | Endpoint::Embeddings => "chat",
    }
}

fn error() -> String {
    "error".to_owned()
}

const fn ok() -> u16 {
    200
}

const fn hundred() -> u64 {
    100
}
