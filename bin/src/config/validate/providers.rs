//! `providers`: who is asked, where, and with which credentials.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use reqwest::Url;
use secrecy::SecretString;
use understudy_messages::ids::{ModelRef, Name};
use understudy_messages::settings::{Api, KeyOrder, ProviderSettings};

use super::models::check_name;
use crate::config::field::{Field, Section, Text};

/// The section `providers`, read. Providers with problems are in it, so that references to them still resolve.
#[derive(Default)]
pub(super) struct Providers {
    pub(super) by_name: BTreeMap<Name, Arc<ProviderSettings>>,
    /// The listed model that stands first in the document.
    pub(super) first_model: Option<ModelRef>,
}

/// Providers known by name: what need not be written for them.
const WELL_KNOWN: [(&str, Api, &str); 1] = [("openai", Api::OpenaiChat, "https://api.openai.com/v1")];

pub(super) fn providers(field: &Field<'_>) -> Providers {
    let entries = field.entries();
    if entries.is_empty() && (field.is_absent() || field.is_section()) {
        field.refuse(
            "names no provider",
            "add one: `openai: { api_key: \"${OPENAI_API_KEY}\" }`",
        );
    }
    let mut providers = Providers::default();
    for (name, entry) in entries {
        check_name(&name, &entry);
        let settings = provider(name.clone(), &entry);
        if let Some(model) = settings.models.iter().flatten().next() {
            let model = ModelRef::new(name.clone(), model.clone());
            providers.first_model.get_or_insert(model);
        }
        providers.by_name.insert(name, Arc::new(settings));
    }
    providers
}

fn provider(name: Name, field: &Field<'_>) -> ProviderSettings {
    let known = WELL_KNOWN.iter().find(|(known, ..)| **known == *name);
    let mut settings = ProviderSettings {
        name,
        api: Api::OpenaiChat,
        base_url: String::new(),
        api_keys: Vec::new(),
        models: None,
        aggregator: false,
        quota_group: None,
        key_order: KeyOrder::default(),
        ask_usage: false,
    };
    field.section(|keys| {
        let (api_field, base_url) = (keys.key("api"), keys.key("base_url"));
        let api = read_api(&api_field, known.map(|(_, api, _)| *api));
        settings.api = api.unwrap_or(settings.api);
        let format_refused = api.is_none() && !api_field.is_absent();
        settings.base_url = match known {
            Some((_, _, url)) if base_url.is_absent() => (*url).to_owned(),
            // a format to come may need no address
            None if base_url.is_absent() && format_refused => String::new(),
            Some(_) | None => read_base_url(&base_url).unwrap_or_default(),
        };
        let vendor_itself = known.is_some() && base_url.is_absent();
        settings.api_keys = api_keys(keys, vendor_itself);
        settings.models = listed_models(&keys.key("models"));
        settings.aggregator = keys.key("aggregator").flag().unwrap_or_default();
        settings.quota_group = quota_group(&keys.key("quota_group"));
        settings.key_order = keys.key("key_order").choice().unwrap_or_default();
        settings.ask_usage = keys.key("ask_usage").flag().unwrap_or_default();
    });
    settings
}

fn read_api(field: &Field<'_>, known: Option<Api>) -> Option<Api> {
    if field.is_absent() && known.is_none() {
        field.refuse("is missing", "name the wire format: openai-chat");
    }
    field.choice().or(known)
}

fn read_base_url(field: &Field<'_>) -> Option<String> {
    const FIX: &str = "write the address that comes before `/chat/completions`: https://api.example.com/v1";
    let text = field.required_text(FIX)?;
    // never shown: what stands before an @ or after a ? may be a credential
    if text.value.contains(['@', '?', '#']) {
        field.refuse(
            "has a user, a query or a fragment in it",
            "keep the plain address here, and the credential in `api_key`",
        );
        return None;
    }
    match Url::parse(&text.value) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => Some(url.as_str().trim_end_matches('/').to_owned()),
        Ok(_) | Err(_) => {
            field.refuse_text(&text, "is no http or https address", FIX);
            None
        }
    }
}

/// A vendor that is known by name answers nobody without a key; a server of one's own may.
fn api_keys(keys: &mut Section<'_>, needed: bool) -> Vec<SecretString> {
    let (one, many) = (keys.key("api_key"), keys.key("api_keys"));
    if needed && one.is_absent() && many.is_absent() {
        one.refuse("is missing", "write the key here: \"${OPENAI_API_KEY}\"");
    }
    if !one.is_absent() && !many.is_absent() {
        many.refuse("stands beside `api_key`", "keep one of them: `api_keys` is the list");
    }
    one.secret().into_iter().chain(super::secrets(&many)).collect()
}

fn quota_group(field: &Field<'_>) -> Option<Name> {
    if field.is_absent() {
        return None;
    }
    let text = field.required_text("name the account that the members draw on, or remove the key")?;
    Some(Name::from(&*text.value))
}

fn listed_models(field: &Field<'_>) -> Option<Vec<Name>> {
    let items = field.items();
    if items.is_empty() {
        if field.is_list() {
            field.refuse("lists no model", "add a model, or remove the key");
        }
        return None;
    }
    let mut seen = BTreeSet::new();
    let mut model = |item: &Field<'_>| {
        let text = item.required_text("write the model's name")?;
        let name = Name::from(&*text.value);
        refuse_repeated(item, &text, seen.insert(name.clone()));
        Some(name)
    };
    Some(items.iter().filter_map(&mut model).collect())
}

/// Notes that a list has `text` twice, unless it is new.
pub(super) fn refuse_repeated(item: &Field<'_>, text: &Text, is_new: bool) {
    if !is_new {
        item.refuse_text(text, "is listed twice", "remove one of the two");
    }
}
