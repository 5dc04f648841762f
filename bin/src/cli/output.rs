//! What a command says: results to standard output, complaints to standard error. A closed pipe is not an error.

use std::io::{IsTerminal, Write};

/// Prints a result.
pub(super) fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _closed_pipe = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// Prints a result for programs.
pub(super) fn say_json(value: &serde_json::Value) {
    say(&format!("{value:#}"));
}

/// Prints why a command could not do its work.
pub(super) fn complain(error: &anyhow::Error, json: bool) {
    let mut err = std::io::stderr().lock();
    let _closed_pipe = match json {
        true => writeln!(err, "{}", serde_json::json!({ "error": format!("{error:#}") })),
        false => writeln!(err, "error: {error:#}"),
    };
}

/// A line on standard error that is written over and over while something goes on. Where that is no terminal, each text is a
/// line of its own, and a text that has not changed is not said again.
#[derive(Default)]
pub(super) struct Line(String);

impl Line {
    /// Shows a text in the place of the last one.
    pub(super) fn show(&mut self, text: &str) {
        if self.0 == text {
            return;
        }
        let mut err = std::io::stderr().lock();
        let _closed_pipe = match err.is_terminal() {
            true => write!(err, "\r\x1b[2K{text}").and_then(|()| err.flush()),
            false => writeln!(err, "{text}"),
        };
        text.clone_into(&mut self.0);
    }

    /// What follows begins on a line of its own.
    pub(super) fn end(self) {
        let mut err = std::io::stderr().lock();
        if !self.0.is_empty() && err.is_terminal() {
            let _closed_pipe = write!(err, "\r\x1b[2K").and_then(|()| err.flush());
        }
    }
}
