//! What a command says: results to standard output, complaints to standard error. A closed pipe is not an error.

use std::io::Write;

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
