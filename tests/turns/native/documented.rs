//! The commands of the guide, as they stand there.

use std::path::Path;

use reqwest::Method;
use serde_json::{Value, json};

use super::{answers, at};
use crate::stage::Stage;

/// Method, path and body of a command.
fn command(line: &str) -> (Method, String, Value) {
    let quoted: Vec<&str> = line.split('\'').collect();
    let method = match line.split_once("-X ") {
        Some((_, rest)) => rest.split(' ').next().expect("a method").parse().expect("one"),
        None if line.contains(" -d ") => Method::POST,
        None => Method::GET,
    };
    let (_, path) = line.split_once("http://127.0.0.1:4242").expect("an address");
    let path = path.split([' ', '\'']).next().expect("a path").to_owned();
    let body = line.contains(" -d ").then(|| quoted[quoted.len() - 2]);
    let body = body.map_or(Value::Null, |body| serde_json::from_str(body).expect("JSON"));
    (method, path, body)
}

#[tokio::test]
async fn every_command_of_the_guide_works_in_its_order() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/native-api.md");
    let guide = std::fs::read_to_string(guide).expect("the guide");
    let stage = Stage::set(json!({ "a/m": { "calls": [answers("yes")] } })).await;
    let commands: Vec<&str> = guide.lines().filter(|line| line.starts_with("    curl ")).collect();
    assert!(commands.len() >= 6, "{commands:?}");
    for line in commands {
        let (method, path, body) = command(line);
        let reply = at(&stage, method, &path, body).await;
        assert_eq!(reply.status, 200, "{line}: {}", reply.text());
    }
}
