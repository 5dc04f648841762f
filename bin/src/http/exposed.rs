//! `/plugins/<id>/…`: requests that plugins answer.

use std::collections::BTreeMap;
use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::http::header::{HeaderMap, HeaderName, HeaderValue};
use actix_web::{HttpRequest, HttpResponse, web};
use tokio_util::sync::CancellationToken;
use understudy_actors::inventory::Routed;
use understudy_messages::origin::ORIGIN_HEADER;
use understudy_messages::plugin::CallError;
use understudy_messages::service::{CallRoute, LONGEST_BODY, RouteAnswer, RouteRequest};
use understudy_messages::terminal::TurnFailure;

use super::{body, edge, error};
use crate::app::Shared;

/// How long a plugin may take to answer.
const WAIT: Duration = Duration::from_secs(15);

/// What says who the client is: that is the gateway's to know.
const CREDENTIALS: [&str; 5] = [
    "authorization",
    "proxy-authorization",
    "x-api-key",
    "cookie",
    ORIGIN_HEADER,
];

/// What says how a response is sent: that is the gateway's to say.
const FRAMING: [&str; 8] = [
    "connection",
    "content-length",
    "date",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Hands a request to the plugin whose route it is, and its answer back.
pub(super) async fn call(shared: web::Data<Shared>, request: HttpRequest, payload: web::Payload) -> HttpResponse {
    match answer(&shared, &request, payload).await {
        Ok(answer) => respond(answer),
        Err(failure) => error::respond_at(request.path(), &failure),
    }
}

async fn answer(shared: &Shared, request: &HttpRequest, payload: web::Payload) -> Result<RouteAnswer, TurnFailure> {
    let (id, path) = place(request.path()).ok_or_else(unknown)?;
    // looked up before its body is read, and again after it: meanwhile the plugin may have been replaced
    routed(shared, id, path)?;
    let limit = LONGEST_BODY.min(shared.config.settings.limits.body);
    let body = body::read_up_to(shared, request, payload, limit).await?;
    let no_text = |_| {
        TurnFailure::ours(
            415,
            "body_no_text",
            "The body of a request to a plugin has to be UTF-8.",
        )
    };
    let (route, port) = routed(shared, id, path)?;
    // known by its name until it is answered
    let calling = shared.published.origins().call(id, edge::origin(request.headers()));
    let calling = calling.map_err(|_| nested())?;
    let cancel = CancellationToken::new();
    let _cancels_with_the_request = cancel.clone().drop_guard();
    let call = CallRoute {
        route,
        request: RouteRequest {
            method: request.method().to_string(),
            path: path.to_owned(),
            query: request.query_string().to_owned(),
            headers: passing(request.headers()),
            body: String::from_utf8(body.to_vec()).map_err(no_text)?,
            origin: Some(calling.origin()),
        },
        cancel,
    };
    let answered = shared.clock.timeout_at(shared.clock.now() + WAIT, port.send(call));
    match answered.await {
        Ok(Ok(answer)) => answer.map_err(|why| failed(id, &why)),
        Ok(Err(_mailbox)) => Err(stopped()),
        Err(_elapsed) => Err(failed(id, &CallError::TimedOut)),
    }
}

fn routed(shared: &Shared, id: &str, path: &str) -> Result<(String, actix::Recipient<CallRoute>), TurnFailure> {
    let serving = shared.published.load().ok_or_else(stopped)?;
    match serving.inventory.route(id, path) {
        Routed::To { route, port } => Ok((route, port)),
        Routed::Stopped => Err(stopped()),
        Routed::Unknown => Err(unknown()),
    }
}

/// The plugin's id, and the path below its own; `None` for one that could be read in two ways.
fn place(path: &str) -> Option<(&str, &str)> {
    let rest = path.strip_prefix("/plugins/")?;
    let (id, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let path = if path.is_empty() { "/" } else { path };
    let odd = |name: &str| {
        let name = name.to_ascii_lowercase().replace("%2e", ".");
        name == "." || name == ".." || name.contains("%2f") || name.contains("%5c")
    };
    (!id.is_empty() && !path.split('/').any(odd)).then_some((id, path))
}

fn passing(headers: &HeaderMap) -> BTreeMap<String, String> {
    let mut passing = BTreeMap::<String, String>::new();
    for (name, value) in headers {
        let Ok(value) = value.to_str() else { continue };
        if CREDENTIALS.contains(&name.as_str()) {
            continue;
        }
        passing
            .entry(name.as_str().to_owned())
            .and_modify(|known| *known = format!("{known}, {value}"))
            .or_insert_with(|| value.to_owned());
    }
    passing
}

fn respond(answer: RouteAnswer) -> HttpResponse {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::BAD_GATEWAY);
    let mut response = HttpResponse::build(status);
    for (name, value) in &answer.headers {
        let pair = (HeaderName::try_from(&**name), HeaderValue::from_str(value));
        if let (false, (Ok(name), Ok(value))) = (FRAMING.contains(&&**name), pair) {
            response.insert_header((name, value));
        }
    }
    response.body(answer.body)
}

fn nested() -> TurnFailure {
    let hint = "Plugins that ask the gateway from inside of calls have done so too deep. Ask from fewer calls.";
    TurnFailure::ours(400, "nested_too_deep", hint)
}

fn unknown() -> TurnFailure {
    TurnFailure::ours(404, "not_found", "No plugin answers this path.")
}

fn stopped() -> TurnFailure {
    let hint = "The plugin that answers this path does not serve at the moment. Try again in a second.";
    TurnFailure::ours(503, "plugin_unavailable", hint)
}

/// The plugin's words are for the log.
fn failed(id: &str, why: &CallError) -> TurnFailure {
    tracing::warn!(plugin = id, %why, "a plugin did not answer a request");
    match why {
        CallError::Gone | CallError::Cancelled => stopped(),
        CallError::TimedOut => TurnFailure::ours(504, "plugin_timeout", "The plugin did not answer in time."),
        CallError::Failed(_) | CallError::Invalid => TurnFailure::ours(
            502,
            "plugin_failed",
            "The plugin failed to answer: the gateway's log says why.",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_a_plugin_and_what_lies_below_it() {
        assert_eq!(place("/plugins/p"), Some(("p", "/")));
        assert_eq!(place("/plugins/p/a/b"), Some(("p", "/a/b")));
        for odd in ["/plugins/", "/plugins/p/../q", "/plugins/p/%2E./q", "/plugins/p/a%2fb"] {
            assert_eq!(place(odd), None, "{odd}");
        }
    }

    #[test]
    fn no_credential_reaches_a_plugin() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("authorization", "Bearer k"),
            ("x-api-key", "k"),
            (ORIGIN_HEADER, "k"),
            ("x-hook", "a"),
        ] {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        headers.append(HeaderName::from_static("x-hook"), HeaderValue::from_static("b"));
        let expected = BTreeMap::from([("x-hook".to_owned(), "a, b".to_owned())]);
        assert_eq!(passing(&headers), expected);
    }
}
