//! User-side text: parts of the newest message in which the user says something.

use serde_json::json;
use understudy_messages::request::{Endpoint, Role};

use super::edits::Edits;
use super::request::{Request, Said, Value, elements, word};
use super::{Segments, given};
use crate::json::Kind;

pub(super) fn edit(request: &Request<'_>, segments: &Segments<'_>, edits: &mut Edits) {
    let (before, after) = (given(segments.before_user), given(segments.after_user));
    if before.or(after).is_none() {
        return;
    }
    let kind = match request.endpoint {
        Endpoint::Responses | Endpoint::Native => "input_text",
        Endpoint::Chat | Endpoint::Messages | Endpoint::CountTokens | Endpoint::Embeddings => "text",
    };
    let part = |text: &str| json!({ "type": kind, "text": text }).to_string();
    let (before, after) = (before.map(part), after.map(part));
    let conversation = request.member(request.conversation()).map(|member| &member.value);
    let newest = request.said.iter().rev().find_map(spoken);
    match (newest, conversation) {
        (Some(content), _) => around(content, before, after, kind, edits),
        // an input that is one text is made a list where system text goes in, else here
        (None, Some(text)) if text.kind == Kind::String => {
            around(text, before, after, kind, edits);
            if !wraps_input(segments) {
                edits.wrap(&text.span, "[{\"role\":\"user\",\"content\":".to_owned(), "}]");
            }
        }
        (None, Some(list)) if list.kind == Kind::Array && !request.said.is_empty() => {
            let parts: Vec<String> = before.into_iter().chain(after).collect();
            let message = format!("{{\"role\":\"user\",\"content\":[{}]}}", parts.join(","));
            edits.add_to(&list.span, false, &[message], true);
        }
        // nobody says anything: there is nothing to put it beside
        (None, Some(_) | None) => {}
    }
}

/// Whether system text makes a list of an input that is one text.
fn wraps_input(segments: &Segments<'_>) -> bool {
    let texts = [segments.before_system, segments.system_prompt, segments.after_system];
    texts.into_iter().any(|text| given(text).is_some())
}

/// The content of a user's message that says more than what tools returned.
fn spoken<'a, 'b>(said: &'b Said<'a>) -> Option<&'b Value<'a>> {
    let content = said.content.as_ref().filter(|_| said.role == Role::User)?;
    let of_tools = || elements(content).is_ok_and(|parts| !parts.is_empty() && parts.iter().all(is_tools));
    (content.kind == Kind::String || content.kind == Kind::Array && !of_tools()).then_some(content)
}

/// What a tool returned has to stand first in its message.
fn is_tools(part: &Value<'_>) -> bool {
    matches!(word(part, "type"), Ok(Some(kind)) if kind == "tool_result")
}

/// Puts parts around a content, which becomes a list where it is none.
fn around(content: &Value<'_>, before: Option<String>, after: Option<String>, kind: &str, edits: &mut Edits) {
    let span = &content.span;
    if content.kind == Kind::Array {
        let parts = elements(content).unwrap_or_default();
        let results = parts.iter().take_while(|part| is_tools(part)).last();
        match (results, before) {
            (Some(results), Some(before)) => edits.insert(results.span.end, format!(",{before}")),
            (None, before) if parts.is_empty() => {
                let all: Vec<String> = before.into_iter().chain(after).collect();
                return edits.add_to(span, true, &all, false);
            }
            (None, before) => edits.add_to(span, false, before.as_slice(), false),
            (Some(_), None) => {}
        }
        return edits.add_to(span, false, after.as_slice(), true);
    }
    let before = before.map(|part| part + ",").unwrap_or_default();
    let after = after.map(|part| format!(",{part}")).unwrap_or_default();
    if content.text == "\"\"" {
        let parts = format!("{before}{}", after.trim_start_matches(','));
        return edits.replace(span.clone(), format!("[{}]", parts.trim_end_matches(',')));
    }
    edits.insert(span.start, format!("[{before}{{\"type\":\"{kind}\",\"text\":"));
    edits.insert(span.end, format!("}}{after}]"));
}
