//! The messages of a chat request: how much they say, and where text can be put among them.

use std::ops::Range;

use understudy_messages::request::{Demand, Demands, Messages, Role};

use super::RequestError;
use super::scan::once;
use crate::json::{Cursor, JsonError, Kind};

const WRONG_TYPE: RequestError = RequestError::WrongType {
    key: "messages",
    expected: "a list of objects",
};

/// Reads the value of `messages`, and adds what in them not every wire format can carry.
pub(super) fn read(cursor: &mut Cursor<'_>, demands: &mut Demands) -> Result<Messages, RequestError> {
    if cursor.kind()? != Kind::Array {
        return Err(WRONG_TYPE);
    }
    let mut messages = None;
    cursor.array(|cursor| {
        if cursor.kind()? != Kind::Object {
            return Err(WRONG_TYPE);
        }
        let start = cursor.position();
        let message = Message::read(cursor, demands)?;
        messages
            .get_or_insert_with(|| Draft::beginning_with(message.role, start))
            .add(message, cursor.position());
        Ok(())
    })?;
    let draft: Option<Draft> = messages;
    draft
        .map(|draft| draft.messages)
        .ok_or(RequestError::Empty { key: "messages" })
}

/// The messages so far.
struct Draft {
    messages: Messages,
    /// Whether every one so far is a system message.
    only_system: bool,
}

impl Draft {
    fn beginning_with(first_role: Role, first: usize) -> Self {
        let messages = Messages {
            count: 0,
            text_bytes: 0,
            first_role,
            first,
            end: first,
            leading_system_end: None,
            newest_user_content: None,
        };
        Self {
            messages,
            only_system: true,
        }
    }

    fn add(&mut self, message: Message, end: usize) {
        self.only_system &= matches!(message.role, Role::System | Role::Developer);
        let messages = &mut self.messages;
        if self.only_system {
            messages.leading_system_end = Some(end);
        }
        if message.role == Role::User {
            messages.newest_user_content = message.content;
        }
        messages.end = end;
        messages.count += 1;
        messages.text_bytes += message.text_bytes;
    }
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
                let text_bytes = text_bytes(cursor, demands)?;
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
    let name = cursor.text()?.map(|name| name.decode());
    Ok(match name.as_deref() {
        Some("system") => Role::System,
        Some("developer") => Role::Developer,
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("tool" | "function") => Role::Tool,
        Some(_) | None => Role::Other,
    })
}

/// The bytes of text in a content: a string, or a list of parts of which some are text.
fn text_bytes(cursor: &mut Cursor<'_>, demands: &mut Demands) -> Result<usize, RequestError> {
    if cursor.kind()? != Kind::Array {
        return Ok(cursor.text()?.map_or(0, |text| text.len()));
    }
    let mut sum = 0;
    cursor.array(|cursor| {
        let mut text = None;
        cursor.object(|cursor, key| match &*key.decode() {
            "text" => once(&mut text, cursor.text()?.map_or(0, |text| text.len()), "text"),
            "image_url" => Ok(image(cursor, demands)?),
            "file" => Ok(file(cursor, demands)?),
            "input_audio" => {
                demands.insert(Demand::AudioIn);
                Ok(cursor.skip()?)
            }
            _ => Ok(cursor.skip()?),
        })?;
        sum += text.unwrap_or(0);
        Ok::<_, RequestError>(())
    })?;
    Ok(sum)
}

/// An image is in the request, or at an address.
fn image(cursor: &mut Cursor<'_>, demands: &mut Demands) -> Result<(), JsonError> {
    let mut address = |cursor: &mut Cursor<'_>| {
        if cursor.text()?.is_some_and(|url| !url.raw().starts_with("data:")) {
            demands.insert(Demand::MediaUrl);
        }
        Ok::<_, JsonError>(())
    };
    if cursor.kind()? == Kind::String {
        return address(cursor);
    }
    cursor.object(|cursor, key| match &*key.decode() {
        "url" => address(cursor),
        _ => cursor.skip(),
    })
}

/// A file is in the request, or with the provider.
fn file(cursor: &mut Cursor<'_>, demands: &mut Demands) -> Result<(), JsonError> {
    cursor.object(|cursor, key| {
        match &*key.decode() {
            "file_data" => demands.insert(Demand::Document),
            "file_id" => demands.insert(Demand::ProviderFile),
            _ => {}
        }
        cursor.skip()
    })
}
