//! `openclaw.plugin.json`: what a plugin says of itself. Read and checked without running any of its code.
//!
//! JSON5. Only `id` is required; keys that nobody knows are ignored.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value};
use understudy_messages::ids::Name;

mod schema;

pub use self::schema::{ConfigSchema, SettingsError};

/// The file's name.
pub const FILE: &str = "openclaw.plugin.json";
/// The largest manifest that is read, in bytes.
pub const LONGEST: u64 = 256 * 1024;

/// What runs a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HostKind {
    /// Code that is compiled in.
    Native,
    /// A module for the embedded engine.
    Js,
    /// A child process.
    Process,
    /// An HTTP endpoint.
    Webhook,
}

impl HostKind {
    /// As the manifest spells it.
    pub const fn as_label(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Js => "js",
            Self::Process => "process",
            Self::Webhook => "webhook",
        }
    }
}

/// How an instance is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Resources {
    /// The old one ends before the new one begins.
    Exclusive,
    /// Both may be there for a while.
    Shared,
}

/// A manifest that was read and can be used.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// The plugin's id.
    pub id: Name,
    /// Its name for people.
    pub name: Option<String>,
    /// What it does.
    pub description: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// What runs it.
    pub host: HostKind,
    /// Its code, inside of its folder, where its host runs a file.
    pub entry: Option<PathBuf>,
    /// What its settings have to look like.
    pub config_schema: Option<ConfigSchema>,
    /// Exclusive kinds that it is of.
    pub kinds: Vec<String>,
    /// Tools that it may register.
    pub tools: Vec<String>,
    /// Trusted policies of tools that it may register (`contracts.trustedToolPolicies`).
    pub policies: Vec<String>,
    /// Providers that it may register: chains may name them while it is on.
    pub providers: Vec<Name>,
    /// Tools that may run again after a failure.
    pub replay_safe: BTreeSet<String>,
    /// When it wants to be started; kept as it was written.
    pub activation: Option<Value>,
    /// Plugins that it counts on.
    pub requires_plugins: Vec<String>,
    /// Whether what it would judge is refused while it is not serving.
    pub required: Option<bool>,
    /// How its instances are replaced.
    pub resources: Option<Resources>,
    /// All of it, for what a host wants to know beside.
    pub all: Map<String, Value>,
}

/// A manifest that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestError {
    /// The plugin's id, where it could be read.
    pub id: Option<Name>,
    /// What is wrong.
    pub message: String,
}

/// The part of a manifest that is looked at here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    name: Option<String>,
    description: Option<String>,
    version: Option<String>,
    main: Option<String>,
    entry: Option<String>,
    #[serde(default)]
    kind: Kinds,
    #[serde(default)]
    contracts: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    tool_metadata: BTreeMap<String, ToolMetadata>,
    activation: Option<Value>,
    #[serde(default)]
    requires_plugins: Vec<String>,
    #[serde(default)]
    providers: Vec<String>,
    host: Option<HostKind>,
    required: Option<bool>,
    resources: Option<Resources>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Kinds {
    One(String),
    Many(Vec<String>),
}

impl Default for Kinds {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolMetadata {
    #[serde(default)]
    replay_safe: bool,
}

impl Manifest {
    /// Reads a manifest and says what is odd about it and can be lived with.
    ///
    /// # Errors
    /// What is wrong, with the id where it is known.
    pub fn read(text: &str) -> Result<(Self, Vec<String>), ManifestError> {
        let unreadable = |_| error(None, "is no JSON5");
        let all: Value = json5::from_str(text).map_err(unreadable)?;
        let Value::Object(all) = all else {
            return Err(error(None, "is no object"));
        };
        let id = id(&all)?;
        let failed = |message: String| error(Some(&id), &message);
        let written = Written::deserialize(Value::Object(all.clone())).map_err(|why| failed(why.to_string()))?;
        let (config_schema, warning) = match all.get("configSchema") {
            Some(schema) => (Some(ConfigSchema::new(schema).map_err(failed)?), None),
            None => (None, Some("has no configSchema: any settings are taken".to_owned())),
        };
        let manifest = Self::put_together(id.clone(), written, config_schema, all).map_err(failed)?;
        Ok((manifest, warning.into_iter().collect()))
    }

    fn put_together(
        id: Name,
        written: Written,
        config_schema: Option<ConfigSchema>,
        all: Map<String, Value>,
    ) -> Result<Self, String> {
        let entry = written.entry.or(written.main).map(PathBuf::from);
        let host = host(written.host, entry.as_deref(), &all)?;
        let safe = |(tool, metadata): (String, ToolMetadata)| metadata.replay_safe.then_some(tool);
        let mut contracts = written.contracts;
        Ok(Self {
            id,
            name: written.name,
            description: written.description,
            version: written.version,
            host,
            entry,
            config_schema,
            kinds: match written.kind {
                Kinds::One(kind) => vec![kind],
                Kinds::Many(kinds) => kinds,
            },
            tools: contracts.remove("tools").unwrap_or_default(),
            policies: contracts.remove("trustedToolPolicies").unwrap_or_default(),
            providers: written.providers.into_iter().map(Name::from).collect(),
            replay_safe: written.tool_metadata.into_iter().filter_map(safe).collect(),
            activation: written.activation,
            requires_plugins: written.requires_plugins,
            required: written.required,
            resources: written.resources,
            all,
        })
    }

    /// Whether it wants to be on where nobody has named it; that of one that is compiled in counts.
    pub fn is_enabled_by_default(&self) -> bool {
        self.all.get("enabledByDefault") == Some(&Value::Bool(true))
    }

    /// Checks a plugin's settings against its schema; without one any are right.
    ///
    /// # Errors
    /// All that is wrong, by place.
    pub fn check(&self, settings: &Value) -> Result<(), SettingsError> {
        self.config_schema
            .as_ref()
            .map_or(Ok(()), |schema| schema.check(settings))
    }
}

/// An id is a label of metrics and a name in logs and paths of the admin listener.
fn id(all: &Map<String, Value>) -> Result<Name, ManifestError> {
    const LONGEST: usize = 128;
    let Some(id) = all.get("id").and_then(Value::as_str) else {
        return Err(error(None, "has no id"));
    };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/' | b'@');
    if id.is_empty() || id.len() > LONGEST || !id.bytes().all(plain) {
        return Err(error(
            None,
            "has an id that is not made of letters, digits and -_./@ (at most 128)",
        ));
    }
    Ok(id.into())
}

/// The host that is named, else the one that the entry is for.
fn host(named: Option<HostKind>, entry: Option<&Path>, all: &Map<String, Value>) -> Result<HostKind, String> {
    let ends = |endings: &[&str]| {
        let ending = entry.and_then(Path::extension).and_then(|ending| ending.to_str());
        ending.is_some_and(|ending| endings.contains(&ending))
    };
    let guessed = if ends(&["js", "mjs"]) {
        Some(HostKind::Js)
    } else if all.contains_key("command") {
        Some(HostKind::Process)
    } else if all.contains_key("url") {
        Some(HostKind::Webhook)
    } else {
        None
    };
    let host = named
        .or(guessed)
        .ok_or("says neither `host` nor an entry, `command` or `url`")?;
    match host {
        HostKind::Js if entry.is_none() => Err("has no entry: name its module in `main`".to_owned()),
        HostKind::Native | HostKind::Js | HostKind::Process | HostKind::Webhook => Ok(host),
    }
}

fn error(id: Option<&Name>, message: &str) -> ManifestError {
    ManifestError {
        id: id.cloned(),
        message: message.to_owned(),
    }
}

#[cfg(test)]
mod tests;
