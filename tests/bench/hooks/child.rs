//! A quiet plugin that is a child process.

use std::io::{BufRead, Write, stdin, stdout};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::plugins::HOOKS;

/// The argument that makes this program the child.
pub const ROLE: &str = "child";

/// What it reads of a line: not the conversation, since a quiet plugin would not look at it.
#[derive(Deserialize)]
struct Line {
    r#type: String,
    #[serde(default)]
    call: u64,
}

/// Answers until its standard input ends.
pub fn answer() {
    for line in stdin().lock().lines() {
        let Line { r#type, call } = serde_json::from_str(&line.expect("text")).expect("a line of the protocol");
        match &*r#type {
            "register" => say(&json!({ "type": "registered", "hooks": HOOKS.map(|hook| json!({ "hook": hook })) })),
            "hook" => say(&json!({ "type": "result", "call": call })),
            "stop" => return,
            _ => {}
        }
    }
}

fn say(line: &Value) {
    let mut out = stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .expect("the gateway reads");
}
