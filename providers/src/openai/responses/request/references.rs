//! Items by their ids: a request may name an item of an earlier answer instead of repeating it.

use std::ops::Range;

use bytes::Bytes;
use understudy_messages::ids::Name;
use understudy_messages::request::RequestFacts;

use crate::json::{Cursor, JsonError, JsonStr, Kind};
use crate::splice::{Edit, splice};

/// The items that were put in take more room than a request may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("with the items that it names, the request is too large")]
pub struct TooLarge;

/// One item of a list.
#[derive(Default)]
struct Listed {
    span: Range<usize>,
    id: Option<String>,
    /// Whether it is no more than its id.
    is_reference: bool,
}

/// The ids of items that stand in a list, separated by commas, and where each item stands in it.
pub fn identified(list: &str) -> Vec<(Name, Range<usize>)> {
    let items = listed(format!("[{list}]").as_bytes()).unwrap_or_default();
    let identified = items.into_iter().filter_map(|item| Some((item.id?, item.span)));
    // the bracket is ours
    identified
        .map(|(id, span)| (Name::from(id), span.start - 1..span.end - 1))
        .collect()
}

/// The body with the items themselves where their ids stand, as far as `find` knows them; `None` where there is nothing to
/// put in. `facts` are those of `body`.
///
/// # Errors
/// [`TooLarge`] when the body would be longer than `limit`.
pub fn dereference(
    body: &Bytes,
    facts: &RequestFacts,
    limit: usize,
    mut find: impl FnMut(&str) -> Option<String>,
) -> Result<Option<Bytes>, TooLarge> {
    let Some(responses) = facts.responses.as_ref().filter(|facts| !facts.input_is_text) else {
        return Ok(None);
    };
    let list = body.get(responses.input.clone()).unwrap_or_default();
    let mut found = Vec::new();
    let mut room = limit.saturating_sub(body.len());
    for item in listed(list).unwrap_or_default() {
        let id = item.id.filter(|_| item.is_reference);
        let Some(text) = id.and_then(|id| find(&id)) else {
            continue;
        };
        room = room.checked_sub(text.len()).ok_or(TooLarge)?;
        found.push((item.span, text));
    }
    let base = responses.input.start;
    let edits: Vec<Edit<'_>> = found
        .iter()
        .map(|(span, text)| Edit {
            span: base + span.start..base + span.end,
            text: text.as_bytes(),
        })
        .collect();
    Ok((!edits.is_empty()).then(|| splice(body, &edits)))
}

fn listed(list: &[u8]) -> Result<Vec<Listed>, JsonError> {
    let mut items = Vec::new();
    let mut cursor = Cursor::new(list)?;
    cursor.array(|cursor| {
        if cursor.kind()? == Kind::Object {
            items.push(item(cursor)?);
            return Ok(());
        }
        cursor.skip()
    })?;
    Ok(items)
}

fn item(cursor: &mut Cursor<'_>) -> Result<Listed, JsonError> {
    let (mut kind, mut id, mut has_role) = (None, None, false);
    let start = cursor.position();
    cursor.object(|cursor, key| {
        match &*key.decode() {
            "type" => kind = cursor.text()?.map(JsonStr::decode),
            "id" => id = cursor.text()?.map(|id| id.decode().into_owned()),
            name => {
                has_role |= name == "role";
                cursor.skip()?;
            }
        }
        Ok(())
    })?;
    Ok(Listed {
        span: start..cursor.position(),
        id,
        is_reference: match kind.as_deref() {
            Some(kind) => kind == "item_reference",
            None => !has_role,
        },
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::scan;
    use super::*;

    fn put(body: &str, limit: usize) -> Result<Option<String>, TooLarge> {
        let body = Bytes::copy_from_slice(body.as_bytes());
        let facts = scan(&body).expect("is a request");
        let find = |id: &str| id.starts_with("known").then(|| format!("{{\"item\":\"{id}\"}}"));
        let put = dereference(&body, &facts, limit, find)?;
        Ok(put.map(|body| String::from_utf8_lossy(&body).into_owned()))
    }

    #[test]
    fn an_item_stands_where_its_id_stood_and_the_rest_stays() {
        let body = r#"{"model":"m", "input": [ {"role":"user","id":"known-0","content":"x"}, {"type":"item_reference","id":"known-1"},
            {"id":"known-2"},{"type":"item_reference","id":"lost"}, {"type":"message","id":"known-3","role":"user","content":"y"} ],"x":1}"#;
        let expected = body
            .replace(r#"{"type":"item_reference","id":"known-1"}"#, r#"{"item":"known-1"}"#)
            .replace(r#"{"id":"known-2"}"#, r#"{"item":"known-2"}"#);
        assert_eq!(put(body, 1000), Ok(Some(expected)));
    }

    #[test]
    fn without_anything_to_put_in_there_is_no_other_body() {
        for input in [
            r#""known-1""#,
            r#"[{"id":"lost"}]"#,
            r#"[{"role":"user","content":"x"}]"#,
        ] {
            assert_eq!(put(&format!(r#"{{"model":"m","input":{input}}}"#), 1000), Ok(None));
        }
    }

    #[test]
    fn what_is_put_in_is_bounded_as_the_request_is() {
        let body = r#"{"model":"m","input":[{"id":"known-1"},{"id":"known-1"}]}"#;
        assert!(put(body, body.len() + 36).is_ok());
        assert_eq!(put(body, body.len() + 35), Err(TooLarge));
    }

    #[test]
    fn items_of_an_answer_are_found_by_their_ids() {
        let list = r#"{"id":"a","type":"reasoning"}, {"type":"message"} ,{"type":"message","id":"b"}"#;
        let found: Vec<_> = identified(list)
            .into_iter()
            .map(|(id, span)| (id.to_string(), &list[span]))
            .collect();
        assert_eq!(
            found,
            [
                ("a".to_owned(), r#"{"id":"a","type":"reasoning"}"#),
                ("b".to_owned(), r#"{"type":"message","id":"b"}"#),
            ]
        );
        assert!(identified("").is_empty() && identified("{").is_empty());
    }

    proptest! {
        #[test]
        fn random_lists_never_panic(list in ".{0,80}") {
            let _whatever = identified(&list);
        }
    }
}
