//! A case about memory has a process of its own, in which nothing lies that another case has left.
//!
//! Gateway, upstreams and clients share that process, and keep nothing of a request that is over: what grows there from one load
//! to the next is the gateway's.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::Outcome;

const ARGUMENT: &str = "--alone";

/// The case that this process is for, if it is for one.
pub(crate) fn asked_for() -> Option<PathBuf> {
    let mut arguments = std::env::args_os().skip(1);
    arguments.next().filter(|argument| argument == ARGUMENT)?;
    arguments.next().map(PathBuf::from)
}

/// Plays the case in this file in a process of its own.
pub(crate) fn play(file: &Path) -> Outcome {
    let program = std::env::current_exe();
    let ended = program.and_then(|program| Command::new(program).arg(ARGUMENT).arg(file).output());
    let (status, told) = match ended {
        Ok(ended) if ended.status.success() => return Outcome::Passed,
        Ok(ended) => (ended.status.to_string(), [ended.stdout, ended.stderr].concat()),
        Err(error) => (error.to_string(), Vec::new()),
    };
    let told = String::from_utf8_lossy(&told).into_owned();
    let lines = told.lines().map(str::to_owned);
    Outcome::Failed(lines.chain([format!("its process: {status}")]).collect())
}

/// Tells who waits for this process how its case fared.
pub(crate) fn answer(outcome: &Outcome, out: &mut impl Write) -> io::Result<ExitCode> {
    let Outcome::Failed(complaints) = outcome else {
        return Ok(ExitCode::SUCCESS);
    };
    for complaint in complaints {
        writeln!(out, "{complaint}")?;
    }
    Ok(ExitCode::FAILURE)
}
