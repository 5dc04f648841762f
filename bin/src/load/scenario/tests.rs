use std::fs;
use std::path::{Path, PathBuf};

use super::*;
use crate::config::schema::tests::{check_described, fits, keys_read_at, sections};
use crate::config::{ConfigError, raw, report};

fn read(text: &str) -> Result<Scenario, ConfigError> {
    parse(text, &|_| None)
}

/// Every problem of a text: place and message.
fn problems(text: &str) -> Vec<String> {
    match read(text) {
        Err(ConfigError::Invalid(problems)) => problems.iter().map(ToString::to_string).collect(),
        other => panic!("{text}: {other:?}"),
    }
}

/// Files of `examples/`, in both folders.
fn examples() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let files = ["load", "load-long"].map(|name| {
        let entries = fs::read_dir(folder.join(name)).expect("is there");
        entries.map(|entry| entry.expect("is an entry").path())
    });
    files.into_iter().flatten().collect()
}

#[test]
fn every_example_can_be_played_and_fits_the_schema() {
    let examples = examples();
    assert!(examples.len() >= 6, "{examples:?}");
    for path in examples {
        let text = fs::read_to_string(&path).expect("is readable");
        let name = path.display().to_string();
        match read(&text) {
            Ok(scenario) => assert!(!scenario.about.is_empty(), "{name} does not say what it is for"),
            Err(error) => panic!("{}", report::for_people(&name, &error)),
        }
        let document = raw::parse(&text).expect("is YAML");
        assert_eq!(fits(&schema(), &document.value), Ok(()), "{name}");
    }
}

#[test]
fn the_sample_of_the_documentation_is_a_scenario() {
    let text = include_str!("../../../../docs/load.md");
    let (_, sample) = text.split_once("```yaml\n").expect("has a sample");
    let (sample, _) = sample.split_once("```").expect("ends");
    assert!(read(sample).is_ok(), "{:?}", read(sample));
}

#[test]
fn short_examples_take_less_than_a_minute() {
    for path in examples()
        .iter()
        .filter(|path| !path.display().to_string().contains("load-long"))
    {
        let scenario = read(&fs::read_to_string(path).expect("is readable")).expect("is valid");
        let length = scenario.length().expect("has a length") * scenario.rounds.unwrap_or(1);
        assert!(length < Duration::from_secs(60), "{}: {length:?}", path.display());
    }
}

#[test]
fn reader_and_schema_know_the_same_keys_everywhere() {
    let mut found = Vec::new();
    sections(&schema(), &[], &mut found);
    assert_eq!(found.len(), 12, "{found:#?}");
    for (place, keys) in found {
        assert_eq!(keys_read_at(&place, |text| read(text).err()), keys, "in {place:?}");
    }
}

#[test]
fn every_key_is_described_and_no_section_is_open() {
    check_described(&schema());
}

#[test]
fn what_the_reader_refuses_by_kind_word_or_range_does_not_fit_either() {
    for (good, bad) in [
        ("client: { format: native }", "client: { format: telegram }"),
        ("client: { stream: mixed, tool: true }", "client: { tool: [true] }"),
        (
            "upstreams: { a/m: { chunks: 9, first: 5ms } }",
            "upstreams: { a/m: { chunks: 0 } }",
        ),
        (
            "upstreams: { a/m: { faults: [{ what: cut }] } }",
            "upstreams: { a/m: { faults: [{ what: fire }] } }",
        ),
        (
            "expect: { max_lost: 0, max_p99_ratio: 1.5 }",
            "expect: { max_lost: none }",
        ),
        (
            "reloads: { every: 2s, plugins: [canon] }",
            "reloads: { every: 2s, plugins: canon }",
        ),
        (
            "client: { leaves: { one_in: 50, after: 50ms }, slow: { one_in: 9, every: 5ms }, retries: 3, renew: 20 }",
            "client: { leaves: { one_in: 0, after: 50ms } }",
        ),
        (
            "expect: { max_left: { within: 9s, threads: 2 }, max_rss_growth: { from: 1s, ratio: 1.05 } }",
            "expect: { max_left: { threads: some } }",
        ),
        ("sessions: ", "session: 5"),
        (
            "gateway: { defaults: { retry: { max_per_target: 0 } } }",
            "gateway: [1]",
        ),
    ] {
        for (text, expected) in [(good, true), (bad, false)] {
            let text = format!("duration: 1s\n{text}");
            let document = raw::parse(&text).expect("is YAML");
            assert_eq!(fits(&schema(), &document.value).is_ok(), expected, "{text}");
            assert_eq!(read(&text).is_ok(), expected, "{text}: {:?}", read(&text).err());
        }
    }
}

#[test]
fn every_problem_of_a_file_is_told_at_once() {
    let text = "sessions: 0\nthink: 5\narrivals: { steps: [{ rate: 0 }] }\nclient: { format: native, history: 2 }\n\
                upstreams: { lead: {}, a/m: {}, a/n: { api: gemini } }\nexpect: { max_lots: 1 }\n";
    assert_eq!(
        problems(text),
        [
            "sessions: must be more than zero",
            "think: has no unit",
            "think: is not for open loop",
            "arrivals.steps[0].rate: is not more than zero and at most a million",
            "arrivals.steps[0].lasts: is missing",
            "client.history: is not for the native API",
            "upstreams.lead: is not named `provider/model`",
            "upstreams.a/n: speaks another wire format than this provider's other models",
            "expect.max_lots: is not a known key",
        ]
    );
}

#[test]
fn a_scenario_says_how_long_it_takes() {
    assert_eq!(problems("sessions: 5"), ["duration: is missing, and so is `turns`"]);
    assert!(read("turns: 3").is_ok_and(|it| it.length().is_none()));
    let steps = "arrivals: { steps: [{ rate: 1, lasts: 2s }, { rate: 5.5, lasts: 3s }] }";
    assert_eq!(read(steps).expect("is valid").length(), Some(Duration::from_secs(5)));
}

#[test]
fn faults_stand_in_their_order() {
    let faults = |faults: &str| format!("duration: 1s\nupstreams: {{ a/m: {{ faults: [{faults}] }} }}");
    assert!(read(&faults("{ what: reset, lasts: 2s }, { from: 2s, what: cut }")).is_ok());
    for bad in [
        "{ what: reset, lasts: 3s }, { from: 2s, what: cut }",
        "{ what: reset }, { from: 2s, what: cut }",
    ] {
        let told = problems(&faults(bad));
        assert_eq!(
            told,
            ["upstreams.a/m.faults[1]: begins before the one above it has ended"]
        );
    }
}

#[test]
fn what_the_gateway_would_refuse_is_told_before_anything_starts() {
    let told =
        problems("duration: 1s\ngateway: { defaults: { timeouts: { turn: soon } }, agents: { a: { model: none } } }");
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told.iter().all(|problem| problem.starts_with("gateway.")), "{told:?}");
}

#[test]
fn bounds_are_told() {
    assert_eq!(
        problems("turns: 1\nsessions: 10000001"),
        ["sessions: is more than 10000000"]
    );
    assert_eq!(
        problems("turns: 1\nconnections: 60001"),
        ["connections: is more than 60000"]
    );
    assert_eq!(
        problems("turns: 1\nclient: { prompt: 17MiB }"),
        ["client.prompt: is more than 16MiB"]
    );
    assert_eq!(read("turns: 1\nsessions: 3").expect("is valid").connections, 3);
}
