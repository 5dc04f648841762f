use serde_json::json;

use super::*;

fn read(text: &str) -> (Manifest, Vec<String>) {
    Manifest::read(text).unwrap_or_else(|error| panic!("{text}: {error:?}"))
}

fn refused(text: &str) -> ManifestError {
    Manifest::read(text).expect_err(text)
}

#[test]
fn a_small_manifest_without_a_schema_takes_any_settings_and_says_so() {
    let (manifest, warnings) =
        read(r#"{ "id": "canon-guardian", "version": "1.0.0", "main": "./index.js", "type": "module" }"#);
    assert_eq!((&*manifest.id, manifest.host), ("canon-guardian", HostKind::Js));
    assert_eq!(manifest.entry.as_deref(), Some(Path::new("./index.js")));
    assert!(warnings[0].contains("configSchema"));
    assert_eq!(manifest.check(&json!({ "anything": [1] })), Ok(()));
}

#[test]
fn json5_is_read_and_unknown_keys_are_ignored() {
    let (manifest, warnings) = read(
        "{ // a comment
           id: 'guard', configSchema: {}, command: ['python3', 'guard.py'], kind: 'context-engine',
           contracts: { tools: ['read', 'grep'], speech: ['x'] }, toolMetadata: { read: { replaySafe: true }, grep: {} },
           activation: { onStartup: true }, requiresPlugins: ['canon'], required: true, resources: 'shared', colour: 'red', }",
    );
    assert!(warnings.is_empty());
    assert_eq!((manifest.host, manifest.required), (HostKind::Process, Some(true)));
    assert_eq!(
        (manifest.kinds, manifest.resources),
        (vec!["context-engine".to_owned()], Some(Resources::Shared))
    );
    assert_eq!(manifest.tools, ["read", "grep"]);
    assert!(manifest.replay_safe.contains("read") && !manifest.replay_safe.contains("grep"));
    assert_eq!(manifest.requires_plugins, ["canon"]);
    assert_eq!(manifest.all["command"][1], "guard.py");
}

#[test]
fn the_host_follows_from_the_entry_unless_it_is_named() {
    let host = |rest: &str| read(&format!("{{ id: 'p', {rest} }}")).0.host;
    assert_eq!(host("main: 'a.mjs'"), HostKind::Js);
    assert_eq!(host("url: 'http://127.0.0.1:9'"), HostKind::Webhook);
    assert_eq!(host("command: 'x'"), HostKind::Process);
    assert_eq!(host("host: 'native'"), HostKind::Native);
    assert_eq!(host("host: 'process', main: 'a.js'"), HostKind::Process);
    for nothing in ["", "main: 'a.py'", "host: 'js'", "host: 'wasm'"] {
        assert_eq!(
            refused(&format!("{{ id: 'p', {nothing} }}")).id.as_deref(),
            Some("p"),
            "{nothing}"
        );
    }
}

#[test]
fn a_manifest_that_cannot_be_used_keeps_its_id() {
    assert_eq!(refused("{").id, None);
    assert_eq!(refused("[]").message, "is no object");
    assert_eq!(refused("{ main: 'a.js' }").message, "has no id");
    for bad in ["", "a b", "a\\nb"] {
        assert_eq!(refused(&format!("{{ id: '{bad}', main: 'a.js' }}")).id, None, "{bad}");
    }
    let error = refused("{ id: 'p', main: 'a.js', configSchema: { type: 7 } }");
    assert_eq!(error.id.as_deref(), Some("p"));
    assert!(error.message.contains("configSchema"), "{}", error.message);
}

#[test]
fn settings_are_checked_and_what_they_hold_is_not_repeated() {
    let (manifest, _) = read(
        "{ id: 'p', main: 'a.js', configSchema: { type: 'object', additionalProperties: false,
           properties: { every: { type: 'integer' }, key: { type: 'string', maxLength: 3 } } } }",
    );
    assert_eq!(manifest.check(&json!({ "every": 50 })), Ok(()));
    let wrong = json!({ "every": "sk-canary-1", "key": "sk-canary-2", "other": "sk-canary-3" });
    let error = manifest.check(&wrong).expect_err("wrong");
    assert_eq!(error.0.len(), 3, "{error}");
    assert!(error.to_string().contains("/every"), "{error}");
    assert!(!error.to_string().contains("canary"), "{error}");
}

#[test]
fn a_schema_reaches_for_nothing_outside() {
    for outside in ["http://127.0.0.1:9/schema.json", "file:///etc/hostname"] {
        let error = refused(&format!(
            "{{ id: 'p', main: 'a.js', configSchema: {{ $ref: '{outside}' }} }}"
        ));
        assert_eq!(error.id.as_deref(), Some("p"));
    }
}
