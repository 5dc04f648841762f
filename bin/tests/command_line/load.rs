//! `understudy load`, run as a program.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::{Value, json};

/// A folder of its own, gone with the test.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("understudy-load-test-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        Self(folder)
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let file = self.0.join(name);
        fs::write(&file, text).expect("written");
        file.display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _gone = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn load(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_understudy"));
    command.args(["load", "--json"]).args(arguments).output().expect("runs")
}

pub(crate) fn report(output: &Output) -> Value {
    let told = serde_json::from_slice(&output.stdout);
    told.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)))
}

const TINY: &str = "
about: all formats have this in common
sessions: 6
turns: 4
client: { format: FORMAT, stream: mixed, prompt: 200B }
upstreams:
  aurora/lead: { api: anthropic-messages, faults: [{ what: overloaded }] }
  borealis/second: { answer: 300B }
expect: { max_lost: 0, max_errors: 0, min_whole: 24, min_failed_over: 1, max_p99: 30s }
";

#[test]
fn a_scenario_is_played_against_a_gateway_of_its_own_in_every_format() {
    let folder = Folder::new("formats");
    for format in ["chat", "messages", "responses", "native"] {
        let scenario = folder.file("tiny.yaml", &TINY.replace("FORMAT", format));
        let page = folder.0.join("report.html").display().to_string();
        let output = load(&["--scenario", &scenario, "--html", &page]);
        let told = report(&output);
        assert_eq!(
            (output.status.code(), &told["holds"]),
            (Some(0), &json!(true)),
            "{format}: {told:#}"
        );
        let gateway = &told["gateways"][0];
        assert_eq!(
            (&gateway["turns"], &gateway["whole"]),
            (&json!(24), &json!(24)),
            "{format}"
        );
        assert!(gateway["rss_bytes"].as_u64() > Some(1 << 20), "{format}: {gateway}");
        assert!(fs::read_to_string(page).expect("a page").contains("</html>"));
    }
}

#[test]
fn an_expectation_that_does_not_hold_ends_with_one() {
    let folder = Folder::new("broken");
    let text =
        "sessions: 2\nturns: 1\nupstreams: { a/m: { faults: [{ what: unauthorized }] } }\nexpect: { max_errors: 1 }";
    let output = load(&["--scenario", &folder.file("s.yaml", text)]);
    let told = report(&output);
    assert_eq!(
        (output.status.code(), &told["holds"]),
        (Some(1), &json!(false)),
        "{told:#}"
    );
    assert_eq!(
        told["expectations"],
        json!([{ "name": "max_errors", "limit": 1.0, "value": 2.0, "holds": false }])
    );
}

#[test]
fn what_cannot_be_played_ends_with_two_and_every_problem() {
    let folder = Folder::new("problems");
    let output = load(&["--scenario", &folder.file("s.yaml", "session: 2\nthink: soon")]);
    assert_eq!(output.status.code(), Some(2));
    let problems = report(&output)["problems"].as_array().map(Vec::len);
    assert_eq!(problems, Some(3));
    for arguments in [
        &["--scenario", "nowhere.yaml"][..],
        &["--target", "http://127.0.0.1:1"],
        &["--target", "https://127.0.0.1:1", "--sim", "127.0.0.1:0"],
        &["--compare", "http://127.0.0.1:1"],
    ] {
        assert_eq!(load(arguments).status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn two_gateways_take_turns_and_their_ratios_are_told() {
    let folder = Folder::new("compare");
    let simulator = free_port();
    // the simulator itself answers as a gateway would
    let text = "sessions: 4\nturns: 5\nrounds: 2\nclient: { model: m }\nupstreams: { a/m: {} }\n\
                gateway: { models: { m: { chain: [a/m] } } }\nexpect: { max_lost: 0, max_p99_ratio: 100000 }";
    let scenario = folder.file("s.yaml", text);
    let other = format!("http://{simulator}/a/v1");
    let output = load(&[
        "--scenario",
        &scenario,
        "--sim",
        &simulator.to_string(),
        "--compare",
        &other,
    ]);
    let told = report(&output);
    assert_eq!(output.status.code(), Some(0), "{told:#}");
    for side in [0, 1] {
        let gateway = &told["gateways"][side];
        assert_eq!(
            (&gateway["rounds"], &gateway["whole"]),
            (&json!(2), &json!(40)),
            "{gateway}"
        );
    }
    assert!(told["ratios"]["p99"].as_f64() > Some(0.0), "{told:#}");
}

#[test]
fn a_configuration_changes_while_turns_run_and_none_is_lost() {
    let folder = Folder::new("reloads");
    let text = "sessions: 8\nduration: 1s\nthink: 20ms\nupstreams: { a/m: { every: 5ms } }\nreloads: { every: 50ms }\n\
                expect: { max_lost: 0, max_errors: 0, min_reloads: 1 }";
    let output = load(&["--scenario", &folder.file("s.yaml", text)]);
    let told = report(&output);
    assert_eq!(output.status.code(), Some(0), "{told:#}");
    assert_eq!(told["gateways"][0]["reloads"]["refused"], 0, "{told:#}");
}

#[test]
fn the_schema_of_scenarios_is_printed() {
    let output = load(&["--schema"]);
    assert_eq!(output.status.code(), Some(2), "it stands alone");
    let mut command = Command::new(env!("CARGO_BIN_EXE_understudy"));
    let output = command.args(["load", "--schema"]).output().expect("runs");
    assert_eq!(report(&output)["title"], "scenario of understudy load");
}

pub(crate) fn free_port() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address")
}

/// A scenario of `examples/load`, played in less time: what was lost, what ended with an error, and its page.
fn example(name: &str, lasts: &str) -> (Value, String) {
    let folder = Folder::new(name);
    let scenario = format!("{}/../examples/load/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
    let page = folder.0.join("report.html").display().to_string();
    let told = report(&load(&["--scenario", &scenario, "--lasts", lasts, "--html", &page]));
    let page = fs::read_to_string(page).expect("a page");
    (told, page)
}

#[test]
fn the_examples_of_faults_and_of_reloads_lose_no_turn_and_their_pages_need_nobody_else() {
    for (name, happened) in [("outage", "/failed_over"), ("reloads", "/reloads/applied")] {
        let (told, page) = example(name, "3s");
        let gateway = &told["gateways"][0];
        assert_eq!(
            (&gateway["lost"], &gateway["errors"]),
            (&json!({}), &json!({})),
            "{name}: {told:#}"
        );
        assert!(
            gateway.pointer(happened).and_then(Value::as_u64) > Some(0),
            "{name}: {told:#}"
        );
        let own = gateway["url"].as_str().expect("a URL");
        let others = page.replace(own, "");
        for needed in [
            "http:", "https:", "//", "src=", "href=", "<script", "<link", "@import", "url(",
        ] {
            assert!(!others.contains(needed), "{name}: {needed}");
        }
        assert!(page.contains("<polyline") && page.ends_with("</html>\n"), "{name}");
    }
}
