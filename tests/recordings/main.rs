//! Every recorded exchange with a provider, read again, cut in every way a network may cut it.
//!
//! The recordings are in the folder named by `UNDERSTUDY_RECORDINGS`, else in `../shared/recordings`, both seen from
//! the workspace. `UNDERSTUDY_SEED` repeats the random cuts of an earlier run.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

mod answers;
mod cuts;
mod errors;
mod normalized;
mod pairs;
mod recording;
mod replay;
mod requests;

use recording::Recording;
use understudy_messages::settings::Api;
use understudy_providers::sse::SseDecoder;
use understudy_providers::wire::Decoder;

const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// What the harness cannot check yet. A recording is skipped for one of these or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Missing {
    Anthropic,
    ChatPieces,
    Gemini,
    Responses,
}

impl Missing {
    const fn as_label(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::ChatPieces => "pieces of chat",
            Self::Gemini => "gemini",
            Self::Responses => "responses",
        }
    }
}

/// Where the recordings and the gateway see something differently, and why the gateway does.
const DIFFERENT: [(&str, &str, &str, &str); 2] = [
    (
        "anthropic/stream-empty-answer-three-pings",
        "end",
        r#""empty""#,
        "an answer with nothing in it is a failure, so that somebody else may answer",
    ),
    (
        "gemini/stream-two-finish-reasons",
        "usage",
        r#"{"input": 460, "output": 31}"#,
        "what the provider's own tools put into the prompt is counted too",
    ),
];

/// How one recording fared.
enum Outcome {
    Passed,
    Skipped(Missing),
    Failed(String),
}

/// All recordings of a run.
#[derive(Default)]
struct Tally {
    passed: usize,
    skipped: BTreeMap<Missing, usize>,
    failed: Vec<(String, String)>,
}

impl Tally {
    fn add(&mut self, id: String, outcome: Outcome) {
        match outcome {
            Outcome::Passed => self.passed += 1,
            Outcome::Skipped(missing) => *self.skipped.entry(missing).or_default() += 1,
            Outcome::Failed(difference) => self.failed.push((id, difference)),
        }
    }

    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        for (missing, count) in &self.skipped {
            writeln!(out, "skipped {count}: {}", missing.as_label())?;
        }
        for (id, difference) in &self.failed {
            writeln!(out, "FAILED {id}: {difference}")?;
        }
        let (passed, failed) = (self.passed, self.failed.len());
        let skipped: usize = self.skipped.values().sum();
        let all = passed + skipped + failed;
        writeln!(
            out,
            "recordings: {passed} passed, {skipped} skipped, {failed} failed of {all}"
        )
    }
}

fn main() -> io::Result<ExitCode> {
    let mut out = io::stdout().lock();
    let named = std::env::var_os("UNDERSTUDY_RECORDINGS").map(PathBuf::from);
    let folder = named.as_deref().unwrap_or(Path::new("../shared/recordings"));
    let files = recording::files(&Path::new(WORKSPACE).join(folder)).unwrap_or_default();
    let mut tally = Tally::default();
    if files.is_empty() {
        writeln!(out, "no recordings in {}", folder.display())?;
        tally.print(&mut out)?;
        return Ok(ExitCode::from(u8::from(named.is_some())));
    }
    let seed = std::env::var("UNDERSTUDY_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    for file in files {
        let outcome = check(&file, seed);
        tally.add(recording::name(&file), outcome);
    }
    if !tally.failed.is_empty() {
        writeln!(out, "repeat with UNDERSTUDY_SEED={seed}")?;
    }
    tally.print(&mut out)?;
    Ok(ExitCode::from(u8::from(!tally.failed.is_empty())))
}

fn check(file: &Path, seed: u64) -> Outcome {
    let recording = match Recording::read(file) {
        Ok(mut recording) => {
            let name = recording::name(file);
            for (_, key, value, _why) in DIFFERENT.iter().filter(|(id, ..)| *id == name) {
                let value = serde_json::from_str(value).expect("JSON");
                recording.normalized.insert((*key).into(), value);
            }
            recording
        }
        Err(error) => return Outcome::Failed(error),
    };
    let folder = file.parent().and_then(Path::file_name);
    let is_error = folder.is_some_and(|folder| folder == "errors");
    let is_refused = recording.response.status >= 300;
    if let Some(missing) = missing(recording.api).filter(|_| !is_refused) {
        return Outcome::Skipped(missing);
    }
    let checked = match is_error {
        true => errors::check(&recording, seed),
        false => answers(&recording, seed),
    };
    outcome(checked)
}

fn answers(recording: &Recording, seed: u64) -> Result<(), String> {
    answers::check(recording, seed)?;
    if pairs::style(answers::endpoint(recording.api), true).is_ok() {
        answers::reads_the_request(recording)?;
        requests::check(recording)?;
    }
    pairs::check(recording, seed)
}

fn outcome(checked: Result<(), String>) -> Outcome {
    checked.map_or_else(Outcome::Failed, |()| Outcome::Passed)
}

/// A format whose frames say nothing yet.
fn missing(api: Api) -> Option<Missing> {
    let (missing, frame) = match api {
        Api::OpenaiChat => (
            Missing::ChatPieces,
            r#"{"choices":[{"index":0,"delta":{"content":"a"}}]}"#,
        ),
        Api::OpenaiResponses => (
            Missing::Responses,
            r#"{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"a"}"#,
        ),
        Api::AnthropicMessages => (
            Missing::Anthropic,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}"#,
        ),
        Api::Gemini => (
            Missing::Gemini,
            r#"{"candidates":[{"index":0,"content":{"parts":[{"text":"a"}]}}]}"#,
        ),
    };
    let mut frames = SseDecoder::default();
    frames.push(format!("data: {frame}\n\n").into());
    let mut pieces = Vec::new();
    let frame = frames.next_frame().ok().flatten()?;
    Decoder::new(api).read(&frame, &mut pieces);
    pieces.is_empty().then_some(missing)
}
