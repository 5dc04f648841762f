//! The client's own body for a provider of Anthropic's format.
//!
//! It goes up as it came, but for thoughts that other makers sealed, or nobody: they came to the client through here, and
//! Anthropic refuses a signature that it did not write. A message that said nothing else goes with them, for Anthropic refuses
//! an empty one too.

use std::ops::Range;

use bytes::Bytes;
use memchr::memmem;
use understudy_messages::conversation::Seal;
use understudy_messages::request::RequestFacts;
use understudy_messages::settings::Api;

use crate::json::{Cursor, JsonError, JsonStr, Kind};
use crate::openai::chat;
use crate::splice::{Edit, splice};

/// The body for an upstream that is to answer as `model`. With nothing to change it is the same allocation. `facts` are
/// those of `body`.
pub(crate) fn for_model(body: &Bytes, facts: &RequestFacts, model: &str) -> Bytes {
    let body = chat::request::for_model(body, facts, model, false);
    let has_thoughts = |key: &str| memmem::find(&body, key.as_bytes()).is_some();
    if !has_thoughts("\"signature\"") && !has_thoughts("\"redacted_thinking\"") {
        return body;
    }
    let foreign = foreign(&body).unwrap_or_default();
    let edits: Vec<_> = foreign.into_iter().map(|span| Edit { span, text: b"" }).collect();
    splice(&body, &edits)
}

/// Where foreign thoughts stand, commas included.
fn foreign(body: &[u8]) -> Result<Vec<Range<usize>>, JsonError> {
    let (mut messages, mut spans) = (Pruned::default(), Vec::new());
    Cursor::new(body)?.object(|cursor, key| match &*key.decode() {
        "messages" => cursor.array(|cursor| {
            cursor.kind()?;
            let start = cursor.position();
            let mut blocks = Pruned::default();
            cursor.object(|cursor, key| match &*key.decode() {
                "content" => {
                    blocks = self::blocks(cursor)?;
                    Ok(())
                }
                _ => cursor.skip(),
            })?;
            let is_emptied = blocks.is_emptied();
            messages.element(start..cursor.position(), is_emptied);
            if !is_emptied {
                spans.extend(blocks.spans());
            }
            Ok(())
        }),
        _ => cursor.skip(),
    })?;
    spans.extend(messages.spans());
    spans.sort_unstable_by_key(|span| span.start);
    Ok(spans)
}

/// A list of which elements are taken out. One takes the comma before it along, and the first of all that behind it.
#[derive(Default)]
struct Pruned {
    spans: Vec<Range<usize>>,
    /// Whether an element stays.
    kept: bool,
    /// Where those begin that go before the first that stays.
    leading: Option<usize>,
    end: usize,
}

impl Pruned {
    fn element(&mut self, span: Range<usize>, goes: bool) {
        match (goes, self.kept) {
            (true, true) => self.spans.push(self.end..span.end),
            (true, false) => self.leading = self.leading.or(Some(span.start)),
            (false, _) => {
                self.spans
                    .extend(self.leading.take().map(|leading| leading..span.start));
                self.kept = true;
            }
        }
        self.end = span.end;
    }

    /// Whether there was something and nothing stays.
    fn is_emptied(&self) -> bool {
        self.leading.is_some()
    }

    fn spans(self) -> impl Iterator<Item = Range<usize>> {
        let all = self.leading.map(|leading| leading..self.end);
        self.spans.into_iter().chain(all)
    }
}

/// Goes through the blocks of one content.
fn blocks(cursor: &mut Cursor<'_>) -> Result<Pruned, JsonError> {
    let mut blocks = Pruned::default();
    cursor.array(|cursor| {
        let is_object = cursor.kind()? == Kind::Object;
        let start = cursor.position();
        let is_foreign = is_object && is_foreign(cursor)?;
        if !is_object {
            cursor.skip()?;
        }
        blocks.element(start..cursor.position(), is_foreign);
        Ok::<_, JsonError>(())
    })?;
    Ok(blocks)
}

fn is_foreign(cursor: &mut Cursor<'_>) -> Result<bool, JsonError> {
    let (mut kind, mut signature, mut data) = (None, None, None);
    cursor.object(|cursor, key| {
        match &*key.decode() {
            "type" => kind = cursor.text()?,
            "signature" => signature = cursor.text()?,
            "data" => data = cursor.text()?,
            _ => cursor.skip()?,
        }
        Ok::<_, JsonError>(())
    })?;
    let others = |seal: JsonStr<'_>| {
        Seal::from_format(Api::AnthropicMessages, false, &seal.decode()).maker != Api::AnthropicMessages
    };
    Ok(match kind.map(JsonStr::decode).as_deref() {
        Some("thinking") => signature.is_some_and(|seal| seal.is_empty() || others(seal)),
        Some("redacted_thinking") => data.is_some_and(others),
        Some(_) | None => false,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::anthropic::messages::request::scan;

    fn upstream(body: &str) -> String {
        let body = Bytes::copy_from_slice(body.as_bytes());
        let facts = scan(&body).expect("a good request");
        String::from_utf8(for_model(&body, &facts, "m").to_vec()).expect("text")
    }

    fn saying(blocks: &str) -> String {
        format!(
            r#"{{"model":"m", "messages":[{{"role":"assistant","content":[{blocks}]}} , {{"role":"user","content":"x"}}]}}"#
        )
    }

    const OWN: &str = r#"{"type":"thinking","thinking":"a","signature":"Eu\u0059:x"}"#;
    const OTHERS: &str = r#"{"signature":"openai-responses:gAAA","thinking":"b", "type":"thinking"}"#;
    const NOBODYS: &str = r#"{"type":"thinking","thinking":"c","signature":""}"#;
    const SECRET: &str = r#"{"type":"redacted_thinking","data":"gemini:x"}"#;
    const TEXT: &str = r#"{"type":"text","text":"d"}"#;

    #[test]
    fn thoughts_of_others_stay_here_and_the_rest_is_as_it_came() {
        for (blocks, kept) in [
            (format!("{OWN},{TEXT}"), format!("{OWN},{TEXT}")),
            (format!(" {OTHERS} , {TEXT}"), format!(" {TEXT}")),
            (format!("{TEXT} , {OTHERS} "), format!("{TEXT} ")),
            (
                format!("{OWN}, {NOBODYS} ,{SECRET},  {TEXT}"),
                format!("{OWN},  {TEXT}"),
            ),
            (format!("{SECRET},{TEXT},{OTHERS}"), TEXT.to_owned()),
        ] {
            assert_eq!(upstream(&saying(&blocks)), saying(&kept));
        }
    }

    #[test]
    fn a_message_of_such_thoughts_alone_goes_with_them() {
        let body = |messages: &str| format!(r#"{{"model":"m","messages":[{messages}]}}"#);
        let alone = format!(r#"{{"role":"assistant","content":[{OTHERS}, {NOBODYS}]}}"#);
        let user = r#"{"role":"user","content":"x"}"#;
        for (messages, kept) in [
            (format!("{user} , {alone} , {user}"), format!("{user} , {user}")),
            (format!("{alone}, {user}"), user.to_owned()),
            (format!("{user}, {alone} "), format!("{user} ")),
        ] {
            assert_eq!(upstream(&body(&messages)), body(&kept));
        }
    }

    #[test]
    fn without_thoughts_of_others_the_body_is_not_copied() {
        let body = Bytes::from(saying(&format!("{OWN},{TEXT}")));
        let facts = scan(&body).expect("good");
        assert_eq!(for_model(&body, &facts, "m").as_ptr(), body.as_ptr());
    }

    proptest! {
        #[test]
        fn what_is_left_is_json_without_them(
            picked in prop::collection::vec(prop::sample::select(vec![OWN, OTHERS, NOBODYS, SECRET, TEXT]), 0..7),
            comma in prop::sample::select(vec![",", " ,", ", ", "\n,\t"]),
        ) {
            let body: Value = serde_json::from_str(&upstream(&saying(&picked.join(comma)))).expect("JSON");
            let kept = picked.iter().filter(|block| [OWN, TEXT].contains(block));
            let kept: Vec<Value> = kept.map(|block| serde_json::from_str(block).expect("JSON")).collect();
            let messages = body["messages"].as_array().expect("a list");
            let said = messages.iter().find(|message| message["role"] == "assistant");
            let said = said.map(|said| said["content"].clone());
            let is_emptied = kept.is_empty() && !picked.is_empty();
            prop_assert_eq!(said, (!is_emptied).then_some(json!(kept)));
        }
    }
}
