//! How a child is started and kept, and where that is written.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use understudy_messages::clock::Clock;
use understudy_messages::ids::Name;

use crate::hosts::Load;

/// How a child is started and kept.
#[derive(Clone, Debug)]
pub struct ProcessOptions {
    /// The plugin's id.
    pub id: Name,
    /// The plugin's folder: the child's working directory.
    pub folder: PathBuf,
    /// The program and its arguments. A program with a `/` counts from the folder, another is looked for in `PATH`.
    pub command: Vec<String>,
    /// All of its environment, beside `PATH`.
    pub env: BTreeMap<String, String>,
    /// The plugin's settings.
    pub settings: Value,
    /// The longest line that it may say, in bytes; a longer one is passed over.
    pub longest_line: usize,
    /// How many calls it may be at work on; more have to wait.
    pub calls: usize,
    /// How long it may take to register.
    pub start: Duration,
    /// How long it may take to end when it is told to; then it is killed.
    pub grace: Duration,
    /// How long it may leave a cancelled call without an answer; then it is killed and started again.
    pub patience: Duration,
    /// Time.
    pub clock: Clock,
}

impl ProcessOptions {
    /// The usual ones: lines of 1 MiB, 64 calls, 10 s to register, 2 s to end, 30 s to answer what was cancelled.
    pub fn new(id: Name, folder: PathBuf, command: Vec<String>, clock: Clock) -> Self {
        Self {
            id,
            folder,
            command,
            env: BTreeMap::new(),
            settings: Value::Object(serde_json::Map::new()),
            longest_line: 1 << 20,
            calls: 64,
            start: Duration::from_secs(10),
            grace: Duration::from_secs(2),
            patience: Duration::from_secs(30),
            clock,
        }
    }
}

/// The part of a manifest that says how to start the child, and its bounds.
#[derive(Debug, Deserialize)]
struct Written {
    command: Words,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    limits: Limits,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Words {
    /// A program without arguments.
    One(String),
    Many(Vec<String>),
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Limits {
    line_bytes: Option<usize>,
    calls: Option<usize>,
    start_ms: Option<u64>,
    grace_ms: Option<u64>,
    patience_ms: Option<u64>,
}

impl ProcessOptions {
    /// The options that a manifest asks for. `env` of the plugin's settings is added to the manifest's own.
    ///
    /// # Errors
    /// What is wrong with the manifest or the settings.
    pub fn read(load: Load) -> Result<Self, String> {
        let manifest = load.manifest.ok_or("has no manifest, and so no command")?;
        let written = serde_json::from_value(Value::Object(manifest.all.clone()));
        let Written { command, env, limits } = written.map_err(|why| format!("its manifest is wrong: {why}"))?;
        let command = match command {
            Words::One(program) => vec![program],
            Words::Many(words) => words,
        };
        let mut options = Self::new(load.id, load.folder, command, load.clock);
        options.env = env;
        if let Some(given) = load.settings.get("env") {
            let given: BTreeMap<String, String> =
                Deserialize::deserialize(given).map_err(|_| "its settings' env is no map of texts")?;
            options.env.extend(given);
        }
        options.settings = load.settings;
        limits.set(&mut options)?;
        Ok(options)
    }
}

impl Limits {
    fn set(self, options: &mut ProcessOptions) -> Result<(), String> {
        if [self.line_bytes, self.calls].contains(&Some(0)) {
            return Err("its manifest is wrong: limits of lineBytes and calls begin at 1".to_owned());
        }
        let time = |ms: Option<u64>, usual| ms.map_or(usual, Duration::from_millis);
        options.longest_line = self.line_bytes.unwrap_or(options.longest_line);
        options.calls = self.calls.unwrap_or(options.calls);
        options.start = time(self.start_ms, options.start);
        options.grace = time(self.grace_ms, options.grace);
        options.patience = time(self.patience_ms, options.patience);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::manifest::Manifest;

    fn read(manifest: &str, settings: Value) -> Result<ProcessOptions, String> {
        let (manifest, _) = Manifest::read(manifest).expect("a manifest");
        ProcessOptions::read(Load {
            id: manifest.id.clone(),
            manifest: Some(Arc::new(manifest)),
            folder: PathBuf::from("/plugin"),
            settings,
            workspaces: Vec::new(),
            grants: Default::default(),
            limits: Default::default(),
            clock: Clock::real(),
            listeners: Default::default(),
        })
    }

    #[test]
    fn command_environment_and_bounds_come_from_the_manifest_and_the_settings() {
        let manifest =
            "{ id: 'p', command: ['python3', 'p.py'], env: { A: '1', B: '1' }, limits: { calls: 2, graceMs: 5 } }";
        let options = read(manifest, json!({ "env": { "B": "2" } })).expect("options");
        assert_eq!(options.command, ["python3", "p.py"]);
        let env: Vec<_> = options.env.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(env, [("A", "1"), ("B", "2")]);
        assert_eq!((options.calls, options.grace), (2, Duration::from_millis(5)));
        assert_eq!(options.longest_line, 1 << 20);
        assert_eq!(
            read("{ id: 'p', command: './p' }", json!({})).expect("options").command,
            ["./p"]
        );
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (manifest, settings) in [
            ("{ id: 'p', command: 7 }", json!({})),
            ("{ id: 'p', command: 'p', limits: { calls: 0 } }", json!({})),
            ("{ id: 'p', command: 'p', limits: { cals: 1 } }", json!({})),
            ("{ id: 'p', command: 'p' }", json!({ "env": { "A": 1 } })),
        ] {
            assert!(read(manifest, settings).is_err(), "{manifest}");
        }
    }
}
