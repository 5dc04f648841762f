//! The objects that Responses answers are made of: a response, its items, their texts. Read in place, nothing allocated.
//!
//! Lenient by design: a member of an unexpected type is stepped over. Only what is not JSON is an error.

use understudy_messages::answer::{Finish, Usage};

use crate::json::{Cursor, JsonError, JsonStr, Kind};
use crate::wire_error::WireError;

/// A response as far as the course of a turn depends on it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Response<'a> {
    pub(super) id: Option<JsonStr<'a>>,
    pub(super) model: Option<JsonStr<'a>>,
    pub(super) status: Option<JsonStr<'a>>,
    /// The list of items, as it is written.
    pub(super) output: Option<&'a str>,
    pub(super) error: Option<&'a str>,
    /// Why it is incomplete.
    pub(super) reason: Option<JsonStr<'a>>,
    pub(super) usage: Option<Usage>,
}

impl<'a> Response<'a> {
    /// Reads the value before the cursor; any other kind than an object is an empty response.
    pub(super) fn read(cursor: &mut Cursor<'a>) -> Result<Self, JsonError> {
        let mut response = Self::default();
        cursor.object(|cursor, key| {
            match &*key.decode() {
                "id" => response.id = filled(cursor)?,
                "model" => response.model = filled(cursor)?,
                "status" => response.status = filled(cursor)?,
                "output" => response.output = list(cursor)?,
                "error" => response.error = Some(cursor.value()?),
                "incomplete_details" => response.reason = reason(cursor)?,
                "usage" => response.usage = usage(cursor)?,
                _ => cursor.skip()?,
            }
            Ok::<_, JsonError>(())
        })?;
        Ok(response)
    }

    /// What went wrong, where it says so.
    pub(super) fn failure(&self) -> Option<WireError> {
        let error = self.error.and_then(|error| WireError::read(error).ok().flatten());
        let is_failed = matches!(self.status.map(JsonStr::raw), Some("failed" | "cancelled"));
        error.or_else(|| is_failed.then(WireError::default))
    }

    /// Why it ended. A response that gives no reason has said what it had to.
    pub(super) fn finish(&self, incomplete: bool, calls_tools: bool) -> Finish {
        if !incomplete && self.status.map(JsonStr::raw) != Some("incomplete") {
            return if calls_tools { Finish::ToolCalls } else { Finish::Stop };
        }
        match self.reason.map(JsonStr::raw) {
            Some("max_output_tokens" | "max_tokens") => Finish::Length,
            Some("content_filter") => Finish::ContentFilter,
            Some(_) | None => Finish::Other,
        }
    }

    /// Its items, in order.
    pub(super) fn items(&self, mut each: impl FnMut(Item<'a>)) {
        let mut cursor = Cursor::over(self.output.unwrap_or("[]"));
        // its syntax was checked with the whole
        let _checked = cursor.array(|cursor| Item::read(cursor).map(&mut each));
    }
}

/// What kind of item it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ItemKind {
    /// Text and refusals.
    Message,
    /// Reasoning.
    Reasoning,
    /// A tool call with arguments in JSON, or with any input.
    Call,
    /// Another tool that the client has to run.
    Errand,
    /// A tool that the provider ran, and whatever else there may be.
    Other,
}

/// One item of an output.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Item<'a> {
    kind: Option<JsonStr<'a>>,
    id: Option<JsonStr<'a>>,
    call_id: Option<JsonStr<'a>>,
    pub(super) name: Option<JsonStr<'a>>,
    /// The arguments or the input of a call.
    pub(super) arguments: Option<JsonStr<'a>>,
    /// Whether these are no string, as they should be.
    odd: bool,
    pub(super) encrypted: Option<JsonStr<'a>>,
    content: Option<&'a str>,
    summary: Option<&'a str>,
}

/// What a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Voice {
    Text,
    Refusal,
    Reasoning,
}

impl<'a> Item<'a> {
    /// Reads the value before the cursor; any other kind than an object is an item that says nothing.
    pub(super) fn read(cursor: &mut Cursor<'a>) -> Result<Self, JsonError> {
        let mut item = Self::default();
        cursor.object(|cursor, key| {
            match &*key.decode() {
                "type" => item.kind = filled(cursor)?,
                "id" => item.id = filled(cursor)?,
                "call_id" => item.call_id = filled(cursor)?,
                "name" => item.name = filled(cursor)?,
                "arguments" | "input" => {
                    item.odd |= !matches!(cursor.kind()?, Kind::String | Kind::Null);
                    item.arguments = filled(cursor)?.or(item.arguments);
                }
                "encrypted_content" => item.encrypted = filled(cursor)?,
                "content" => item.content = Some(cursor.value()?),
                "summary" => item.summary = list(cursor)?,
                _ => cursor.skip()?,
            }
            Ok::<_, JsonError>(())
        })?;
        Ok(item)
    }

    pub(super) fn kind(&self) -> ItemKind {
        match &*self.kind.unwrap_or(JsonStr::EMPTY).decode() {
            "message" => ItemKind::Message,
            "reasoning" => ItemKind::Reasoning,
            "function_call" | "custom_tool_call" if self.odd => ItemKind::Errand,
            "function_call" | "custom_tool_call" => ItemKind::Call,
            "computer_call" | "local_shell_call" | "shell_call" | "apply_patch_call" | "mcp_approval_request" => {
                ItemKind::Errand
            }
            // what names a call wants to be answered, unless it is an answer
            kind if self.call_id.is_some() && !kind.ends_with("_output") => ItemKind::Errand,
            _ => ItemKind::Other,
        }
    }

    /// The id by which the result of a call names it.
    pub(super) fn call_id(&self) -> Option<JsonStr<'a>> {
        self.call_id.or(self.id)
    }

    /// Its texts and the places at which they stand. Of reasoning the summary counts only where the text itself is not given.
    pub(super) fn texts(&self, mut each: impl FnMut(u64, Voice, JsonStr<'a>)) {
        let mut any = false;
        let mut tell = |place, voice, text: JsonStr<'a>| {
            any |= !text.is_empty();
            each(place, voice, text);
        };
        // their syntax was checked with the whole
        let _checked = match self.kind() {
            ItemKind::Message => parts(self.content, Voice::Text, &mut tell),
            ItemKind::Reasoning => parts(self.content, Voice::Reasoning, &mut tell),
            ItemKind::Call | ItemKind::Errand | ItemKind::Other => Ok(()),
        };
        if !any && self.kind() == ItemKind::Reasoning {
            let _checked = parts(self.summary, Voice::Reasoning, &mut each);
        }
    }
}

/// The texts of a content: a string, or a list of parts.
fn parts<'a>(
    content: Option<&'a str>,
    voice: Voice,
    each: &mut impl FnMut(u64, Voice, JsonStr<'a>),
) -> Result<(), JsonError> {
    let mut cursor = Cursor::over(content.unwrap_or("[]"));
    if let Some(text) = matches!(cursor.kind()?, Kind::String).then(|| cursor.text()) {
        text?.into_iter().for_each(|text| each(0, voice, text));
        return Ok(());
    }
    let mut place = 0;
    cursor.array(|cursor| {
        cursor.object(|cursor, key| {
            match &*key.decode() {
                "text" => cursor.text()?.into_iter().for_each(|text| each(place, voice, text)),
                "refusal" => {
                    let refusal = cursor.text()?;
                    refusal.into_iter().for_each(|text| each(place, Voice::Refusal, text));
                }
                _ => cursor.skip()?,
            }
            Ok::<_, JsonError>(())
        })?;
        place += 1;
        Ok(())
    })
}

fn filled<'a>(cursor: &mut Cursor<'a>) -> Result<Option<JsonStr<'a>>, JsonError> {
    Ok(cursor.text()?.filter(|text| !text.is_empty()))
}

fn list<'a>(cursor: &mut Cursor<'a>) -> Result<Option<&'a str>, JsonError> {
    let is_list = cursor.kind()? == Kind::Array;
    let value = cursor.value()?;
    Ok(is_list.then_some(value))
}

fn reason<'a>(cursor: &mut Cursor<'a>) -> Result<Option<JsonStr<'a>>, JsonError> {
    let mut reason = None;
    cursor.object(|cursor, key| {
        match &*key.decode() {
            "reason" => reason = filled(cursor)?,
            _ => cursor.skip()?,
        }
        Ok::<_, JsonError>(())
    })?;
    Ok(reason)
}

/// A report of tokens, unless it is null or empty.
fn usage(cursor: &mut Cursor<'_>) -> Result<Option<Usage>, JsonError> {
    let mut usage = Usage::default();
    let mut any = false;
    cursor.object(|cursor, key| {
        any = true;
        match &*key.decode() {
            "input_tokens" => usage.input = cursor.count()?,
            "output_tokens" => usage.output = cursor.count()?,
            "input_tokens_details" | "output_tokens_details" => details(cursor, &mut usage)?,
            _ => cursor.skip()?,
        }
        Ok::<_, JsonError>(())
    })?;
    Ok(any.then_some(usage))
}

fn details(cursor: &mut Cursor<'_>, usage: &mut Usage) -> Result<(), JsonError> {
    cursor.object(|cursor, key| {
        match &*key.decode() {
            "cached_tokens" => usage.cache_read = cursor.count()?,
            "cache_write_tokens" => usage.cache_write = cursor.count()?,
            "reasoning_tokens" => usage.reasoning = cursor.count()?,
            _ => cursor.skip()?,
        }
        Ok(())
    })
}
