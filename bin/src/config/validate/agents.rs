//! `agents`: who speaks, with which models.

use std::collections::BTreeSet;
use std::sync::Arc;

use understudy_messages::ids::{ModelRef, Name};
use understudy_messages::settings::{AgentSettings, BrokenStream, ContentFilter, MalformedFrame};

use super::defaults::MOST_TURNS;
use super::models::{self, Models};
use super::plugins;
use super::providers::{Providers, refuse_repeated};
use crate::config::document::Status;
use crate::config::field::{Field, Text};
use crate::config::suggestion;

/// The name of the agent that answers when a request names none, and of the one made when none is configured.
const DEFAULT: &str = "default";

/// The agents in listed order, and the place of the default one: `agents.default`, else the first.
pub(super) fn agents(field: &Field<'_>, providers: &Providers, models: &Models) -> (Vec<Arc<AgentSettings>>, usize) {
    let entries = field.entries();
    if entries.is_empty() {
        let only = made_agent(field, providers, models);
        return (only.map(Arc::new).into_iter().collect(), 0);
    }
    let default = entries.iter().position(|(name, _)| **name == *DEFAULT);
    let casting = Casting { providers, models };
    let agents = entries
        .into_iter()
        .filter_map(|(name, entry)| casting.agent(name, &entry))
        .map(Arc::new)
        .collect();
    (agents, default.unwrap_or(0))
}

/// The one agent of a document without agents: it speaks with the first chain, else with the first model listed anywhere.
fn made_agent(field: &Field<'_>, providers: &Providers, models: &Models) -> Option<AgentSettings> {
    let chain = match &models.first_alias {
        Some(alias) => models.aliases.get(alias).cloned().unwrap_or_default(),
        None => (providers.first_model.clone())
            .or_else(|| models.first_model.clone())
            .into_iter()
            .collect(),
    };
    if chain.is_empty() && models.first_alias.is_none() && !providers.by_name.is_empty() {
        field.refuse(
            "names no agent, and no model is listed that one could speak with",
            "add `default: { model: provider/model }`",
        );
    }
    agent_of(DEFAULT.into(), chain)
}

/// An agent that speaks with the models of `chain`, each once; `None` when it is empty.
fn agent_of(name: Name, chain: Vec<ModelRef>) -> Option<AgentSettings> {
    let mut seen = BTreeSet::new();
    let mut models = chain.into_iter().filter(|model| seen.insert(model.clone()));
    Some(AgentSettings {
        name,
        primary: models.next()?,
        fallbacks: models.collect(),
        on_broken_stream: BrokenStream::default(),
        on_content_filter: ContentFilter::default(),
        on_malformed_frame: MalformedFrame::default(),
        failover_on_status: Vec::new(),
        workspace: None,
        plugins: None,
        max_concurrent: None,
    })
}

/// What agents may speak with.
struct Casting<'a> {
    providers: &'a Providers,
    models: &'a Models,
}

impl Casting<'_> {
    fn agent(&self, name: Name, entry: &Field<'_>) -> Option<AgentSettings> {
        models::check_name(&name, entry);
        let mut chain = Vec::new();
        let (mut on_broken_stream, mut on_content_filter, mut on_malformed_frame) = Default::default();
        let mut failover_on_status = Vec::new();
        let (mut workspace, mut plugins, mut max_concurrent) = (None, None, None);
        entry.section(|keys| {
            chain = self.chain(&keys.key("model"));
            on_broken_stream = keys.key("on_broken_stream").choice().unwrap_or_default();
            on_content_filter = keys.key("on_content_filter").choice().unwrap_or_default();
            on_malformed_frame = keys.key("on_malformed_frame").choice().unwrap_or_default();
            failover_on_status = on_status(&keys.key("failover"));
            workspace = plugins::folder(&keys.key("workspace"));
            max_concurrent = most(&keys.key("max_concurrent"));
            let listed = keys.key("plugins");
            plugins = (!listed.is_absent()).then(|| plugins::ids(&listed));
        });
        Some(AgentSettings {
            on_broken_stream,
            on_content_filter,
            on_malformed_frame,
            failover_on_status,
            workspace,
            plugins,
            max_concurrent,
            ..agent_of(name, chain)?
        })
    }

    /// `model`: one name, or a section with `primary` and `fallbacks`.
    fn chain(&self, field: &Field<'_>) -> Vec<ModelRef> {
        const FIX: &str = "write provider/model, or { primary: …, fallbacks: […] }";
        if !field.is_section() {
            let text = field.required_text(FIX);
            return text.map_or_else(Vec::new, |text| self.named(field, &text));
        }
        let mut chain = Vec::new();
        field.section(|keys| {
            let primary = keys.key("primary");
            let fallbacks = keys.key("fallbacks").items();
            let mut seen = BTreeSet::new();
            for item in [primary].into_iter().chain(fallbacks) {
                let Some(text) = item.required_text("write provider/model") else {
                    continue;
                };
                refuse_repeated(&item, &text, seen.insert(text.value.clone()));
                chain.extend(self.named(&item, &text));
            }
        });
        chain
    }

    /// The models behind an alias, or the one model that is named.
    fn named(&self, field: &Field<'_>, text: &Text) -> Vec<ModelRef> {
        if let Some(chain) = self.models.aliases.get(&*text.value) {
            return chain.clone();
        }
        if text.value.contains('/') {
            let model = models::resolve(field, text, self.providers);
            return model.into_iter().collect();
        }
        let aliases = self.models.aliases.keys().map(|name| &**name);
        let fix = if self.models.aliases.is_empty() {
            "write provider/model".to_owned()
        } else {
            suggestion::instead_of(&text.value, aliases)
        };
        field.refuse_text(text, "is neither provider/model nor a name in `models`", fix);
        Vec::new()
    }
}

/// `max_concurrent`
pub(super) fn most(field: &Field<'_>) -> Option<usize> {
    let count = field.count()?;
    Some(usize::try_from(count.min(MOST_TURNS)).unwrap_or(usize::MAX))
}

/// `failover`: the statuses that move on to the next candidate whatever their reason.
fn on_status(field: &Field<'_>) -> Vec<u16> {
    let mut statuses = Vec::new();
    field.section(|keys| {
        for item in keys.key("on_status").items() {
            if item.is_absent() {
                item.refuse("is empty", "write a status, or remove the item");
            }
            let status = item.whole(Status::RANGE);
            let Some(status) = status.and_then(|status| u16::try_from(status).ok()) else {
                continue;
            };
            if statuses.contains(&status) {
                item.refuse(format!("lists {status} twice"), "remove one of the two");
            }
            statuses.push(status);
        }
    });
    statuses
}
