//! The messages of a chat request: how much they say, and where text can be put among them.

use std::ops::Range;

use super::RequestError;
use super::scan::once;
use crate::json::{Cursor, JsonError, Kind};

/// What a request's messages are, and where text can be put among them. Offsets are into the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Messages {
    /// How many there are, at least 1.
    pub count: usize,
    /// Bytes of text in all of them, decoded.
    pub text_bytes: usize,
    /// Who speaks first.
    pub first_role: Role,
    /// Where the first one begins.
    pub first: usize,
    /// The end of the last of the system messages that lead, if one leads.
    pub leading_system_end: Option<usize>,
    /// The content of the newest user message, if it has any.
    pub newest_user_content: Option<Range<usize>>,
    /// Whether every message so far is a system message.
    only_system: bool,
}

/// Who speaks in a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// The operator.
    System,
    /// The operator, as newer models call it.
    Developer,
    /// The user.
    User,
    /// The model.
    Assistant,
    /// A tool.
    Tool,
    /// Someone else, or no one.
    #[default]
    Other,
}

const WRONG_TYPE: RequestError = RequestError::WrongType {
    key: "messages",
    expected: "a list of objects",
};

/// Reads the value of `messages`.
pub(super) fn read(cursor: &mut Cursor<'_>) -> Result<Messages, RequestError> {
    if cursor.kind()? != Kind::Array {
        return Err(WRONG_TYPE);
    }
    let mut messages = None;
    cursor.array(|cursor| {
        if cursor.kind()? != Kind::Object {
            return Err(WRONG_TYPE);
        }
        let start = cursor.position();
        let message = Message::read(cursor)?;
        messages
            .get_or_insert_with(|| Messages::beginning_with(message.role, start))
            .add(message, cursor.position());
        Ok(())
    })?;
    messages.ok_or(RequestError::Empty { key: "messages" })
}

impl Messages {
    fn beginning_with(first_role: Role, first: usize) -> Self {
        Self {
            count: 0,
            text_bytes: 0,
            first_role,
            first,
            leading_system_end: None,
            newest_user_content: None,
            only_system: true,
        }
    }

    fn add(&mut self, message: Message, end: usize) {
        self.only_system &= matches!(message.role, Role::System | Role::Developer);
        if self.only_system {
            self.leading_system_end = Some(end);
        }
        if message.role == Role::User {
            self.newest_user_content = message.content;
        }
        self.count += 1;
        self.text_bytes += message.text_bytes;
    }
}

/// One message of the conversation.
struct Message {
    role: Role,
    content: Option<Range<usize>>,
    text_bytes: usize,
}

impl Message {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self, RequestError> {
        let (mut role, mut content) = (None, None);
        cursor.object(|cursor, key| match &*key.decode() {
            "role" => once(&mut role, Role::read(cursor)?, "role"),
            "content" => {
                cursor.kind()?;
                let start = cursor.position();
                let text_bytes = text_bytes(cursor)?;
                once(
                    &mut content,
                    (start..cursor.position(), text_bytes),
                    "content",
                )
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

impl Role {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self, JsonError> {
        let name = cursor.text()?.map(|name| name.decode());
        Ok(match name.as_deref() {
            Some("system") => Self::System,
            Some("developer") => Self::Developer,
            Some("user") => Self::User,
            Some("assistant") => Self::Assistant,
            Some("tool" | "function") => Self::Tool,
            Some(_) | None => Self::Other,
        })
    }
}

/// The bytes of text in a content: a string, or a list of parts of which some are text.
fn text_bytes(cursor: &mut Cursor<'_>) -> Result<usize, RequestError> {
    if cursor.kind()? != Kind::Array {
        return Ok(cursor.text()?.map_or(0, |text| text.len()));
    }
    let mut sum = 0;
    cursor.array(|cursor| {
        let mut text = None;
        cursor.object(|cursor, key| match &*key.decode() {
            "text" => once(
                &mut text,
                cursor.text()?.map_or(0, |text| text.len()),
                "text",
            ),
            _ => Ok(cursor.skip()?),
        })?;
        sum += text.unwrap_or(0);
        Ok::<_, RequestError>(())
    })?;
    Ok(sum)
}
