//! What the app does in scenarios that were recorded from the system that plugins were first written for, compared field by
//! field. Every difference is either meant and listed in `differences`, or a failure; so is one that is listed and not there.
//!
//! The recordings are in `oracle/traces` of the shared test material, the original plugin in `plugins/canon-guardian`. An
//! argument keeps only the recordings whose name holds it, and then compares no list.

mod compare;
mod differences;
mod gate;
mod play;
mod recorder;
mod seen;
mod trace;

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::process::ExitCode;

use compare::Hooks;
use tokio::runtime::Builder;
use trace::Trace;

/// Recordings that need what the app does not have yet.
const LATER: [(&str, &str); 2] = [("tool-a", "approvals"), ("tool-rm", "reloads")];

fn main() -> io::Result<ExitCode> {
    let mut out = io::stdout().lock();
    let shared = understudy_tests::shared();
    let guardian = shared.join("plugins/canon-guardian");
    let files = trace::all(&shared.join("oracle/traces"));
    if files.is_empty() || !guardian.is_dir() {
        writeln!(out, "no recordings in {}: nothing is compared", shared.display())?;
        let asked_for = std::env::var_os("UNDERSTUDY_SHARED").is_some();
        return Ok(ExitCode::from(u8::from(asked_for)));
    }
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let (mut hooks, mut differences, mut failures, mut played) = (Hooks::default(), BTreeSet::new(), Vec::new(), 0);
    for file in files {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if wanted.as_ref().is_some_and(|wanted| !name.contains(&**wanted)) || is_later(&name) {
            continue;
        }
        let compared = Trace::read(&file).and_then(|trace| {
            let seen = runtime.block_on(play::play(&trace, &guardian))?;
            Ok((trace, seen))
        });
        match compared {
            Ok((trace, seen)) => {
                played += 1;
                hooks.add(&trace.seen, &seen);
                differences.extend(compare::turns(&trace.name, &trace.seen, &seen));
            }
            Err(error) => failures.push(error),
        }
    }
    differences.extend(hooks.differences());
    let meant: BTreeSet<String> = differences::MEANT.iter().map(|line| (*line).to_owned()).collect();
    failures.extend(differences.difference(&meant).map(|line| format!("not meant: {line}")));
    if wanted.is_none() {
        failures.extend(
            meant
                .difference(&differences)
                .map(|line| format!("no longer so: {line}")),
        );
    }
    for failure in &failures {
        writeln!(out, "FAILED {failure}")?;
    }
    for (name, what) in LATER {
        writeln!(out, "left out, for want of {what}: {name}")?;
    }
    let meant = differences.intersection(&meant).count();
    writeln!(
        out,
        "recordings: {played} compared, {meant} differences that are meant, {} failures",
        failures.len()
    )?;
    Ok(ExitCode::from(u8::from(!failures.is_empty())))
}

fn is_later(name: &str) -> bool {
    LATER.iter().any(|(later, _)| name == *later)
}
