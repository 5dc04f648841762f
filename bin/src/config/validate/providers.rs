//! `providers`: who is asked, where, and with which credentials.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use secrecy::SecretString;
use understudy_messages::ids::{ModelRef, Name};
use understudy_messages::settings::{Api, ProviderSettings};

use super::brought::Brought;
use super::models::check_name;
use crate::config::field::{Field, Section, Text};
use crate::config::words::Words;

/// The section `providers`, read. Providers with problems are in it, so that references to them still resolve.
#[derive(Default)]
pub(super) struct Providers {
    pub(super) by_name: BTreeMap<Name, Arc<ProviderSettings>>,
    /// The listed model that stands first in the document.
    pub(super) first_model: Option<ModelRef>,
    /// Those that plugins bring.
    pub(super) brought: Brought,
}

/// A provider known by name: what need not be written for it.
struct Vendor {
    name: &'static str,
    api: Api,
    /// The variable that its own clients read the key from.
    key: &'static str,
    /// Where each of the formats that it speaks is spoken.
    addresses: &'static [(Api, &'static str)],
}

const VENDORS: [Vendor; 3] = [
    Vendor {
        name: "openai",
        api: Api::OpenaiChat,
        key: "OPENAI_API_KEY",
        addresses: &[
            (Api::OpenaiChat, "https://api.openai.com/v1"),
            (Api::OpenaiResponses, "https://api.openai.com/v1"),
        ],
    },
    Vendor {
        name: "anthropic",
        api: Api::AnthropicMessages,
        key: "ANTHROPIC_API_KEY",
        addresses: &[
            (Api::AnthropicMessages, "https://api.anthropic.com/v1"),
            (Api::OpenaiChat, "https://api.anthropic.com/v1"),
        ],
    },
    Vendor {
        name: "gemini",
        api: Api::Gemini,
        key: "GEMINI_API_KEY",
        addresses: &[
            (Api::Gemini, "https://generativelanguage.googleapis.com/v1beta"),
            (
                Api::OpenaiChat,
                "https://generativelanguage.googleapis.com/v1beta/openai",
            ),
        ],
    },
];

impl Vendor {
    fn address(&self, api: Api) -> Option<&'static str> {
        let (_, address) = self.addresses.iter().find(|(spoken, _)| *spoken == api)?;
        Some(address)
    }
}

pub(super) fn providers(field: &Field<'_>, brought: Brought) -> Providers {
    let entries = field.entries();
    if entries.is_empty() && (field.is_absent() || field.is_section()) && brought.is_empty() {
        field.refuse(
            "names no provider",
            "add one: `openai: { api_key: \"${OPENAI_API_KEY}\" }`",
        );
    }
    let mut providers = Providers {
        brought,
        ..Providers::default()
    };
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
    let vendor = VENDORS.iter().find(|vendor| *vendor.name == *name);
    let mut settings = ProviderSettings::new(name, Api::OpenaiChat, String::new());
    field.section(|keys| {
        settings.api = read_api(&keys.key("api"), vendor).unwrap_or(settings.api);
        let base_url = keys.key("base_url");
        let known = vendor.and_then(|vendor| vendor.address(settings.api));
        settings.base_url = match known {
            Some(address) if base_url.is_absent() => address.to_owned(),
            Some(_) | None => read_base_url(&base_url, settings.api).unwrap_or_default(),
        };
        // a vendor answers nobody without a key; a server of one's own may
        settings.api_keys = api_keys(keys, vendor.filter(|_| base_url.is_absent()));
        settings.models = listed_models(&keys.key("models"));
        settings.aggregator = keys.key("aggregator").flag().unwrap_or_default();
        settings.quota_group = quota_group(&keys.key("quota_group"));
        settings.key_order = keys.key("key_order").choice().unwrap_or_default();
        settings.ask_usage = keys.key("ask_usage").flag().unwrap_or_default();
        settings.catalog = catalog(&keys.key("catalog"));
    });
    settings
}

fn read_api(field: &Field<'_>, vendor: Option<&Vendor>) -> Option<Api> {
    if field.is_absent() && vendor.is_none() {
        let words: Vec<&str> = Api::WORDS.iter().map(|(word, _)| *word).collect();
        field.refuse("is missing", format!("name the wire format: {}", words.join(", ")));
    }
    field.choice().or(vendor.map(|vendor| vendor.api))
}

/// How the address of a provider that speaks `api` is written.
const fn base_url_fix(api: Api) -> &'static str {
    match api {
        Api::OpenaiChat => "write the address that comes before `/chat/completions`: https://api.example.com/v1",
        Api::OpenaiResponses => "write the address that comes before `/responses`: https://api.example.com/v1",
        Api::AnthropicMessages => "write the address that comes before `/messages`: https://api.example.com/v1",
        Api::Gemini => "write the address that comes before `/models`: https://api.example.com/v1beta",
    }
}

fn read_base_url(field: &Field<'_>, api: Api) -> Option<String> {
    let fix = base_url_fix(api);
    let text = field.required_text(fix)?;
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
            field.refuse_text(&text, "is no http or https address", fix);
            None
        }
    }
}

/// The credentials; `asks` is who answers nobody without one.
fn api_keys(keys: &mut Section<'_>, asks: Option<&Vendor>) -> Vec<SecretString> {
    let (one, many) = (keys.key("api_key"), keys.key("api_keys"));
    if let Some(vendor) = asks.filter(|_| one.is_absent() && many.is_absent()) {
        one.refuse("is missing", format!("write the key here: \"${{{}}}\"", vendor.key));
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

/// How long a list of models is good where nothing else is written.
const CATALOG_GOOD_FOR: Duration = Duration::from_secs(60 * 60);
/// No provider is asked for its list more often.
const CATALOG_LEAST: Duration = Duration::from_secs(60);

/// How long the provider's own list of its models is good; `None`: it is not asked for one.
fn catalog(field: &Field<'_>) -> Option<Duration> {
    if !field.is_section() {
        let wanted = !field.is_absent() && field.flag().unwrap_or_default();
        return wanted.then_some(CATALOG_GOOD_FOR);
    }
    let mut good_for = CATALOG_GOOD_FOR;
    field.section(|keys| {
        let refresh = keys.key("refresh");
        good_for = refresh.duration().unwrap_or(good_for);
        if good_for < CATALOG_LEAST {
            refresh.refuse("is less than a minute", "write 1m or more");
        }
    });
    Some(good_for)
}

/// Notes that a list has `text` twice, unless it is new.
pub(super) fn refuse_repeated(item: &Field<'_>, text: &Text, is_new: bool) {
    if !is_new {
        item.refuse_text(text, "is listed twice", "remove one of the two");
    }
}
