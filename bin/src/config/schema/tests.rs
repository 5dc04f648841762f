use std::fs;
use std::path::Path;

use serde_json::{Map, Value};

use super::super::raw::{self, Value as Written};
use super::super::{ConfigError, ServerConfig};
use super::schema;

/// Every closed section of the schema: a place where it may stand, and its keys.
pub(crate) fn sections(schema: &Value, place: &[&str], found: &mut Vec<(Vec<String>, Vec<String>)>) {
    if let Some(properties) = schema["properties"].as_object() {
        let owned = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
        found.push((owned(place), properties.keys().cloned().collect()));
        for (key, property) in properties {
            sections(property, &[place, &[key]].concat(), found);
        }
    }
    for (key, entry) in [
        ("x", schema.get("additionalProperties")),
        ("x", pattern(schema, "^[^/]+$")),
        ("x/y", pattern(schema, "/")),
    ] {
        if let Some(entry) = entry {
            sections(entry, &[place, &[key]].concat(), found);
        }
    }
    if let Some(items) = schema.get("items") {
        sections(items, &[place, &["[]"]].concat(), found);
    }
    for choice in schema["anyOf"].as_array().into_iter().flatten() {
        sections(choice, place, found);
    }
}

fn pattern<'a>(schema: &'a Value, pattern: &str) -> Option<&'a Value> {
    schema.get("patternProperties")?.get(pattern)
}

/// The keys that the reader knows at a place, in its own words: what it answers to a key that nobody knows.
pub(crate) fn keys_read_at(place: &[String], read: impl Fn(&str) -> Option<ConfigError>) -> Vec<String> {
    let document = place
        .iter()
        .rev()
        .fold("{ \"~\": 1 }".to_owned(), |inner, key| match key.as_str() {
            "[]" => format!("[{inner}]"),
            key => format!("{{ \"{key}\": {inner} }}"),
        });
    let Some(ConfigError::Invalid(problems)) = read(&document) else {
        panic!("{document} was accepted");
    };
    let unknown = problems.iter().find(|problem| problem.message == "is not a known key");
    let fix = &unknown.unwrap_or_else(|| panic!("{document}: {problems:#?}")).fix;
    let keys = fix
        .strip_prefix("choose from: ")
        .or_else(|| fix.strip_prefix("did you mean `")?.strip_suffix("`?"));
    let mut keys: Vec<String> = keys.unwrap_or_default().split(", ").map(str::to_owned).collect();
    keys.sort();
    keys
}

#[test]
fn reader_and_schema_know_the_same_keys_everywhere() {
    let mut found = Vec::new();
    sections(&schema(), &[], &mut found);
    assert!(found.len() >= 14, "{found:?}");
    for (place, keys) in found {
        let read = |text: &str| ServerConfig::parse(text, &|_| None).err();
        assert_eq!(keys_read_at(&place, read), keys, "in {place:?}");
    }
}

/// Every key has a description, and a section that knows its keys takes no others.
pub(crate) fn check_described(schema: &Value) {
    fn check(schema: &Value, place: &str) {
        for (key, property) in schema["properties"].as_object().into_iter().flatten() {
            assert!(property["description"].is_string(), "{place}.{key} has no description");
            check(property, &format!("{place}.{key}"));
        }
        if schema.get("properties").is_some() {
            assert_eq!(schema["additionalProperties"], false, "{place} is open");
        }
        let entries = schema["patternProperties"]
            .as_object()
            .into_iter()
            .flat_map(Map::values);
        let choices = schema["anyOf"].as_array().into_iter().flatten();
        let inner = entries.chain(choices).chain(schema.get("additionalProperties"));
        for inner in inner.chain(schema.get("items")) {
            check(inner, &format!("{place}.*"));
        }
    }
    check(schema, "");
}

#[test]
fn every_key_is_described_and_no_section_is_open() {
    check_described(&schema());
}

/// Whether a value fits the schema in kind, keys, words and ranges; of the patterns only that of a
/// reference to a variable is looked at.
pub(crate) fn fits(schema: &Value, value: &Written) -> Result<(), String> {
    if schema == true {
        return Ok(());
    }
    if let Some(choices) = schema["anyOf"].as_array() {
        let refusals: Result<Vec<()>, String> = match choices.iter().any(|choice| fits(choice, value).is_ok()) {
            true => return Ok(()),
            false => choices.iter().map(|choice| fits(choice, value)).collect(),
        };
        return refusals.map(|_| ());
    }
    if let Some(words) = schema["enum"].as_array() {
        let Written::Text(text) = value else {
            return Err("is no word".to_owned());
        };
        return words
            .contains(&Value::from(text.as_str()))
            .then_some(())
            .ok_or(format!("{text} is no word of {words:?}"));
    }
    let kinds = &schema["type"];
    let is = |kind: &str| *kinds == kind || kinds.as_array().is_some_and(|kinds| kinds.contains(&Value::from(kind)));
    match value {
        Written::Null if is("null") => Ok(()),
        Written::Bool(_) if is("boolean") => Ok(()),
        Written::Text(text) if is("string") && matches(schema, text) => Ok(()),
        Written::Number(number) if is("integer") => {
            let number: u64 = number.parse().map_err(|_| format!("{number} is no whole number"))?;
            let within =
                schema["minimum"].as_u64() <= Some(number) && number <= schema["maximum"].as_u64().unwrap_or(u64::MAX);
            within.then_some(()).ok_or(format!("{number} is out of range"))
        }
        Written::Number(number) if is("number") => number
            .parse::<f64>()
            .ok()
            .filter(|number| Some(*number) >= schema["minimum"].as_f64())
            .map(|_| ())
            .ok_or(format!("{number} is out of range")),
        Written::List(items) if is("array") => items.iter().try_for_each(|item| fits(&schema["items"], &item.value)),
        Written::Map(entries) if is("object") => {
            for required in schema["required"].as_array().into_iter().flatten() {
                let there = entries.iter().any(|(key, _)| required == key.as_str());
                there.then_some(()).ok_or(format!("{required} is missing"))?;
            }
            entries.iter().try_for_each(|(key, node)| {
                let entry = entry(schema, key).ok_or(format!("{key} is unknown"))?;
                fits(entry, &node.value).map_err(|refusal| format!("{key}: {refusal}"))
            })
        }
        other => Err(format!("is {}, not {kinds}", other.kind())),
    }
}

fn matches(schema: &Value, text: &str) -> bool {
    schema["pattern"] != r"\$\{" || text.contains("${")
}

fn entry<'a>(schema: &'a Value, key: &str) -> Option<&'a Value> {
    let kind = if key.contains('/') { "/" } else { "^[^/]+$" };
    let open = schema
        .get("additionalProperties")
        .filter(|entry| entry.is_object() || **entry == true);
    schema["properties"].get(key).or_else(|| pattern(schema, kind)).or(open)
}

fn fits_schema(text: &str) -> Result<(), String> {
    let document = raw::parse(text).map_err(|error| error.to_string())?;
    fits(&schema(), &document.value)
}

#[test]
fn every_example_fits_the_schema() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let mut checked = 0;
    for entry in fs::read_dir(folder).expect("examples/ is there") {
        let path = entry.expect("is an entry").path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            let text = fs::read_to_string(&path).expect("is readable");
            assert_eq!(fits_schema(&text), Ok(()), "{}", path.display());
            checked += 1;
        }
    }
    assert!(checked >= 3, "examples are missing");
}

#[test]
fn what_the_reader_refuses_by_kind_word_or_range_does_not_fit_either() {
    const LONG: &str = "providers: { p: { api: openai-chat, base_url: 'http://p', models: [m] } }\n";
    for (good, bad) in [
        (
            "agents: { a: { model: p/m, failover: { on_status: [404] } } }",
            "agents: { a: { model: p/m, failover: { on_status: [399] } } }",
        ),
        (
            "agents: { a: { model: p/m, on_content_filter: next } }",
            "agents: { a: { model: p/m, on_content_filter: never } }",
        ),
        (
            "agents: { a: { model: p/m, on_malformed_frame: fail } }",
            "agents: { a: { model: p/m, on_malformed_frame: repair } }",
        ),
        (
            "agents: { a: { model: { primary: p/m } } }",
            "agents: { a: { model: { first: p/m } } }",
        ),
        (
            "models: { fast: { chain: [p/m] }, p/m: { context: 1 } }",
            "models: { fast: { context: 1 } }",
        ),
        (
            "models: { p/m: { prefill: true, embedding_space: s } }",
            "models: { p/m: { prefill: [true], embedding_space: s } }",
        ),
        (
            "agents: { a: { model: p/m, on_broken_stream: hold } }",
            "agents: { a: { model: p/m, on_broken_stream: resume } }",
        ),
        (
            "defaults: { retry: { max_per_target: 0, max_total: null } }",
            "defaults: { retry: { max_per_target: 21 } }",
        ),
        (
            "defaults: { breaker: { failures: 1 } }",
            "defaults: { breaker: { failures: 0 } }",
        ),
        (
            "defaults: { limits: { body: 65536, in_flight: \"${N}\" } }",
            "defaults: { limits: { body: [1] } }",
        ),
        ("log: ", "log: { colour: red }"),
        (
            "plugins: { entries: { g: { config: { any: [{ thing: 1.5 }] }, hooks: { timeouts: { agent_end: 5s } } } } }",
            "plugins: { entries: { g: { settings: {} } } }",
        ),
        (
            "plugins: { load_paths: [./plugins], entries: { g: { required: true, hooks: { timeout: 5s } } } }",
            "plugins: { load_paths: ./plugins }",
        ),
        (
            "plugins: { entries: { g: { grants: { fetch: ['https://h'] }, limits: { memory: 65536, load: 5s } } } }",
            "plugins: { entries: { g: { grants: { fetch: 'https://h' } } } }",
        ),
    ] {
        for (text, fits) in [(good, true), (bad, false)] {
            let text = format!("{LONG}{text}");
            assert_eq!(fits_schema(&text).is_ok(), fits, "{text}: {:?}", fits_schema(&text));
            assert_eq!(
                ServerConfig::parse(&text, &|_| Some("1".to_owned())).is_ok(),
                fits,
                "{text}"
            );
        }
    }
}

#[test]
fn a_required_key_may_not_be_null_and_an_optional_one_may() {
    assert!(fits_schema("providers:").is_err());
    assert!(fits_schema("providers: { openai: }\ndefaults: { retry: { backoff: } }").is_ok());
}
