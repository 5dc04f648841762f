//! `GET /v1/models`: every name that a request may ask for, in OpenAI's form, or in Anthropic's for its SDKs.

use actix_web::http::header::HeaderMap;
use actix_web::{HttpRequest, HttpResponse, web};
use serde::{Deserialize, Serialize};
use understudy_messages::request::Endpoint;
use understudy_messages::terminal::TurnFailure;

use super::error;
use crate::app::Shared;

#[derive(Serialize)]
struct List<'a> {
    object: &'static str,
    data: &'a [Model],
    /// OpenAI's own list has no pages: it is told only to those who ask for one that is not the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    has_more: Option<bool>,
}

#[derive(Serialize)]
struct Model {
    id: String,
    object: &'static str,
    created: u64,
    owned_by: String,
}

/// As Anthropic lists them.
#[derive(Serialize)]
struct Page<'a> {
    data: Vec<Named<'a>>,
    has_more: bool,
    first_id: Option<&'a str>,
    last_id: Option<&'a str>,
}

#[derive(Serialize)]
struct Named<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    id: &'a str,
    display_name: &'a str,
    /// The epoch: Anthropic's word for an unknown date.
    created_at: &'static str,
}

impl<'a> Named<'a> {
    fn of(model: &'a Model) -> Self {
        Self {
            kind: "model",
            id: &model.id,
            display_name: &model.id,
            created_at: "1970-01-01T00:00:00Z",
        }
    }
}

/// Whether one of Anthropic's SDKs asks: they name the version that they speak.
fn is_anthropics(headers: &HeaderMap) -> bool {
    headers.contains_key("anthropic-version")
}

/// All that serve now. While a reload replaces a plugin, what that lists is waited for as long as the client does.
async fn models(shared: &Shared) -> Vec<Model> {
    let serving = shared.published.listed().await;
    let names = serving.map_or_else(Vec::new, |serving| serving.roster.names());
    let model = |(id, owned_by)| Model {
        id,
        object: "model",
        created: shared.started,
        owned_by,
    };
    names.into_iter().map(model).collect()
}

/// Which of them: all, unless the client asks for pages. `after` is OpenAI's word, the longer ones are Anthropic's.
#[derive(Debug, Default, Deserialize)]
struct Paging {
    limit: Option<usize>,
    #[serde(alias = "after_id")]
    after: Option<String>,
    before_id: Option<String>,
}

impl Paging {
    /// The page, and whether there are more in the direction in which the client reads. `None` where it names no model.
    fn page<'a>(&self, models: &'a [Model]) -> Option<(&'a [Model], bool)> {
        let place = |id: &String| models.iter().position(|model| model.id == *id);
        let limit = self.limit.unwrap_or(models.len());
        if let Some(before) = &self.before_id {
            let end = place(before)?;
            let start = end.saturating_sub(limit);
            return Some((models.get(start..end)?, start > 0));
        }
        let start = match &self.after {
            Some(after) => place(after)? + 1,
            None => 0,
        };
        let end = start.saturating_add(limit).min(models.len());
        Some((models.get(start..end)?, end < models.len()))
    }
}

/// All of them, or a page.
pub(super) async fn list(shared: web::Data<Shared>, request: HttpRequest) -> HttpResponse {
    let anthropics = is_anthropics(request.headers());
    let models = models(&shared).await;
    let paging = web::Query::<Paging>::from_query(request.query_string()).ok();
    let paging = paging.filter(|paging| paging.limit != Some(0));
    let Some((page, has_more)) = paging.and_then(|paging| paging.page(&models)) else {
        let hint = "`limit` is a number from 1; `after`, `after_id` and `before_id` are ids of this list.";
        return error::respond(
            asked_as(anthropics),
            &TurnFailure::ours(400, "invalid_request", hint),
            None,
        );
    };
    if anthropics {
        return HttpResponse::Ok().json(Page {
            data: page.iter().map(Named::of).collect(),
            has_more,
            first_id: page.first().map(|model| &*model.id),
            last_id: page.last().map(|model| &*model.id),
        });
    }
    HttpResponse::Ok().json(List {
        object: "list",
        data: page,
        has_more: has_more.then_some(true),
    })
}

/// The format in which a client is told what is wrong.
const fn asked_as(anthropics: bool) -> Endpoint {
    match anthropics {
        true => Endpoint::Messages,
        false => Endpoint::Chat,
    }
}

/// One of them; its name may contain slashes.
pub(super) async fn get(shared: web::Data<Shared>, id: web::Path<String>, request: HttpRequest) -> HttpResponse {
    let anthropics = is_anthropics(request.headers());
    match models(&shared).await.into_iter().find(|model| model.id == *id) {
        Some(model) if anthropics => HttpResponse::Ok().json(Named::of(&model)),
        Some(model) => HttpResponse::Ok().json(model),
        None => {
            let hint = "No model, alias or agent of this name is configured or listed. GET /v1/models lists them.";
            error::respond(
                asked_as(anthropics),
                &TurnFailure::ours(404, "model_not_found", hint),
                Some("model"),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn models() -> Vec<Model> {
        let model = |id: &str| Model {
            id: id.to_owned(),
            object: "model",
            created: 0,
            owned_by: String::new(),
        };
        ["a", "b", "c", "d"].map(model).into()
    }

    /// The ids of a page, and whether there are more.
    fn page(query: &str) -> Option<(String, bool)> {
        let paging = web::Query::<Paging>::from_query(query).expect("a query");
        let models = models();
        let (page, has_more) = paging.page(&models)?;
        Some((page.iter().map(|model| &*model.id).collect(), has_more))
    }

    #[test]
    fn pages_go_on_from_either_end() {
        for (query, ids, has_more) in [
            ("", "abcd", false),
            ("limit=9", "abcd", false),
            ("limit=2", "ab", true),
            ("limit=2&after=b", "cd", false),
            ("limit=1&after_id=b", "c", true),
            ("after=d", "", false),
            ("limit=2&before_id=d", "bc", true),
            ("limit=2&before_id=b", "a", false),
            ("client_version=1", "abcd", false),
        ] {
            assert_eq!(page(query), Some((ids.to_owned(), has_more)), "{query}");
        }
        assert_eq!(page("after=nobody"), None);
        assert_eq!(page("before_id=nobody"), None);
    }
}
