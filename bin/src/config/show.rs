//! `understudy config show`: the settings in effect, every default filled in, every secret hidden.

use std::path::Path;

use serde::Serialize;
use understudy_messages::ids::{ModelRef, Name};
use understudy_messages::settings::{AgentSettings, ModelSettings, ProviderSettings, Settings};

use super::ServerConfig;
use super::document::{
    Agent, Cast, Catalog, Chain, Count, Defaults, Document, Entries, Failover, Flag, Listen, Model, Models, Provider,
    Secret, State, Status, Time, Word,
};
use super::source::References;
use super::yaml::Yaml;

mod plugins;
#[cfg(test)]
mod tests;

/// The settings in the file's own format: with the secrets put back it could be read again.
///
/// # Errors
/// None that a configuration can cause.
pub(crate) fn as_yaml(config: &ServerConfig) -> serde_json::Result<String> {
    let mut text = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut text, Yaml::default());
    document(config, &References::none()).serialize(&mut serializer)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The same as JSON.
///
/// # Errors
/// None that a configuration can cause.
pub(crate) fn as_json(config: &ServerConfig) -> serde_json::Result<String> {
    serde_json::to_string_pretty(&document(config, &References::none()))
}

/// The settings, with the references that were written in the place of secrets.
pub(crate) fn with_references(config: &ServerConfig) -> impl Serialize {
    document(config, &config.source.references())
}

/// Whether something of a configuration is shown as stars: a secret is written out in its text.
pub(crate) fn hides(config: &ServerConfig) -> bool {
    let shown = serde_json::to_value(with_references(config));
    shown.as_ref().map_or(true, has_stars)
}

fn has_stars(shown: &serde_json::Value) -> bool {
    match shown {
        serde_json::Value::String(text) => text == super::document::HIDDEN,
        serde_json::Value::Array(items) => items.iter().any(has_stars),
        serde_json::Value::Object(entries) => entries.values().any(has_stars),
        serde_json::Value::Null | serde_json::Value::Bool(_) | serde_json::Value::Number(_) => false,
    }
}

fn document(config: &ServerConfig, references: &References) -> Document {
    let settings = &config.settings;
    Document {
        listen: Listen {
            api: config.api,
            admin: config.admin,
        },
        providers: entries(&settings.providers, |provider| self::provider(provider, references)),
        models: Models {
            chains: entries(&settings.aliases, |chain| Chain { chain: names(chain) }),
            known: entries(&settings.models, model),
        },
        agents: entries(settings.agents.iter().map(|agent| (&agent.name, agent)), |agent| {
            self::agent(agent)
        }),
        plugins: plugins::plugins(&settings.plugins),
        defaults: defaults(settings),
        client_keys: (0..config.client_keys.len())
            .map(|place| Secret(references.at(&["client_keys"], place)))
            .collect(),
        admin_token: config
            .admin_token
            .as_ref()
            .map(|_| Secret(references.at(&["admin_token"], 0))),
        log: config.log.into(),
        state: State {
            store: Word(config.state.store),
            dir: config.state.dir.as_deref().map(path),
        },
    }
}

fn entries<N: ToString, S, T>(from: impl IntoIterator<Item = (N, S)>, shape: impl Fn(S) -> T) -> Entries<T> {
    Entries(
        from.into_iter()
            .map(|(name, entry)| (name.to_string(), shape(entry)))
            .collect(),
    )
}

fn provider(provider: &ProviderSettings, references: &References) -> Provider {
    let alone = provider.api_keys.len() == 1;
    let secret = |place| {
        let written = |key| references.at(&["providers", &provider.name, key], place);
        Secret(written("api_key").or_else(|| written("api_keys")))
    };
    let listed = (0..provider.api_keys.len()).filter(|_| !alone);
    Provider {
        api: Some(Word(provider.api)),
        base_url: Some(literal(&provider.base_url)),
        api_key: alone.then(|| secret(0)),
        api_keys: listed.map(secret).collect(),
        models: provider
            .models
            .as_ref()
            .map(|models| models.iter().map(|model| literal(model).into()).collect()),
        aggregator: Flag(provider.aggregator),
        quota_group: provider.quota_group.as_deref().map(|group| literal(group).into()),
        key_order: Word(provider.key_order),
        ask_usage: Flag(provider.ask_usage),
        catalog: provider
            .catalog
            .map_or_else(Catalog::default, |refresh| Catalog::Every { refresh: Time(refresh) }),
    }
}

fn model(model: &ModelSettings) -> Model {
    let context = model.context.and_then(|tokens| u32::try_from(tokens).ok());
    Model {
        context: context.map(Count::from),
        first_content: model.first_content.map(Time),
        prefill: model.prefill.map(Flag),
        embedding_space: model.embedding_space.as_deref().map(|space| literal(space).into()),
    }
}

fn agent(agent: &AgentSettings) -> Agent {
    let primary = literal(&agent.primary.to_string());
    Agent {
        model: match &agent.fallbacks[..] {
            [] => Cast::One(primary),
            fallbacks => Cast::Many {
                primary,
                fallbacks: names(fallbacks),
            },
        },
        on_broken_stream: Word(agent.on_broken_stream),
        on_content_filter: Word(agent.on_content_filter),
        on_malformed_frame: Word(agent.on_malformed_frame),
        failover: Failover {
            on_status: agent
                .failover_on_status
                .iter()
                .map(|status| Status::from(u32::from(*status)))
                .collect(),
        },
        workspace: agent.workspace.as_deref().map(path),
        plugins: agent.plugins.as_deref().map(ids),
    }
}

fn defaults(settings: &Settings) -> Defaults {
    Defaults {
        session: settings.session.into(),
        retry: settings.retry.into(),
        breaker: settings.breaker.into(),
        timeouts: settings.timeouts.into(),
        limits: settings.limits.into(),
    }
}

fn names(models: &[ModelRef]) -> Vec<String> {
    models.iter().map(|model| literal(&model.to_string())).collect()
}

fn ids(plugins: &[Name]) -> Vec<Name> {
    plugins.iter().map(|id| literal(id).into()).collect()
}

fn path(path: &Path) -> String {
    literal(&path.display().to_string())
}

/// Text that reading gives back as it is: `${` would begin a reference.
fn literal(text: &str) -> String {
    text.replace("${", "$${")
}
