//! The input of a Responses request: a text, or a list of items.

use std::ops::Range;

use understudy_messages::request::{Demand, Demands, Messages, Role};
use understudy_messages::settings::Api;

use crate::json::{Cursor, JsonError, JsonStr, Kind};
use crate::openai::chat::request::scan::once;
use crate::openai::responses::seal;
use crate::request_error::RequestError;

const WRONG_TYPE: RequestError = RequestError::WrongType {
    key: "input",
    expected: "a string or a list of objects",
};

/// What was found in it.
pub(super) struct Input {
    pub(super) messages: Messages,
    pub(super) span: Range<usize>,
    pub(super) is_text: bool,
    /// Runs of items that only others than a Responses provider can read.
    pub(super) foreign: Vec<Range<usize>>,
}

impl Input {
    /// Of a body that has none; it would go in at `place`.
    pub(super) fn absent(place: usize) -> Self {
        Self {
            messages: Messages {
                first: place,
                end: place,
                ..Messages::default()
            },
            span: place..place,
            is_text: false,
            foreign: Vec::new(),
        }
    }

    /// Reads the value of `input`.
    pub(super) fn read(cursor: &mut Cursor<'_>, demands: &mut Demands) -> Result<Self, RequestError> {
        let kind = cursor.kind()?;
        let start = cursor.position();
        let mut foreign = Vec::new();
        let messages = match kind {
            Kind::String => Self::text(cursor, start)?,
            Kind::Array => items(cursor, demands, &mut foreign)?,
            Kind::Null => {
                cursor.skip()?;
                Messages::default()
            }
            Kind::Object | Kind::Number | Kind::Bool => return Err(WRONG_TYPE),
        };
        Ok(Self {
            messages,
            span: start..cursor.position(),
            is_text: kind == Kind::String,
            foreign,
        })
    }

    /// A text is what the user says.
    fn text(cursor: &mut Cursor<'_>, start: usize) -> Result<Messages, JsonError> {
        let text_bytes = cursor.text()?.map_or(0, JsonStr::len);
        let end = cursor.position();
        Ok(Messages {
            count: usize::from(text_bytes > 0),
            text_bytes,
            first_role: Role::User,
            first: start,
            end,
            leading_system_end: None,
            newest_user_content: Some(start..end),
        })
    }
}

fn items(
    cursor: &mut Cursor<'_>,
    demands: &mut Demands,
    foreign: &mut Vec<Range<usize>>,
) -> Result<Messages, RequestError> {
    let mut messages = Messages {
        first: cursor.position() + 1,
        end: cursor.position() + 1,
        ..Messages::default()
    };
    let (mut only_system, mut after_foreign) = (true, false);
    cursor.array(|cursor| {
        if cursor.kind()? != Kind::Object {
            return Err(WRONG_TYPE);
        }
        let start = cursor.position();
        let item = Item::read(cursor, demands)?;
        let end = cursor.position();
        match foreign.last_mut().filter(|_| after_foreign && item.is_foreign) {
            Some(run) => run.end = end,
            None if item.is_foreign => foreign.push(start..end),
            None => {}
        }
        after_foreign = item.is_foreign;
        if messages.count == 0 {
            (messages.first, messages.first_role) = (start, item.role);
        }
        only_system &= matches!(item.role, Role::System | Role::Developer);
        if only_system {
            messages.leading_system_end = Some(end);
        }
        if item.role == Role::User {
            messages.newest_user_content = item.content;
        }
        messages.end = end;
        messages.count += 1;
        messages.text_bytes += item.text_bytes;
        Ok(())
    })?;
    Ok(messages)
}

/// One item of the input.
#[derive(Default)]
struct Item {
    role: Role,
    content: Option<Range<usize>>,
    text_bytes: usize,
    is_foreign: bool,
}

impl Item {
    fn read(cursor: &mut Cursor<'_>, demands: &mut Demands) -> Result<Self, RequestError> {
        let (mut kind, mut role, mut content) = (None, None, None);
        let (mut id, mut encrypted) = (None, None);
        let mut text_bytes = 0;
        cursor.object(|cursor, key| match &*key.decode() {
            "type" => once(&mut kind, cursor.text()?, "type"),
            "role" => once(&mut role, self::role(cursor)?, "role"),
            "content" => {
                cursor.kind()?;
                let start = cursor.position();
                text_bytes += said(cursor, demands)?;
                once(&mut content, start..cursor.position(), "content")
            }
            "id" => once(&mut id, cursor.text()?, "id"),
            "encrypted_content" => once(&mut encrypted, cursor.text()?, "encrypted_content"),
            "output" | "arguments" | "input" => {
                text_bytes += said(cursor, demands)?;
                Ok(())
            }
            _ => Ok(cursor.skip()?),
        })?;
        let kind = kind.flatten().map(JsonStr::decode);
        let is_foreign = kind.as_deref() == Some("reasoning")
            && match encrypted.flatten().map(JsonStr::decode) {
                Some(data) if !data.is_empty() => seal::read(&data).0 != Api::OpenaiResponses,
                Some(_) | None => id.flatten().is_some_and(|id| seal::is_own_id(id.raw())),
            };
        let by_kind = match kind.as_deref() {
            // what has neither kind nor role is no more than an id
            None if role.is_none() => {
                demands.insert(Demand::ProviderState);
                None
            }
            None | Some("message") => None,
            Some("reasoning" | "function_call") => Some(Role::Assistant),
            Some("function_call_output") => Some(Role::Tool),
            Some(kind) => {
                demands.insert(match kind {
                    "item_reference" => Demand::ProviderState,
                    "custom_tool_call" | "custom_tool_call_output" => Demand::CustomTool,
                    _ => Demand::HostedTool,
                });
                Some(Role::Other)
            }
        };
        Ok(Self {
            role: by_kind.or(role).unwrap_or_default(),
            content,
            text_bytes,
            is_foreign,
        })
    }
}

fn role(cursor: &mut Cursor<'_>) -> Result<Role, JsonError> {
    let name = cursor.text()?.map(JsonStr::decode);
    Ok(match name.as_deref() {
        Some("system") => Role::System,
        Some("developer") => Role::Developer,
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some(_) | None => Role::Other,
    })
}

/// The bytes of text in a content: a string, or a list of parts. Parts that are not text are noted.
fn said(cursor: &mut Cursor<'_>, demands: &mut Demands) -> Result<usize, RequestError> {
    if cursor.kind()? != Kind::Array {
        return Ok(cursor.text()?.map_or(0, JsonStr::len));
    }
    let mut sum = 0;
    cursor.array(|cursor| {
        cursor.object(|cursor, key| {
            match &*key.decode() {
                "text" | "refusal" => sum += cursor.text()?.map_or(0, JsonStr::len),
                "type" => match cursor.text()?.map(JsonStr::decode).as_deref() {
                    Some("input_file") => demands.insert(Demand::Document),
                    Some("input_audio") => demands.insert(Demand::AudioIn),
                    Some(_) | None => {}
                },
                "file_id" if cursor.kind()? == Kind::String => {
                    demands.insert(Demand::ProviderFile);
                    cursor.skip()?;
                }
                "image_url" | "file_url" => {
                    if let Some(url) = cursor.text()?
                        && !url.raw().starts_with("data:")
                    {
                        demands.insert(Demand::MediaUrl);
                    }
                }
                _ => cursor.skip()?,
            }
            Ok::<_, RequestError>(())
        })
    })?;
    Ok(sum)
}
