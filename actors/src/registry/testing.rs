//! Settings that unit tests share.

use std::sync::Arc;

use tokio_util::bytes::Bytes;
use understudy_messages::ids::{ModelRef, Name, SessionKey, TurnId};
use understudy_messages::request::Endpoint;
use understudy_messages::settings::{AgentSettings, Api, ProviderSettings, Settings};
use understudy_messages::turn::TurnRequest;

use super::held::Comer;

/// Providers `a` (big, shared), `b` (mid, shared) and `open` (any); alias `fast`; agent `support`.
pub(crate) fn settings() -> Settings {
    let provider = |name: &str, models: Option<&[&str]>| {
        let settings = ProviderSettings {
            name: name.into(),
            api: Api::OpenaiChat,
            base_url: format!("http://{name}.example"),
            api_keys: Vec::new(),
            aggregator: false,
            quota_group: None,
            key_order: Default::default(),
            ask_usage: false,
            catalog: None,
            models: models.map(|models| models.iter().map(|model| (*model).into()).collect()),
        };
        (Name::from(name), Arc::new(settings))
    };
    let model = |text: &str| ModelRef::parse(text).expect("well formed");
    let agent = AgentSettings {
        name: "support".into(),
        primary: model("a/big"),
        fallbacks: vec![model("b/mid"), model("open/any")],
        on_broken_stream: Default::default(),
        on_content_filter: Default::default(),
        on_malformed_frame: Default::default(),
        failover_on_status: Vec::new(),
        workspace: None,
        plugins: None,
    };
    Settings {
        providers: [
            provider("a", Some(&["big", "shared"])),
            provider("b", Some(&["mid", "shared"])),
            provider("open", None),
        ]
        .into(),
        aliases: [(Name::from("fast"), vec![model("b/mid"), model("a/big")])].into(),
        models: Default::default(),
        agents: vec![Arc::new(agent.clone()), Arc::new(second(agent))],
        default_agent: 0,
        session: Default::default(),
        timeouts: Default::default(),
        retry: Default::default(),
        breaker: Default::default(),
        limits: Default::default(),
        plugins: Default::default(),
    }
}

fn second(agent: AgentSettings) -> AgentSettings {
    let name = "second".into();
    AgentSettings { name, ..agent }
}

/// A turn of an agent; of the default one where none is named.
pub(crate) fn turn(agent: Option<&str>) -> Arc<TurnRequest> {
    let body = Bytes::from_static(br#"{"model":"fast","messages":[{"role":"user","content":"hi"}]}"#);
    Arc::new(TurnRequest {
        id: TurnId::new(),
        request_id: "r".into(),
        session: SessionKey::Ephemeral,
        agent: agent.map(Name::from),
        endpoint: Endpoint::Chat,
        facts: understudy_providers::wire::scan(Endpoint::Chat, &body).expect("a good body"),
        body,
        headers: Vec::new(),
    })
}

/// The same, asked from nowhere.
pub(super) fn comer(agent: Option<&str>) -> Comer {
    Comer {
        turn: turn(agent),
        within: Default::default(),
    }
}

/// No plugins.
pub(crate) fn no_plugins() -> Arc<crate::inventory::Inventory> {
    no_plugins_of(&settings())
}

/// No plugins, and these settings.
pub(crate) fn no_plugins_of(settings: &Settings) -> Arc<crate::inventory::Inventory> {
    let telemetry = crate::telemetry::Telemetry::new().expect("sound");
    let clock = understudy_messages::clock::Clock::movable();
    let tools = crate::tools::Tools::none(clock.clone());
    let hooks = crate::hooks::Hooks::nobody(clock, crate::supervision::Tasks::new(), telemetry);
    let inventory = crate::inventory::Inventory::of(Arc::new(settings.clone()), Arc::new(hooks), Arc::new(tools));
    Arc::new(inventory)
}

/// Lets a generation serve that knows these catalogs.
pub(crate) fn serve(published: &super::Published, settings: Settings, catalogs: crate::catalog::Catalogs) {
    let roster = super::Roster::new(Arc::new(settings)).reading(catalogs);
    let id = understudy_messages::ids::GenerationId(1);
    let generation = super::Generation::new(id, roster, no_plugins(), Arc::default(), Vec::new());
    published.store(Arc::new(generation));
}

/// A reload is under way, or none any more.
pub(crate) fn reloading(published: &super::Published, is: bool) {
    let progress = super::operation::Progress {
        phase: "reloading",
        plugins: Vec::new(),
        until: None,
        reason: None,
        waits_for: None,
        budget: None,
    };
    published.show(is.then_some(progress));
}
