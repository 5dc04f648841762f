//! What people on call look at: dashboards, rules, alerts and their pages name only what there is, and keep the rules that make
//! them readable at night.
//!
//! Each rule is a function from what is written to its faults, and is tested on a sample that breaks it.

mod catalog;
mod dashboards;
mod expression;
mod labels;
mod lint;
mod rules;
mod runbooks;
mod selectors;
mod values;

use std::fs;
use std::path::{Path, PathBuf};

/// A place below the root of the project.
fn at(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

fn read(path: &str) -> String {
    fs::read_to_string(at(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The names of a folder's files that end so, without the ending, in order.
fn files(folder: &str, ending: &str) -> Vec<String> {
    let entries = fs::read_dir(at(folder)).unwrap_or_else(|error| panic!("{folder}: {error}"));
    let names = entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names
        .filter_map(|name| Some(name.strip_suffix(ending)?.to_owned()))
        .collect();
    names.sort();
    names
}

/// The test fails when there is a fault, and names each.
fn none_of(faults: impl IntoIterator<Item = String>) {
    let faults: Vec<String> = faults.into_iter().collect();
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}
