//! Every case from a bug report, played against the real app over real sockets.
//!
//! The cases are in the folder named by `UNDERSTUDY_CASES`, else in `../shared/cases`, both seen from the workspace. An
//! argument keeps only the cases whose name holds it. None is skipped.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;

mod alone;
mod case;
mod client;
mod config;
mod expect;
mod hooks;
mod log;
mod memory;
mod operator;
mod play;
mod player;
mod plugins;
mod reply;
mod seen;
mod windows;

use case::Case;
use log::Log;

const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
/// Cases that are played at one time, each with an app and upstreams of its own.
const AT_ONCE: usize = 3;

/// How one case fared.
enum Outcome {
    Passed,
    Failed(Vec<String>),
}

fn main() -> io::Result<ExitCode> {
    let mut out = io::stdout().lock();
    if let Some(file) = alone::asked_for() {
        return alone::answer(&play_file(&file), &mut out);
    }
    let named = std::env::var_os("UNDERSTUDY_CASES").map(PathBuf::from);
    let folder = named.as_deref().unwrap_or(Path::new("../shared/cases"));
    let mut files = files(&Path::new(WORKSPACE).join(folder)).unwrap_or_default();
    if files.is_empty() {
        writeln!(out, "no cases in {}", folder.display())?;
        print(&BTreeMap::new(), &mut out)?;
        return Ok(ExitCode::from(u8::from(named.is_some())));
    }
    if let Some(wanted) = std::env::args().skip(1).find(|argument| !argument.starts_with('-')) {
        files.retain(|file| name(file).contains(&wanted));
    }
    let outcomes = play_all(&files);
    print(&outcomes, &mut out)?;
    let failed = outcomes.values().any(|outcome| matches!(outcome, Outcome::Failed(_)));
    Ok(ExitCode::from(u8::from(failed)))
}

fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        files.push(entry?.path());
    }
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    Ok(files)
}

fn name(file: &Path) -> String {
    file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// Plays all cases: a few at a time, then one by one those that search the log, for it is the whole process's.
fn play_all(files: &[PathBuf]) -> BTreeMap<String, Outcome> {
    let (log, mut outcomes) = (Log::default(), BTreeMap::new());
    let (mut together, mut one_by_one) = (Vec::new(), Vec::new());
    for file in files {
        match read(file) {
            Ok(case) if case.expect.searches_the_log() => one_by_one.push((case, &**file)),
            Ok(case) => together.push((case, &**file)),
            Err(error) => drop(outcomes.insert(name(file), Outcome::Failed(vec![error]))),
        }
    }
    outcomes.extend(play_at_once(AT_ONCE, together, &log));
    outcomes.extend(play_at_once(1, one_by_one, &log));
    outcomes
}

fn read(file: &Path) -> Result<Case, String> {
    let case = Case::read(file).map_err(|error| format!("it cannot be read: {error}"))?;
    match case.id == name(file) {
        true => Ok(case),
        false => Err(format!("its id is {}", case.id)),
    }
}

/// Plays the one case that this process is for.
fn play_file(file: &Path) -> Outcome {
    match read(file) {
        Ok(case) => play(&case, &Log::default()),
        Err(error) => Outcome::Failed(vec![error]),
    }
}

fn play_at_once(threads: usize, cases: Vec<(Case, &Path)>, log: &Log) -> BTreeMap<String, Outcome> {
    let (cases, outcomes) = (Mutex::new(cases.into_iter()), Mutex::new(BTreeMap::new()));
    let next = || cases.lock().expect("no holder panics").next();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((case, file)) = next() {
                    let outcome = match case.expect.rss {
                        Some(_) => alone::play(file),
                        None => play(&case, log),
                    };
                    outcomes.lock().expect("no holder panics").insert(case.id, outcome);
                }
            });
        }
    });
    outcomes.into_inner().expect("no holder panics")
}

fn play(case: &Case, log: &Log) -> Outcome {
    if case.expect.searches_the_log() {
        log.begin();
    }
    match catch_unwind(AssertUnwindSafe(|| play::play(case, log))) {
        Ok(Ok(seen)) => {
            let complaints = case.expect.check(&seen);
            match complaints.is_empty() {
                true => Outcome::Passed,
                false => Outcome::Failed(complaints.iter().map(ToString::to_string).collect()),
            }
        }
        Ok(Err(error)) => Outcome::Failed(vec![error]),
        Err(_panic) => Outcome::Failed(vec!["it panicked, see above".to_owned()]),
    }
}

fn print(outcomes: &BTreeMap<String, Outcome>, out: &mut impl Write) -> io::Result<()> {
    let (mut passed, mut failed) = (0, 0);
    for (id, outcome) in outcomes {
        match outcome {
            Outcome::Passed => passed += 1,
            Outcome::Failed(complaints) => {
                failed += 1;
                for complaint in complaints {
                    writeln!(out, "FAILED {id}: {complaint}")?;
                }
            }
        }
    }
    writeln!(out, "cases: {passed} passed, {failed} failed of {}", outcomes.len())
}
