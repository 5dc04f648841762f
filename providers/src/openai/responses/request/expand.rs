//! A request that goes on from an earlier response, as one that stands for itself.

use bytes::Bytes;
use understudy_messages::request::RequestFacts;

use crate::splice::{Edit, splice};

/// The items of a request, separated by commas: a text is what the user says. `facts` are those of `body`.
pub fn own_items(body: &Bytes, facts: &RequestFacts) -> String {
    let Some(responses) = &facts.responses else {
        return String::new();
    };
    let value = body.get(responses.input.clone()).unwrap_or_default();
    let value = String::from_utf8_lossy(value);
    if responses.input_is_text && facts.messages.count > 0 {
        return format!(r#"{{"type":"message","role":"user","content":{value}}}"#);
    }
    let list = value.strip_prefix('[').and_then(|list| list.strip_suffix(']'));
    list.unwrap_or_default().trim().to_owned()
}

/// The body with these lists of items before its own, and without the member that stood for them; the rest as it came.
pub fn expand(body: &Bytes, facts: &RequestFacts, history: &[&str]) -> Bytes {
    let Some(responses) = &facts.responses else {
        return body.clone();
    };
    let own = own_items(body, facts);
    let items = history.iter().copied().chain(Some(&*own).filter(|own| !own.is_empty()));
    let items = items.collect::<Vec<_>>().join(",");
    let input = match responses.input.is_empty() {
        true => format!("\"input\":[{items}],"),
        false => format!("[{items}]"),
    };
    let mut edits = vec![Edit {
        span: responses.input.clone(),
        text: input.as_bytes(),
    }];
    edits.extend(responses.previous_span.clone().map(|span| Edit { span, text: b"" }));
    edits.sort_unstable_by_key(|edit| (edit.span.start, edit.span.end));
    splice(body, &edits)
}
