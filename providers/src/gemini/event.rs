//! One reader of Gemini's answers: a frame of a stream and a whole answer are the same object.
//!
//! Lenient by design: a member of an unexpected type is stepped over. Only what is not JSON is an error.

use understudy_messages::answer::Usage;

use crate::json::{Cursor, JsonError, JsonStr, Kind};
use crate::wire_error::WireError;

/// What one object says.
#[derive(Debug, Default)]
pub(super) struct Event {
    /// Whether it is an answer, or a part of one, at all.
    pub(super) is_answer: bool,
    pub(super) id: Option<String>,
    pub(super) model: Option<String>,
    pub(super) candidates: Vec<Candidate>,
    /// Whether the prompt was blocked.
    pub(super) blocked: bool,
    pub(super) usage: Option<Usage>,
    pub(super) error: Option<WireError>,
}

/// One of the answers that were asked for.
#[derive(Debug, Default)]
pub(super) struct Candidate {
    pub(super) index: u64,
    pub(super) parts: Vec<Part>,
    /// Gemini's word for why it ended.
    pub(super) finish: Option<String>,
}

/// A part of what it says.
#[derive(Debug, Default)]
pub(super) struct Part {
    pub(super) text: Option<String>,
    /// Whether the text is reasoning.
    pub(super) is_thought: bool,
    pub(super) signature: Option<String>,
    pub(super) call: Option<Call>,
    /// Whether it is another medium, or code.
    pub(super) is_other: bool,
}

/// A call of a function, always whole.
#[derive(Debug, Default)]
pub(super) struct Call {
    pub(super) id: Option<String>,
    pub(super) name: String,
    pub(super) arguments: String,
}

impl Event {
    /// Reads one object.
    pub(super) fn read(json: &[u8]) -> Result<Self, JsonError> {
        let mut cursor = Cursor::new(json)?;
        if cursor.kind()? != Kind::Object {
            return Err(JsonError::Syntax { at: cursor.position() });
        }
        let mut event = Self::default();
        cursor.object(|cursor, key| event.member(cursor, key))?;
        cursor.end()?;
        Ok(event)
    }

    fn member(&mut self, cursor: &mut Cursor<'_>, key: JsonStr<'_>) -> Result<(), JsonError> {
        match &*key.decode() {
            "responseId" => self.id = text(cursor)?,
            "modelVersion" => self.model = text(cursor)?,
            "usageMetadata" => {
                self.is_answer = true;
                self.usage = usage(cursor)?;
            }
            "candidates" => {
                self.is_answer = true;
                cursor.array(|cursor| {
                    self.candidates.push(candidate(cursor)?);
                    Ok::<_, JsonError>(())
                })?;
            }
            "promptFeedback" => {
                self.is_answer = true;
                cursor.object(|cursor, key| {
                    match &*key.decode() {
                        "blockReason" => self.blocked = text(cursor)?.is_some(),
                        _ => cursor.skip()?,
                    }
                    Ok::<_, JsonError>(())
                })?;
            }
            "error" => self.error = WireError::read(cursor.value()?)?,
            _ => cursor.skip()?,
        }
        Ok(())
    }
}

/// A string with something in it.
fn text(cursor: &mut Cursor<'_>) -> Result<Option<String>, JsonError> {
    let text = cursor.text()?.filter(|text| !text.is_empty());
    Ok(text.map(|text| text.decode().into_owned()))
}

fn candidate(cursor: &mut Cursor<'_>) -> Result<Candidate, JsonError> {
    let mut candidate = Candidate::default();
    cursor.object(|cursor, key| match &*key.decode() {
        "index" => cursor.count().map(|index| candidate.index = index),
        "finishReason" => text(cursor).map(|word| candidate.finish = word),
        "content" => cursor.object(|cursor, key| match &*key.decode() {
            "parts" => cursor.array(|cursor| part(cursor).map(|part| candidate.parts.push(part))),
            _ => cursor.skip(),
        }),
        _ => cursor.skip(),
    })?;
    Ok(candidate)
}

fn part(cursor: &mut Cursor<'_>) -> Result<Part, JsonError> {
    let mut part = Part::default();
    cursor.object(|cursor, key| {
        match &*key.decode() {
            "text" => part.text = text(cursor)?,
            "thought" => part.is_thought = cursor.value()? == "true",
            "thoughtSignature" | "thought_signature" => part.signature = text(cursor)?,
            "functionCall" => part.call = call(cursor)?,
            "inlineData" | "fileData" | "executableCode" | "codeExecutionResult" => {
                part.is_other = cursor.value()? != "null";
            }
            _ => cursor.skip()?,
        }
        Ok::<_, JsonError>(())
    })?;
    Ok(part)
}

fn call(cursor: &mut Cursor<'_>) -> Result<Option<Call>, JsonError> {
    let is_one = cursor.kind()? == Kind::Object;
    let mut call = Call::default();
    cursor.object(|cursor, key| {
        match &*key.decode() {
            "id" => call.id = text(cursor)?,
            "name" => call.name = text(cursor)?.unwrap_or_default(),
            "args" => cursor.value()?.clone_into(&mut call.arguments),
            _ => cursor.skip()?,
        }
        Ok::<_, JsonError>(())
    })?;
    if matches!(call.arguments.as_str(), "" | "null") {
        "{}".clone_into(&mut call.arguments);
    }
    Ok(is_one.then_some(call))
}

/// Tokens, unless nothing is said of them. Gemini counts thoughts beside the answer, here they are part of it.
fn usage(cursor: &mut Cursor<'_>) -> Result<Option<Usage>, JsonError> {
    let mut usage = Usage::default();
    let mut any = false;
    cursor.object(|cursor, key| {
        let is_known = match &*key.decode() {
            // what tools of Gemini's own gave it to read is not part of the prompt there, but is read and paid for like it
            "promptTokenCount" | "toolUsePromptTokenCount" => {
                usage.input = usage.input.saturating_add(cursor.count()?);
                true
            }
            "candidatesTokenCount" => {
                usage.output = usage.output.saturating_add(cursor.count()?);
                true
            }
            "thoughtsTokenCount" => {
                usage.reasoning = cursor.count()?;
                usage.output = usage.output.saturating_add(usage.reasoning);
                true
            }
            "cachedContentTokenCount" => {
                usage.cache_read = cursor.count()?;
                true
            }
            _ => {
                cursor.skip()?;
                false
            }
        };
        any |= is_known;
        Ok::<_, JsonError>(())
    })?;
    Ok(any.then_some(usage))
}
