//! System text: before the client's own, after it, or in its place.

use serde_json::{Value as Json, json};
use understudy_messages::request::Role;

use super::edits::Edits;
use super::request::{Request, Said};
use super::{Segments, given};
use crate::json::Kind;

pub(super) fn edit(request: &Request<'_>, segments: &Segments<'_>, edits: &mut Edits) {
    let [before, instead, after] = [segments.before_system, segments.system_prompt, segments.after_system].map(given);
    if before.or(instead).or(after).is_none() {
        return;
    }
    let words = Words { before, instead, after };
    match request.has_system_member() {
        true => words.into_member(request, edits),
        false => words.into_messages(request, edits),
    }
}

#[derive(Clone, Copy)]
struct Words<'a> {
    before: Option<&'a str>,
    instead: Option<&'a str>,
    after: Option<&'a str>,
}

impl Words<'_> {
    /// Anthropic's `system`: a text or a list of blocks.
    fn into_member(self, request: &Request<'_>, edits: &mut Edits) {
        let block = |text: &str| json!({ "type": "text", "text": text }).to_string();
        let all = || [self.before, self.instead, self.after].into_iter().flatten().map(block);
        let list = |blocks: Vec<String>| format!("[{}]", blocks.join(","));
        let Some(member) = request.member("system") else {
            // one that is null is replaced with its name
            if let Some(null) = request.members.iter().find(|member| member.name == "system") {
                return edits.replace(null.value.span.clone(), list(all().collect()));
            }
            let comma = if request.members.is_empty() { "" } else { "," };
            return edits.insert(request.inside, format!("\"system\":{}{comma}", list(all().collect())));
        };
        let (own, before) = (&member.value, self.before.map(block));
        let after = self.after.map(block);
        match own.kind {
            _ if self.instead.is_some() => edits.replace(own.span.clone(), list(all().collect())),
            Kind::Array => {
                let is_empty = own.text[1..own.text.len() - 1].trim().is_empty();
                if is_empty {
                    return edits.replace(own.span.clone(), list(all().collect()));
                }
                edits.add_to(&own.span, false, before.as_slice(), false);
                edits.add_to(&own.span, false, after.as_slice(), true);
            }
            Kind::String if own.text == "\"\"" => edits.replace(own.span.clone(), list(all().collect())),
            _ => {
                let before = before.map(|block| block + ",").unwrap_or_default();
                let after = after.map(|block| format!(",{block}")).unwrap_or_default();
                edits.insert(own.span.start, format!("[{before}{{\"type\":\"text\",\"text\":"));
                edits.insert(own.span.end, format!("}}{after}]"));
            }
        }
    }

    /// Messages of their own among those that lead.
    fn into_messages(self, request: &Request<'_>, edits: &mut Edits) {
        let is_systems = |said: &&Said<'_>| matches!(said.role, Role::System | Role::Developer);
        let leading = request.said.iter().take_while(is_systems).count();
        let role = match request.said.first().map(|said| said.role) {
            Some(Role::Developer) => "developer",
            Some(_) | None => "system",
        };
        let message = |text: &str| json!({ "role": role, "content": text }).to_string();
        let [before, instead, after] = [self.before, self.instead, self.after].map(|text| text.map(message));
        let all: Vec<String> = [&before, &instead, &after].into_iter().flatten().cloned().collect();
        if instead.is_some()
            && let Some(instructions) = request.member("instructions")
        {
            edits.remove(request.with_comma(instructions));
        }
        let Some(conversation) = request.member(request.conversation()) else {
            return absent(request, &all, edits);
        };
        let span = &conversation.value.span;
        if conversation.value.kind == Kind::String {
            let before = format!("[{},{{\"role\":\"user\",\"content\":", all.join(","));
            return edits.wrap(span, before, "}]");
        }
        let own = request
            .said
            .get(..leading)
            .and_then(|own| Some((own.first()?, own.last()?)));
        match own {
            None => edits.add_to(span, request.said.is_empty(), &all, false),
            Some((first, last)) if instead.is_some() => {
                edits.replace(first.span.start..last.span.end, all.join(","));
            }
            Some((first, last)) => {
                if let Some(before) = before {
                    edits.insert(first.span.start, before + ",");
                }
                if let Some(after) = after {
                    edits.insert(last.span.end, format!(",{after}"));
                }
            }
        }
    }
}

/// A Responses request that goes on from a conversation of the provider's and adds nothing to it.
fn absent(request: &Request<'_>, messages: &[String], edits: &mut Edits) {
    let list = format!("[{}]", messages.join(","));
    let null = request
        .members
        .iter()
        .find(|member| member.name == request.conversation());
    match null {
        Some(null) => edits.replace(null.value.span.clone(), list),
        None => {
            let comma = if request.members.is_empty() { "" } else { "," };
            let name = Json::from(request.conversation());
            edits.insert(request.inside, format!("{name}:{list}{comma}"));
        }
    }
}
