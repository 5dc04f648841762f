//! The table of faults in the documentation, made of the scenarios that are played.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::scenario::{Ends, Outcome, Scenario};

const BEGIN: &str = "<!-- made of tests/faults/scenarios -->\n";
const END: &str = "<!-- end -->\n";
const PLACES: [&str; 4] = ["lead", "second", "third", "fourth"];

#[test]
fn the_documentation_tells_what_is_played() {
    if std::env::var_os("UNDERSTUDY_SCENARIO").is_some() {
        return;
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/faults.md");
    let text = fs::read_to_string(&file).expect("docs/faults.md");
    let (before, rest) = text.split_once(BEGIN).expect("the table's beginning");
    let (written, after) = rest.split_once(END).expect("the table's end");
    let table = tables();
    if written == table {
        return;
    }
    if std::env::var_os("UNDERSTUDY_WRITE_DOCS").is_some() {
        fs::write(&file, [before, BEGIN, &table, END, after].concat()).expect("docs/faults.md");
        return;
    }
    panic!("docs/faults.md is not what is played: run this test with UNDERSTUDY_WRITE_DOCS=1");
}

fn tables() -> String {
    let all = Scenario::all();
    let mut text = String::new();
    for policy in ["error", "continue", "hold"] {
        writeln!(text, "\n### `on_broken_stream: {policy}`\n").expect("memory");
        text.push_str("| What goes wrong | A client that streams gets | One that does not gets |\n|---|---|---|\n");
        for scenario in all.values().filter(|scenario| scenario.on_broken_stream == policy) {
            let cell = |stream| {
                scenario
                    .outcome(stream)
                    .map_or("–".to_owned(), |outcome| told(scenario, outcome))
            };
            let fault = scenario.fault.split(", `on_broken_stream").next().unwrap_or_default();
            writeln!(text, "| {fault} | {} | {} |", cell(true), cell(false)).expect("memory");
        }
    }
    text.push('\n');
    text
}

/// What a client gets, in a few words.
fn told(scenario: &Scenario, outcome: &Outcome) -> String {
    let reason = outcome.reason.as_deref().unwrap_or_default();
    let mut told = match outcome.ends {
        Ends::Whole => format!("{}, a whole answer {}", outcome.status, speakers(scenario, outcome)),
        Ends::Error => format!("{}, what had come, then an error ending: `{reason}`", outcome.status),
        Ends::Refused => format!("{}: `{reason}`", outcome.status),
    };
    if outcome.retry_after {
        told.push_str(", with `retry-after`");
    }
    let attempts: Vec<String> = outcome.attempts.iter().map(u64::to_string).collect();
    told + &format!(" ({})", attempts.join(" + "))
}

/// Who gave the answer: who opened it, and who went on last.
fn speakers(scenario: &Scenario, outcome: &Outcome) -> String {
    let opened = outcome.served_by.unwrap_or_default();
    let last = outcome
        .attempts
        .iter()
        .rposition(|times| *times > 0)
        .unwrap_or_default();
    let opener = PLACES[opened];
    match (last > opened, &*scenario.on_broken_stream) {
        (true, "continue") => format!("begun by the {opener}, ended by the {}", PLACES[last]),
        _ => format!("of the {opener}"),
    }
}
