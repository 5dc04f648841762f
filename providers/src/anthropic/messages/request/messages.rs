//! The messages of a Messages request: how much they say, where they stand, and what they demand.

use std::ops::Range;

use understudy_messages::request::{Demand, Demands, Messages, Role};

use crate::json::{Cursor, JsonError, JsonStr, Kind};
use crate::openai::chat::request::scan::once;
use crate::request_error::RequestError;

const WRONG_TYPE: RequestError = RequestError::WrongType {
    key: "messages",
    expected: "a list of objects",
};

/// Reads the value of `messages`.
pub(super) fn read(cursor: &mut Cursor<'_>, demands: &mut Demands) -> Result<Messages, RequestError> {
    if cursor.kind()? != Kind::Array {
        return Err(WRONG_TYPE);
    }
    let mut messages = Messages::default();
    cursor.array(|cursor| {
        if cursor.kind()? != Kind::Object {
            return Err(WRONG_TYPE);
        }
        let start = cursor.position();
        let message = Message::read(cursor, demands)?;
        if messages.count == 0 {
            (messages.first, messages.first_role) = (start, message.role);
        }
        if message.role == Role::User {
            messages.newest_user_content = message.content;
        }
        messages.end = cursor.position();
        messages.count += 1;
        messages.text_bytes += message.text_bytes;
        Ok(())
    })?;
    match messages.count {
        0 => Err(RequestError::Empty { key: "messages" }),
        _ => Ok(messages),
    }
}

/// The bytes of text in a content: a string, or a list of blocks, some of which have contents of their own.
pub(super) fn content(cursor: &mut Cursor<'_>, demands: &mut Demands) -> Result<usize, RequestError> {
    if cursor.kind()? != Kind::Array {
        return Ok(cursor.text()?.map_or(0, JsonStr::len));
    }
    let mut sum = 0;
    cursor.array(|cursor| {
        sum += block(cursor, demands)?;
        Ok::<_, RequestError>(())
    })?;
    Ok(sum)
}

/// One message of the conversation.
struct Message {
    role: Role,
    content: Option<Range<usize>>,
    text_bytes: usize,
}

impl Message {
    fn read(cursor: &mut Cursor<'_>, demands: &mut Demands) -> Result<Self, RequestError> {
        let (mut role, mut content) = (None, None);
        cursor.object(|cursor, key| match &*key.decode() {
            "role" => once(&mut role, self::role(cursor)?, "role"),
            "content" => {
                cursor.kind()?;
                let start = cursor.position();
                let text_bytes = self::content(cursor, demands)?;
                once(&mut content, (start..cursor.position(), text_bytes), "content")
            }
            _ => Ok(cursor.skip()?),
        })?;
        let (content, text_bytes) = content.unzip();
        Ok(Self {
            role: role.unwrap_or_default(),
            content,
            text_bytes: text_bytes.unwrap_or(0),
        })
    }
}

fn role(cursor: &mut Cursor<'_>) -> Result<Role, JsonError> {
    let name = cursor.text()?.map(JsonStr::decode);
    Ok(match name.as_deref() {
        Some("system") => Role::System,
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some(_) | None => Role::Other,
    })
}

/// The bytes of text in a block; what it demands is noted.
fn block(cursor: &mut Cursor<'_>, demands: &mut Demands) -> Result<usize, RequestError> {
    let (mut text, mut inner, mut kind, mut source) = (None, None, None, None);
    cursor.object(|cursor, key| match &*key.decode() {
        "text" => once(&mut text, cursor.text()?.map_or(0, JsonStr::len), "text"),
        "content" => once(&mut inner, content(cursor, demands)?, "content"),
        "type" => once(&mut kind, cursor.text()?, "type"),
        "source" => once(&mut source, source_kind(cursor)?, "source"),
        _ => Ok(cursor.skip()?),
    })?;
    match kind.flatten().map(JsonStr::decode).as_deref() {
        Some("document") => demands.insert(Demand::Document),
        Some("container_upload") => demands.insert(Demand::ProviderFile),
        Some(_) | None => {}
    }
    match source.flatten().map(JsonStr::decode).as_deref() {
        Some("url") => demands.insert(Demand::MediaUrl),
        Some("file") => demands.insert(Demand::ProviderFile),
        Some(_) | None => {}
    }
    Ok(text.unwrap_or(0) + inner.unwrap_or(0))
}

/// What kind of source a medium has.
fn source_kind<'a>(cursor: &mut Cursor<'a>) -> Result<Option<JsonStr<'a>>, RequestError> {
    let mut kind = None;
    cursor.object(|cursor, key| match &*key.decode() {
        "type" => once(&mut kind, cursor.text()?, "type"),
        _ => Ok(cursor.skip()?),
    })?;
    Ok(kind.flatten())
}
