//! Every recorded exchange with a provider, read again, cut in every way a network may cut it.
//!
//! The recordings are in the folder named by `UNDERSTUDY_RECORDINGS`, else in `../shared/recordings`, both seen from
//! the workspace. `UNDERSTUDY_SEED` repeats the random cuts of an earlier run.

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

const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

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
        "what the provider's own tools gave the model to read is read too",
    ),
];

/// All recordings of a run.
#[derive(Default)]
struct Tally {
    passed: usize,
    failed: Vec<(String, String)>,
}

impl Tally {
    fn add(&mut self, id: String, checked: Result<(), String>) {
        match checked {
            Ok(()) => self.passed += 1,
            Err(difference) => self.failed.push((id, difference)),
        }
    }

    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        for (id, difference) in &self.failed {
            writeln!(out, "FAILED {id}: {difference}")?;
        }
        let (passed, failed) = (self.passed, self.failed.len());
        writeln!(
            out,
            "recordings: {passed} passed, {failed} failed of {}",
            passed + failed
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
        tally.add(recording::name(&file), check(&file, seed));
    }
    if !tally.failed.is_empty() {
        writeln!(out, "repeat with UNDERSTUDY_SEED={seed}")?;
    }
    tally.print(&mut out)?;
    Ok(ExitCode::from(u8::from(!tally.failed.is_empty())))
}

fn check(file: &Path, seed: u64) -> Result<(), String> {
    let mut recording = Recording::read(file)?;
    let name = recording::name(file);
    for (_, key, value, _why) in DIFFERENT.iter().filter(|(id, ..)| *id == name) {
        let value = serde_json::from_str(value).map_err(|error| error.to_string())?;
        recording.normalized.insert((*key).into(), value);
    }
    if name.starts_with("errors/") {
        return errors::check(&recording, seed);
    }
    answers::reads_the_request(&recording)?;
    answers::check(&recording, seed)?;
    requests::check(&recording)?;
    pairs::check(&recording, seed)
}
