//! The members of a Responses request that matter, each read once.

use std::ops::Range;

use bytes::Bytes;
use understudy_messages::ids::Name;
use understudy_messages::request::{Demand, Demands, RequestFacts, ResponsesFacts};

use self::input::Input;
use crate::json::{Cursor, JsonError, JsonStr, Kind};
use crate::openai::chat::request::scan::{fallbacks, flag, model, once, with_comma};
use crate::request_error::RequestError;

mod input;

/// A request being read: every member that matters, once.
#[derive(Default)]
pub(super) struct Draft<'a> {
    model: Option<(JsonStr<'a>, Range<usize>)>,
    input: Option<Input>,
    instructions: Option<usize>,
    stream: Option<bool>,
    store: Option<bool>,
    tools: Option<bool>,
    text: Option<bool>,
    previous: Option<(Option<JsonStr<'a>>, Range<usize>)>,
    conversation: Option<bool>,
    prompt: Option<bool>,
    background: Option<bool>,
    include: Option<bool>,
    top_logprobs: Option<u64>,
    fallbacks: Option<(Option<Vec<String>>, Range<usize>)>,
    demands: Demands,
}

impl<'a> Draft<'a> {
    pub(super) fn member(&mut self, cursor: &mut Cursor<'a>, key: JsonStr<'a>) -> Result<(), RequestError> {
        match &*key.decode() {
            "model" => once(&mut self.model, model(cursor)?, "model"),
            "input" => once(&mut self.input, Input::read(cursor, &mut self.demands)?, "input"),
            "instructions" => {
                let text = cursor.text()?.map_or(0, JsonStr::len);
                once(&mut self.instructions, text, "instructions")
            }
            "stream" => once(&mut self.stream, flag(cursor, "stream")?, "stream"),
            "store" => {
                let by_default = cursor.kind()? == Kind::Null;
                let store = flag(cursor, "store")? || by_default;
                once(&mut self.store, store, "store")
            }
            "tools" => once(&mut self.tools, tools(cursor, &mut self.demands)?, "tools"),
            "text" => once(&mut self.text, format(cursor, &mut self.demands)?, "text"),
            "previous_response_id" => {
                if !matches!(cursor.kind()?, Kind::String | Kind::Null) {
                    return Err(RequestError::WrongType {
                        key: "previous_response_id",
                        expected: "a string",
                    });
                }
                let id = cursor.text()?.filter(|id| !id.is_empty());
                let member = cursor.span(key.raw()).start - 1..cursor.position();
                once(&mut self.previous, (id, member), "previous_response_id")
            }
            "conversation" => once(&mut self.conversation, is_given(cursor)?, "conversation"),
            "prompt" => once(&mut self.prompt, is_given(cursor)?, "prompt"),
            "background" => once(&mut self.background, flag(cursor, "background")?, "background"),
            "include" => once(&mut self.include, wants_logprobs(cursor)?, "include"),
            "top_logprobs" => once(&mut self.top_logprobs, cursor.count()?, "top_logprobs"),
            "fallbacks" => {
                let names = fallbacks(cursor)?;
                let member = cursor.span(key.raw()).start - 1..cursor.position();
                once(&mut self.fallbacks, (names, member), "fallbacks")
            }
            _ => Ok(cursor.skip()?),
        }
    }

    /// What was read of a body whose brace stands at `brace`.
    pub(super) fn finish(mut self, body: &Bytes, brace: usize) -> Result<RequestFacts, RequestError> {
        let (model, model_span) = self.model.take().ok_or(RequestError::Missing { key: "model" })?;
        let (fallbacks, member) = self.fallbacks.take().unzip();
        let (previous, previous_member) = self.previous.take().unzip();
        let previous = previous.flatten().map(|id| Name::from(&*id.decode()));
        let flags = [self.conversation, self.prompt, self.background];
        let [has_conversation, has_prompt, in_background] = flags.map(Option::unwrap_or_default);
        let says_enough = previous.is_some() || has_conversation || has_prompt;
        let mut input = match self.input.take() {
            Some(input) if input.messages.count == 0 && !says_enough => {
                return Err(RequestError::Empty { key: "input" });
            }
            None if !says_enough => return Err(RequestError::Missing { key: "input" }),
            input => input.unwrap_or_else(|| Input::absent(brace + 1)),
        };
        input.messages.text_bytes += self.instructions.unwrap_or(0);
        let has_logprobs = self.include.unwrap_or(false) || self.top_logprobs.unwrap_or(0) > 0;
        for (demand, is_made) in [
            (Demand::ProviderState, has_conversation),
            (Demand::ProviderPrompt, has_prompt),
            (Demand::Background, in_background),
            (Demand::Logprobs, has_logprobs),
        ] {
            if is_made {
                self.demands.insert(demand);
            }
        }
        let responses = ResponsesFacts {
            previous,
            previous_span: previous_member.map(|member| with_comma(body, member)),
            has_conversation,
            store: self.store.unwrap_or(true),
            input: input.span,
            input_is_text: input.is_text,
            foreign: input.foreign.into_iter().map(|run| with_comma(body, run)).collect(),
            asked: None,
        };
        Ok(RequestFacts {
            model: Name::from(&*model.decode()),
            model_span,
            stream: self.stream.unwrap_or(false),
            include_usage: true,
            usage_edit: None,
            choices: 1,
            has_tools: self.tools.unwrap_or(false),
            has_response_format: self.text.unwrap_or(false),
            has_logprobs,
            has_stop: false,
            demands: self.demands,
            fallbacks: fallbacks.flatten(),
            fallbacks_span: member.map(|member| with_comma(body, member)),
            messages: input.messages,
            responses: Some(Box::new(responses)),
        })
    }
}

/// Whether a member is there and not null.
fn is_given(cursor: &mut Cursor<'_>) -> Result<bool, JsonError> {
    Ok(cursor.value()? != "null")
}

/// The kind of an object, and of everything else none. Steps over it.
fn kind<'a>(cursor: &mut Cursor<'a>) -> Result<Option<JsonStr<'a>>, JsonError> {
    let mut kind = None;
    cursor.object(|cursor, key| {
        match &*key.decode() {
            "type" => kind = cursor.text()?,
            _ => cursor.skip()?,
        }
        Ok::<_, JsonError>(())
    })?;
    Ok(kind)
}

/// Whether tools are offered; those that not every format knows are noted.
fn tools(cursor: &mut Cursor<'_>, demands: &mut Demands) -> Result<bool, JsonError> {
    let mut any = false;
    cursor.array(|cursor| {
        any = true;
        match kind(cursor)?.map(JsonStr::decode).as_deref() {
            Some("function") => {}
            Some("custom") => demands.insert(Demand::CustomTool),
            Some(_) | None => demands.insert(Demand::HostedTool),
        }
        Ok::<_, JsonError>(())
    })?;
    Ok(any)
}

/// Whether the text must have a shape.
fn format(cursor: &mut Cursor<'_>, demands: &mut Demands) -> Result<bool, JsonError> {
    let mut wanted = None;
    cursor.object(|cursor, key| {
        match &*key.decode() {
            "format" => wanted = kind(cursor)?,
            _ => cursor.skip()?,
        }
        Ok::<_, JsonError>(())
    })?;
    match wanted.map(JsonStr::decode).as_deref() {
        Some("json_schema") => demands.insert(Demand::JsonSchema),
        Some("json_object") => demands.insert(Demand::JsonObject),
        Some("text") | None => return Ok(false),
        Some(_) => {}
    }
    Ok(true)
}

fn wants_logprobs(cursor: &mut Cursor<'_>) -> Result<bool, JsonError> {
    let mut wanted = false;
    cursor.array(|cursor| {
        wanted |= cursor
            .text()?
            .is_some_and(|it| it.decode() == "message.output_text.logprobs");
        Ok::<_, JsonError>(())
    })?;
    Ok(wanted)
}
