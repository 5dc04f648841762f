//! A request as far as text is put into it: where its members and messages stand.

use std::ops::Range;

use understudy_messages::request::{Endpoint, Role};

use crate::json::{Cursor, JsonError, Kind};
use crate::openai::chat::request::scan::with_comma;
use crate::request_error::RequestError;

/// A value, and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Value<'a> {
    pub(super) kind: Kind,
    pub(super) text: &'a str,
    pub(super) span: Range<usize>,
}

/// A member of the body.
#[derive(Debug)]
pub(super) struct Member<'a> {
    pub(super) name: String,
    pub(super) value: Value<'a>,
    /// With its name.
    pub(super) whole: Range<usize>,
}

/// One message, or one item.
#[derive(Debug)]
pub(super) struct Said<'a> {
    pub(super) role: Role,
    pub(super) span: Range<usize>,
    pub(super) content: Option<Value<'a>>,
}

/// A request taken apart.
#[derive(Debug)]
pub(super) struct Request<'a> {
    pub(super) endpoint: Endpoint,
    pub(super) body: &'a [u8],
    /// Where the body's first member would stand, and whether it has any.
    pub(super) inside: usize,
    pub(super) members: Vec<Member<'a>>,
    /// The messages in order; none where they are one text, or not there.
    pub(super) said: Vec<Said<'a>>,
}

impl<'a> Request<'a> {
    pub(super) fn read(endpoint: Endpoint, body: &'a [u8]) -> Result<Self, RequestError> {
        let mut cursor = Cursor::new(body)?;
        if cursor.kind()? != Kind::Object {
            return Err(RequestError::NotAnObject);
        }
        let inside = cursor.position() + 1;
        let mut members = Vec::new();
        cursor.object(|cursor, key| {
            let start = cursor.span(key.raw()).start - 1;
            let value = value(cursor)?;
            members.push(Member {
                name: key.decode().into_owned(),
                whole: start..value.span.end,
                value,
            });
            Ok::<_, JsonError>(())
        })?;
        cursor.end()?;
        let mut request = Self {
            endpoint,
            body,
            inside,
            members,
            said: Vec::new(),
        };
        request.said = request.messages()?;
        Ok(request)
    }

    /// The name of the member that holds the conversation.
    pub(super) const fn conversation(&self) -> &'static str {
        match self.endpoint {
            Endpoint::Responses | Endpoint::Native => "input",
            Endpoint::Chat | Endpoint::Messages | Endpoint::CountTokens | Endpoint::Embeddings => "messages",
        }
    }

    /// Whether system text is a member of its own and no message.
    pub(super) const fn has_system_member(&self) -> bool {
        matches!(self.endpoint, Endpoint::Messages | Endpoint::CountTokens)
    }

    /// A member; of several of one name the last. One that is null is not there.
    pub(super) fn member(&self, name: &str) -> Option<&Member<'a>> {
        let named = self.members.iter().rev().find(|member| member.name == name);
        named.filter(|member| member.value.kind != Kind::Null)
    }

    /// A member's span, with the comma that would be left over without it.
    pub(super) fn with_comma(&self, member: &Member<'_>) -> Range<usize> {
        with_comma(self.body, member.whole.clone())
    }

    fn messages(&self) -> Result<Vec<Said<'a>>, RequestError> {
        let mut said = Vec::new();
        let Some(member) = self.member(self.conversation()) else {
            return Ok(said);
        };
        if member.value.kind != Kind::Array {
            return Ok(said);
        }
        for value in elements(&member.value)? {
            said.push(message(&value)?);
        }
        Ok(said)
    }
}

/// The next value.
fn value<'a>(cursor: &mut Cursor<'a>) -> Result<Value<'a>, JsonError> {
    let kind = cursor.kind()?;
    let text = cursor.value()?;
    let span = cursor.span(text);
    Ok(Value { kind, text, span })
}

/// A value of `outer`, whose spans are to be those of the body.
fn moved<'a>(outer: &Value<'_>, value: Value<'a>) -> Value<'a> {
    let start = outer.span.start;
    Value {
        span: start + value.span.start..start + value.span.end,
        ..value
    }
}

/// The elements of a list; of anything else none.
pub(super) fn elements<'a>(list: &Value<'a>) -> Result<Vec<Value<'a>>, JsonError> {
    let mut elements = Vec::new();
    if list.kind == Kind::Array {
        Cursor::over(list.text).array(|cursor| {
            elements.push(moved(list, value(cursor)?));
            Ok::<_, JsonError>(())
        })?;
    }
    Ok(elements)
}

/// A member of an object; of anything else none.
pub(super) fn inner<'a>(object: &Value<'a>, name: &str) -> Result<Option<Value<'a>>, JsonError> {
    let mut found = None;
    if object.kind == Kind::Object {
        Cursor::over(object.text).object(|cursor, key| {
            let value = value(cursor)?;
            if key.decode() == name && value.kind != Kind::Null {
                found = Some(moved(object, value));
            }
            Ok::<_, JsonError>(())
        })?;
    }
    Ok(found)
}

/// A member that is a text.
pub(super) fn word(object: &Value<'_>, name: &str) -> Result<Option<String>, JsonError> {
    let value = inner(object, name)?;
    let text = value.map(|value| Cursor::over(value.text).text()).transpose()?;
    Ok(text.flatten().map(|text| text.decode().into_owned()))
}

fn message<'a>(value: &Value<'a>) -> Result<Said<'a>, RequestError> {
    let role = match word(value, "role")?.as_deref() {
        Some("system") => Role::System,
        Some("developer") => Role::Developer,
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("tool" | "function") => Role::Tool,
        Some(_) | None => Role::Other,
    };
    Ok(Said {
        role,
        span: value.span.clone(),
        content: inner(value, "content")?,
    })
}
