//! `models`: chains behind public names, and what is known of single models.

use std::collections::{BTreeMap, BTreeSet};

use understudy_messages::ids::{ModelRef, Name};
use understudy_messages::settings::ModelSettings;

use super::providers::{Providers, refuse_repeated};
use crate::config::field::{Field, Text};
use crate::config::suggestion;

/// The section `models`, read.
#[derive(Default)]
pub(super) struct Models {
    pub(super) aliases: BTreeMap<Name, Vec<ModelRef>>,
    pub(super) settings: BTreeMap<ModelRef, ModelSettings>,
    /// The alias that stands first in the document.
    pub(super) first_alias: Option<Name>,
    /// The single model that stands first in the document.
    pub(super) first_model: Option<ModelRef>,
}

/// Reads both kinds of entries: `provider/model` describes a model, any other name stands for a chain.
pub(super) fn models(field: &Field<'_>, providers: &Providers) -> Models {
    let mut models = Models::default();
    for (name, entry) in field.entries() {
        if name.contains('/') {
            let settings = model_settings(&entry);
            if let Some(model) = resolve(&entry, &as_text(&name), providers) {
                models.first_model.get_or_insert_with(|| model.clone());
                models.settings.insert(model, settings);
            }
        } else {
            check_name(&name, &entry);
            models.first_alias.get_or_insert_with(|| name.clone());
            models.aliases.insert(name, chain(&entry, providers));
        }
    }
    models
}

fn as_text(name: &Name) -> Text {
    Text {
        written: name.to_string(),
        value: name.to_string(),
    }
}

/// Names end up in headers, labels and `provider/model`.
pub(super) fn check_name(name: &Name, entry: &Field<'_>) {
    let fits = |byte: u8| byte.is_ascii_graphic() && byte != b'/';
    if name.is_empty() || !name.bytes().all(fits) {
        entry.refuse(
            "has a name that does not fit a header",
            "name it with visible ASCII characters and without a slash",
        );
    }
}

fn model_settings(entry: &Field<'_>) -> ModelSettings {
    let mut settings = ModelSettings::default();
    entry.section(|keys| {
        settings.context = keys.key("context").count();
        settings.first_content = keys.key("first_content").duration();
        settings.prefill = keys.key("prefill").flag();
        settings.embedding_space = embedding_space(&keys.key("embedding_space"));
    });
    settings
}

fn embedding_space(field: &Field<'_>) -> Option<Name> {
    if field.is_absent() {
        return None;
    }
    let text = field.required_text("name what models with comparable vectors share, or remove the key")?;
    Some(Name::from(&*text.value))
}

fn chain(entry: &Field<'_>, providers: &Providers) -> Vec<ModelRef> {
    const FIX: &str = "list the models to ask, best first: [provider/model, provider/model]";
    let mut models = Vec::new();
    entry.section(|keys| {
        let chain = keys.key("chain");
        let items = chain.items();
        if chain.is_absent() {
            chain.refuse("is missing", FIX);
        } else if items.is_empty() && chain.is_list() {
            chain.refuse("is empty", FIX);
        }
        let mut seen = BTreeSet::new();
        for item in items {
            let Some(text) = item.required_text("write provider/model") else {
                continue;
            };
            if let Some(model) = resolve(&item, &text, providers) {
                refuse_repeated(&item, &text, seen.insert(model.clone()));
                models.push(model);
            }
        }
    });
    models
}

/// The model that `text` names, if its provider is configured and serves it.
pub(super) fn resolve(field: &Field<'_>, text: &Text, providers: &Providers) -> Option<ModelRef> {
    let Some(model) = ModelRef::parse(&text.value) else {
        field.refuse_text(text, "is no model", "write provider/model");
        return None;
    };
    let Some(provider) = providers.by_name.get(&model.provider) else {
        if providers.brought.has(&model.provider) {
            return Some(model);
        }
        field.refuse_text(
            text,
            "names a provider that is not configured",
            suggestion::instead_of(&model.provider, providers.by_name.keys().map(|name| &**name)),
        );
        return None;
    };
    match &provider.models {
        Some(listed) if provider.catalog.is_none() && !listed.contains(&model.model) => {
            let listed: Vec<String> = listed.iter().map(|name| format!("{}/{name}", provider.name)).collect();
            field.refuse_text(
                text,
                format!("is not in the `models` of provider {}", provider.name),
                suggestion::instead_of(&model.to_string(), listed.iter().map(String::as_str)),
            );
            None
        }
        Some(_) | None => Some(model),
    }
}
