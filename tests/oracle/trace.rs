//! Scenarios as they were recorded from the system that plugins were first written for.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::seen::{Call, Outcome, Seen, Target, Told, Turn};

/// Traces whose observer left before the last turn had ended.
const CUT_OFF: [&str; 2] = ["hang-q1", "s429-f1"];

/// Traces that are not about how long a model rests: between their turns the rests are over, so that the same models are asked.
const RESTED: [&str; 1] = ["canon-c1"];
/// As long as a model rests at the most after it was not found.
const REST: Duration = Duration::from_secs(3600);

/// One recording.
pub(crate) struct Trace {
    pub(crate) name: String,
    /// What its clients asked, turn by turn.
    pub(crate) asked: Vec<Asked>,
    /// What the upstreams did, call by call.
    pub(crate) played: Vec<(Target, String)>,
    /// What was seen.
    pub(crate) seen: Seen,
}

/// A turn as its client asked for it.
pub(crate) struct Asked {
    pub(crate) prompt: String,
    pub(crate) stream: bool,
    /// The model that the session was pinned to meanwhile.
    pub(crate) pinned: Option<Target>,
    /// What a guard does with calls of tools, where there is one.
    pub(crate) guard: Option<Guard>,
    /// How long after the end of the turn before.
    pub(crate) after: Duration,
}

/// What a guard does with each call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guard {
    Passes,
    Blocks,
    Rewrites,
    Throws,
    /// Longer than it may take.
    Thinks,
}

impl Guard {
    fn of(name: &str) -> Option<Self> {
        match name.strip_prefix("tool-")? {
            "b" => Some(Self::Blocks),
            "r" => Some(Self::Rewrites),
            "t" => Some(Self::Throws),
            "s" => Some(Self::Thinks),
            _other => Some(Self::Passes),
        }
    }
}

#[derive(Deserialize)]
struct File {
    upstream: Vec<Request>,
    hooks: Vec<Fired>,
    #[serde(default)]
    client_http: Vec<Exchange>,
    #[serde(default)]
    client_ws: Vec<Value>,
}

#[derive(Deserialize)]
struct Request {
    ms: u64,
    upstream: String,
    mode: String,
    messages: Vec<Value>,
}

#[derive(Deserialize)]
struct Fired {
    ms: u64,
    hook: String,
    event: Map<String, Value>,
    ctx: Map<String, Value>,
}

#[derive(Deserialize)]
struct Exchange {
    stream: bool,
    status: u16,
    #[serde(default)]
    body: String,
    #[serde(default)]
    chunks: Vec<Chunk>,
}

#[derive(Deserialize)]
struct Chunk {
    data: String,
}

/// Every recording in the folder; none where it is absent.
pub(crate) fn all(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    files
}

impl Trace {
    pub(crate) fn read(file: &Path) -> Result<Self, String> {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let text = fs::read(file).map_err(|error| format!("{name}: {error}"))?;
        let file: File = serde_json::from_slice(&text).map_err(|error| format!("{name}: {error}"))?;
        let runs = file.runs();
        let mut trace = Self {
            played: file
                .upstream
                .iter()
                .map(|request| (request.target(), request.mode.clone()))
                .collect(),
            asked: Vec::new(),
            seen: Seen::default(),
            name,
        };
        let mut ended = None;
        for (at, run) in runs.iter().enumerate() {
            let hooks: Vec<&Fired> = file.hooks.iter().filter(|fired| fired.run() == Some(run)).collect();
            let (first, last) = (hooks[0].ms, hooks[hooks.len() - 1].ms);
            let calls: Vec<&Request> = file
                .upstream
                .iter()
                .filter(|it| (first..=last).contains(&it.ms))
                .collect();
            let http = file.client_http.get(at);
            trace.asked.push(Asked {
                prompt: prompt(&hooks),
                stream: http.is_none_or(|http| http.stream),
                pinned: file.pinned(first),
                guard: Guard::of(&trace.name),
                after: match RESTED.contains(&&*trace.name) {
                    true => REST,
                    false => Duration::from_millis(ended.map_or(0, |ended| first.saturating_sub(ended))),
                },
            });
            ended = Some(last);
            let cut_off = CUT_OFF.contains(&&*trace.name) && at + 1 == runs.len();
            trace.seen.turns.push(Turn {
                outcome: (!cut_off).then(|| http.map_or_else(|| by_calls(&calls), Exchange::outcome)),
                calls: calls.iter().map(|call| call.seen()).collect(),
                returned: calls.last().map(|call| call.returned()).unwrap_or_default(),
                hooks: hooks.into_iter().map(Fired::told).collect(),
            });
        }
        Ok(trace)
    }
}

impl File {
    /// The turns, in order.
    fn runs(&self) -> Vec<String> {
        let mut runs: Vec<String> = Vec::new();
        for run in self.hooks.iter().filter_map(Fired::run) {
            if !runs.iter().any(|known| known == run) {
                runs.push(run.to_owned());
            }
        }
        runs
    }

    /// The model that the session is pinned to at a time.
    fn pinned(&self, ms: u64) -> Option<Target> {
        let patches = self.client_ws.iter().filter(|row| row["rpc"] == "sessions.patch");
        let mut before = patches.filter(|row| row["ms"].as_u64().is_some_and(|at| at <= ms));
        let model = before.next_back()?["params"]["model"].as_str()?;
        Some(if model.ends_with("model-b") {
            Target::B
        } else {
            Target::A
        })
    }
}

impl Fired {
    fn run(&self) -> Option<&str> {
        let of = |members: &'_ Map<String, Value>| members.get("runId").is_some();
        let members = if of(&self.event) { &self.event } else { &self.ctx };
        members.get("runId")?.as_str()
    }

    fn told(&self) -> Told {
        Told {
            hook: self.hook.clone(),
            event: self.event.clone(),
            context: self.ctx.clone(),
        }
    }
}

impl Request {
    fn target(&self) -> Target {
        match self.upstream.ends_with('a') {
            true => Target::A,
            false => Target::B,
        }
    }

    fn returned(&self) -> Vec<String> {
        let results = self.messages.iter().filter(|message| message["role"] == "tool");
        results
            .filter_map(|message| message["text"].as_str().map(str::to_owned))
            .collect()
    }

    fn seen(&self) -> Call {
        let carries = |message: &Value| message["markers"].to_string().contains("canon-guardian: ");
        Call {
            target: self.target(),
            canon: self.messages.iter().any(carries),
        }
    }
}

impl Exchange {
    fn outcome(&self) -> Outcome {
        let chunks: String = self.chunks.iter().map(|chunk| &*chunk.data).collect();
        let text = chunks + &self.body;
        Outcome::of(&text, self.status >= 400 || text.contains("\"error\":"))
    }
}

fn prompt(hooks: &[&Fired]) -> String {
    let bodies = hooks.iter().find_map(|fired| fired.event.get("cleanedBody")?.as_str());
    bodies.unwrap_or_default().to_owned()
}

/// Where no client was recorded: whoever was asked last and played an answer gave it.
fn by_calls(calls: &[&Request]) -> Outcome {
    match calls.last() {
        Some(call) if call.mode == "ok" => Outcome::Answer(call.target()),
        Some(_) | None => Outcome::Error,
    }
}
