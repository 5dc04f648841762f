//! A turn as a client asks for it, and with what its session remembers.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use understudy_messages::conversation::Speaker;
use understudy_messages::request::{Demand, RequestFacts};
use understudy_messages::tools::ToolSpec;

use super::items;
use crate::json::members::string;
use crate::json::{Cursor, JsonError, Kind};
use crate::openai::responses::request as responses;
use crate::request_error::RequestError;
use crate::splice::{Edit, splice};

/// What a turn may say of itself.
const KNOWN: [&str; 8] = [
    "input",
    "model",
    "fallbacks",
    "instructions",
    "max_output_tokens",
    "temperature",
    "reasoning",
    "stream",
];
/// What the choice of a model may say.
const KNOWN_OF_A_CHOICE: [&str; 1] = ["model"];
/// The most of an unknown key that is repeated, in characters.
const SHOWN: usize = 64;

/// A turn in the words of Responses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The request, with what its user says as a list of items.
    pub body: Bytes,
    /// Whether it names a model.
    pub names_model: bool,
}

/// Why a turn is refused. Keys, never content.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// A member of it is not as it must be.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// It has a member that nobody would read.
    #[error("`{key}` is none of `{}`", .known.join("`, `"))]
    Unknown {
        /// Which, cut to a fit length.
        key: String,
        /// Those that would be read.
        known: &'static [&'static str],
    },
    /// Somebody else than the user speaks in it.
    #[error("`input` may hold nothing but messages of the role `user`: the session has the rest")]
    NotTheUser,
}

/// Reads a turn; `model` is asked for where it names none.
///
/// # Errors
/// [`AskError`], the client's fault in every case.
pub fn read(body: &[u8], model: &str) -> Result<Ask, AskError> {
    let mut members = members(body, &KNOWN)?;
    members.retain(|(_, value)| *value != "null");
    let given = |name: &str| members.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
    let own_model = given("model").map(named).transpose()?;
    let mut written = vec![
        format!(r#""model":{}"#, Value::from(own_model.as_deref().unwrap_or(model))),
        format!(r#""stream":{}"#, given("stream").map_or("true", |value| value)),
        r#""store":false"#.to_owned(),
        format!(r#""input":[{}]"#, users_items(given("input"))?),
    ];
    for (key, value) in &members {
        if !matches!(*key, "model" | "stream" | "input") {
            written.push(format!(r#""{key}":{value}"#));
        }
    }
    let body = Bytes::from(format!("{{{}}}", written.join(",")));
    responses::scan(&body)?;
    responses::read(&body)?;
    Ok(Ask {
        body,
        names_model: own_model.is_some(),
    })
}

/// Reads the choice of a session's model: a name, or null for none.
///
/// # Errors
/// [`AskError`], the client's fault in every case.
pub fn read_choice(body: &[u8]) -> Result<Option<String>, AskError> {
    match members(body, &KNOWN_OF_A_CHOICE)?.first() {
        None => Err(RequestError::Missing { key: "model" }.into()),
        Some((_, "null")) => Ok(None),
        Some((_, value)) => Ok(Some(named(value)?)),
    }
}

/// The members, each once; `known` are those that may be there.
fn members<'a>(body: &'a [u8], known: &'static [&'static str]) -> Result<Vec<(&'static str, &'a str)>, AskError> {
    let mut cursor = Cursor::new(body)?;
    if cursor.kind()? != Kind::Object {
        return Err(RequestError::NotAnObject.into());
    }
    let mut seen: Vec<(&'static str, &str)> = Vec::new();
    cursor.object(|cursor, key| {
        let name = key.decode();
        let Some(key) = known.iter().copied().find(|known| *known == name) else {
            let plain = |letter: char| if letter.is_control() { ' ' } else { letter };
            let key = name.chars().take(SHOWN).map(plain).collect();
            return Err(AskError::Unknown { key, known });
        };
        if seen.iter().any(|(other, _)| *other == key) {
            return Err(RequestError::Duplicate { key }.into());
        }
        seen.push((key, cursor.value()?));
        Ok(())
    })?;
    cursor.end()?;
    Ok(seen)
}

fn named(value: &str) -> Result<String, RequestError> {
    let name = string(value, "model")?;
    match name.is_empty() {
        true => Err(RequestError::Empty { key: "model" }),
        false => Ok(name),
    }
}

/// What the user says, as items separated by commas.
fn users_items(input: Option<&str>) -> Result<String, AskError> {
    let input = input.ok_or(RequestError::Missing { key: "input" })?;
    let alone = Bytes::from(format!(r#"{{"model":"-","input":{input}}}"#));
    let facts = responses::scan(&alone)?;
    if facts.demands.contains(Demand::ProviderState) {
        return Err(AskError::NotTheUser);
    }
    let said = responses::read(&alone)?.messages;
    if said.iter().any(|message| message.speaker != Speaker::User) {
        return Err(AskError::NotTheUser);
    }
    let items: Vec<String> = said.iter().flat_map(items).collect();
    match items.is_empty() {
        true => Err(RequestError::Empty { key: "input" }.into()),
        false => Ok(items.join(",")),
    }
}

impl From<JsonError> for AskError {
    fn from(error: JsonError) -> Self {
        Self::Request(error.into())
    }
}

/// What a session adds to a turn.
#[derive(Clone, Copy, Debug, Default)]
pub struct Setting<'a> {
    /// What was said before, oldest first.
    pub transcript: &'a [Arc<str>],
    /// The tools that run here.
    pub tools: &'a [ToolSpec],
    /// The model that is asked instead of the one in the request.
    pub model: Option<&'a str>,
    /// Whether nobody else is asked, unless the request says who.
    pub strict: bool,
}

/// The request as models are asked: the transcript before what the user says, and what else the session adds. `facts` are
/// those of `body`, which [`read`] has made.
pub fn compose(body: &Bytes, facts: &RequestFacts, setting: &Setting<'_>) -> Bytes {
    let Some(responses) = &facts.responses else {
        return body.clone();
    };
    let own = responses::own_items(body, facts);
    let items: Vec<&str> = setting.transcript.iter().map(|item| &**item).chain([&*own]).collect();
    let input = format!("[{}]", items.join(","));
    let model = setting.model.map(|model| Value::from(model).to_string());
    let mut more = String::new();
    if setting.strict && facts.fallbacks.is_none() {
        more.push_str(r#""fallbacks":[],"#);
    }
    if !setting.tools.is_empty() {
        let tools: Vec<String> = setting.tools.iter().map(tool).collect();
        more.push_str(&format!(r#""tools":[{}],"#, tools.join(",")));
    }
    let mut edits = vec![
        Edit {
            span: 1..1,
            text: more.as_bytes(),
        },
        Edit {
            span: responses.input.clone(),
            text: input.as_bytes(),
        },
    ];
    edits.extend(model.iter().map(|model| Edit {
        span: facts.model_span.clone(),
        text: model.as_bytes(),
    }));
    edits.sort_unstable_by_key(|edit| (edit.span.start, edit.span.end));
    splice(body, &edits)
}

fn tool(tool: &ToolSpec) -> String {
    let schema = tool.parameters.as_deref().map(serde_json::from_str::<&RawValue>);
    let schema = schema.and_then(Result::ok).map(RawValue::get);
    let mut shown = json!({ "type": "function", "name": tool.name, "strict": false });
    if let Some(description) = &tool.description {
        shown["description"] = json!(description);
    }
    let mut shown = shown.to_string();
    shown.pop();
    let schema = schema.unwrap_or(r#"{"type":"object","properties":{}}"#);
    format!(r#"{shown},"parameters":{schema}}}"#)
}

/// What the user says in a request that [`read`] has made, item by item.
pub fn own_items(body: &Bytes, facts: &RequestFacts) -> Vec<String> {
    let list = format!("[{}]", responses::own_items(body, facts));
    let items: Vec<&RawValue> = serde_json::from_str(&list).unwrap_or_default();
    items.into_iter().map(|item| item.get().to_owned()).collect()
}

#[cfg(test)]
mod tests;
