//! One page of a list of models, in each wire format. Pure.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use understudy_messages::catalog::{CatalogError, CatalogModel, Listing};
use understudy_messages::ids::Name;
use understudy_messages::settings::Api;

/// As many models as a page may have where a format has pages.
const PAGE: &str = "1000";
/// The longest mark of a next page.
const LONGEST_MARK: usize = 4096;

/// The query of the page behind `after`.
pub(super) fn query(api: Api, after: Option<&str>) -> Vec<(&'static str, &str)> {
    let (size, mark) = match api {
        Api::OpenaiChat | Api::OpenaiResponses => (None, "after"),
        Api::AnthropicMessages => (Some(("limit", PAGE)), "after_id"),
        Api::Gemini => (Some(("pageSize", PAGE)), "pageToken"),
    };
    size.into_iter().chain(after.map(|after| (mark, after))).collect()
}

/// Adds a page's models to `listing`; where the next page begins, if there is one. An entry that cannot be read is counted.
pub(super) fn read(
    api: Api,
    provider: &Name,
    body: &[u8],
    listing: &mut Listing,
) -> Result<Option<String>, CatalogError> {
    let page = Page::of(body).ok_or(CatalogError::NoList)?;
    let entries = match api {
        Api::OpenaiChat | Api::OpenaiResponses | Api::AnthropicMessages => page.data,
        Api::Gemini => page.models,
    };
    for entry in entries.ok_or(CatalogError::NoList)? {
        let read: Option<Entry> = serde_json::from_str(entry.get()).ok();
        if read.as_ref().is_some_and(Entry::answers_nothing) {
            continue;
        }
        match read.and_then(|entry| entry.model(api, provider)) {
            Some(model) => {
                // past the bound the list says that it is cut
                let _is_cut = listing.add(model);
            }
            None => listing.skipped += 1,
        }
    }
    let next = match api {
        Api::OpenaiChat | Api::OpenaiResponses | Api::AnthropicMessages => {
            let has_more = page.has_more == Some(true);
            listing.cut |= has_more && page.last_id.is_none();
            page.last_id.filter(|_| has_more)
        }
        Api::Gemini => page.next_page_token,
    };
    Ok(next.filter(|mark| !mark.is_empty() && mark.len() <= LONGEST_MARK))
}

#[derive(Default, Deserialize)]
struct Page<'a> {
    #[serde(borrow)]
    data: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    models: Option<Vec<&'a RawValue>>,
    has_more: Option<bool>,
    last_id: Option<String>,
    #[serde(rename = "nextPageToken")]
    next_page_token: Option<String>,
}

impl<'a> Page<'a> {
    /// A page; some who speak OpenAI's format send the bare list.
    fn of(body: &'a [u8]) -> Option<Self> {
        if body.trim_ascii_start().starts_with(b"[") {
            let data = serde_json::from_slice(body).ok()?;
            return Some(Self {
                data: Some(data),
                ..Self::default()
            });
        }
        serde_json::from_slice(body).ok()
    }
}

/// What providers say of a model; its window goes by many names.
#[derive(Deserialize)]
struct Entry {
    id: Option<String>,
    name: Option<String>,
    owned_by: Option<String>,
    context_length: Option<Value>,
    context_window: Option<Value>,
    max_context_length: Option<Value>,
    max_model_len: Option<Value>,
    max_input_tokens: Option<Value>,
    #[serde(rename = "inputTokenLimit")]
    input_token_limit: Option<Value>,
    #[serde(rename = "supportedGenerationMethods")]
    methods: Option<Vec<String>>,
}

impl Entry {
    /// Whether it is there for something else than answers.
    fn answers_nothing(&self) -> bool {
        let methods = self.methods.as_ref();
        methods.is_some_and(|methods| methods.iter().all(|method| method != "generateContent"))
    }

    fn model(self, api: Api, provider: &Name) -> Option<CatalogModel> {
        let windows = [
            &self.context_length,
            &self.context_window,
            &self.max_context_length,
            &self.max_model_len,
            &self.max_input_tokens,
            &self.input_token_limit,
        ];
        let context = windows.into_iter().flatten().find_map(tokens);
        let id = match api {
            Api::OpenaiChat | Api::OpenaiResponses | Api::AnthropicMessages => self.id?,
            Api::Gemini => self.name?,
        };
        // Google lists its models by a path and is asked for them by the name at its end
        let is_path = api == Api::Gemini || self.owned_by.as_deref() == Some("google");
        let named = id.strip_prefix("models/").filter(|_| is_path);
        CatalogModel::new(provider, named.unwrap_or(&id), context)
    }
}

/// A number of tokens, however it is written.
fn tokens(value: &Value) -> Option<u64> {
    let text = value.as_str().and_then(|text| text.parse().ok());
    value.as_u64().or(text).filter(|tokens| *tokens > 0)
}
