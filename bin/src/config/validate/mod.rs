//! From the document to settings in which every reference resolves.

use std::net::SocketAddr;

use secrecy::SecretString;
use understudy_messages::settings::Settings;

use super::field::{Field, Section};
use super::source::Source;
use super::{LogSettings, ServerConfig, StateSettings, Store};

mod agents;
mod brought;
mod defaults;
mod models;
mod plugins;
mod providers;

/// Reads the whole document. The result counts only if no problem was noted on the way.
pub(crate) fn server(root: &Field<'_>) -> ServerConfig {
    let mut config = ServerConfig {
        settings: no_settings(),
        api: ServerConfig::API,
        admin: ServerConfig::ADMIN,
        client_keys: Vec::new(),
        admin_token: None,
        log: LogSettings::default(),
        state: StateSettings::default(),
        source: Source::default(),
    };
    root.section(|keys| {
        listen(&keys.key("listen"), &mut config);
        config.client_keys = secrets(&keys.key("client_keys"));
        config.admin_token = admin_token(&keys.key("admin_token"), config.admin);
        log(&keys.key("log"), &mut config.log);
        state(&keys.key("state"), &mut config.state);
        settings(keys, &mut config.settings);
    });
    config
}

fn no_settings() -> Settings {
    Settings {
        providers: Default::default(),
        aliases: Default::default(),
        models: Default::default(),
        agents: Vec::new(),
        default_agent: 0,
        session: Default::default(),
        timeouts: Default::default(),
        retry: Default::default(),
        breaker: Default::default(),
        limits: Default::default(),
        plugins: Default::default(),
    }
}

fn settings(keys: &mut Section<'_>, settings: &mut Settings) {
    settings.plugins = plugins::plugins(&keys.key("plugins"));
    let brought = brought::Brought::new(&settings.plugins, keys.folder(), keys.compiled());
    let providers = providers::providers(&keys.key("providers"), brought);
    let models = models::models(&keys.key("models"), &providers);
    (settings.agents, settings.default_agent) = agents::agents(&keys.key("agents"), &providers, &models);
    settings.providers = providers.by_name;
    settings.aliases = models.aliases;
    settings.models = models.settings;
    defaults::defaults(&keys.key("defaults"), settings);
}

fn listen(field: &Field<'_>, config: &mut ServerConfig) {
    const FIX: &str = "write an IP address and a port: 127.0.0.1:4242";
    field.section(|keys| {
        let parse = |text: &str| text.parse().map_err(|_| "is no address with a port");
        let address = |field: Field<'_>| field.parsed::<SocketAddr, _>(parse, FIX);
        config.api = address(keys.key("api")).unwrap_or(config.api);
        let admin = keys.key("admin");
        config.admin = address(admin.clone()).unwrap_or(config.admin);
        if collide(config.api, config.admin) {
            admin.refuse("is the address of the API listener", "choose another port");
        }
    });
}

/// Whether two listeners cannot both be bound. Port 0 takes any free port.
fn collide(one: SocketAddr, other: SocketAddr) -> bool {
    let everywhere = one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() != 0 && one.port() == other.port() && (everywhere || one.ip() == other.ip())
}

fn secrets(field: &Field<'_>) -> Vec<SecretString> {
    let items = field.items();
    for item in items.iter().filter(|item| item.is_absent()) {
        item.refuse("is empty", "write the secret, or remove the item");
    }
    items.iter().filter_map(Field::secret).collect()
}

fn admin_token(field: &Field<'_>, admin: SocketAddr) -> Option<SecretString> {
    if field.is_absent() && !admin.ip().is_loopback() {
        field.refuse(
            format!("is missing, and the admin listener {admin} is not on loopback"),
            "set a token, or listen on 127.0.0.1",
        );
    }
    field.secret()
}

fn log(field: &Field<'_>, log: &mut LogSettings) {
    field.section(|keys| {
        log.level = keys.key("level").choice().unwrap_or(log.level);
        log.format = keys.key("format").choice().unwrap_or(log.format);
    });
}

fn state(field: &Field<'_>, state: &mut StateSettings) {
    field.section(|keys| {
        state.store = keys.key("store").choice().unwrap_or(state.store);
        let dir = keys.key("dir");
        state.dir = plugins::folder(&dir);
        if state.store == Store::Memory && state.dir.is_some() {
            dir.refuse("is given, and `store` is memory", "remove one of the two");
        }
    });
}
