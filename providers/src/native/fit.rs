//! Making a conversation fit the model that is about to answer.
//!
//! System text, what the client asks now and the newest exchanges stay. What tools returned in earlier turns goes first, the
//! oldest before the newer; then the oldest exchanges, each whole: a call is never parted from its result. Tokens are
//! guessed from text alone, four bytes to one.

use bytes::Bytes;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use understudy_messages::conversation::Part;
use understudy_messages::request::RequestFacts;
use understudy_messages::tools::{ContextFitted, ToolRound};

use self::exchanges::{Item, Role, exchanges};
use crate::json::members::Members;
use crate::openai::responses::request as responses;
use crate::splice::{Edit, splice};

mod exchanges;

/// How many bytes of text make a token, about.
const BYTES_PER_TOKEN: usize = 4;
/// What an item takes beside its text.
const OVERHEAD: usize = 16;
/// What a medium takes, whatever its size.
const MEDIUM: usize = 4096;
/// What stands where a tool's result was.
const NOTE: &str = "[left out: the conversation is longer than the model's window]";

/// What a model is about to be told.
#[derive(Clone, Copy, Debug)]
pub struct Told<'a> {
    /// A request of the native API.
    pub body: &'a Bytes,
    /// Its facts.
    pub facts: &'a RequestFacts,
    /// How many items at the end of its input were not remembered but are asked now: they stay.
    pub asked: usize,
    /// What models and tools have said to each other in this turn: it stays.
    pub rounds: &'a [ToolRound],
}

/// How many tokens a model with this window may be told, so that there is room for its answer: for as much as was asked
/// for, else an eighth; never more than half of the window.
pub fn room(body: &[u8], window: u64) -> u64 {
    let asked = Members::of_body(body).ok().and_then(|mut members| {
        let most = members.raw("max_output_tokens")?;
        most.parse::<u64>().ok()
    });
    window - asked.unwrap_or(window / 8).min(window / 2)
}

/// Whether there can be no doubt that it fits, without taking anything apart.
pub fn surely_fits(told: Told<'_>, window: u64) -> bool {
    tokens_of(told.body.len() + rounds_size(told.rounds)) <= window / 2
}

/// How many tokens it takes, about.
pub fn tokens(told: Told<'_>) -> u64 {
    let items = items(told);
    tokens_of(fixed(told) + items.iter().map(|item| item.size).sum::<usize>())
}

/// The request with as much left out as lets it take no more than `most` tokens, and what that is. `None` where nothing can
/// be left out, or need be. What stays may still be too long.
pub fn fit(told: Told<'_>, most: u64) -> Option<(Bytes, ContextFitted)> {
    let list = responses::own_items(told.body, told.facts);
    let list = format!("[{list}]");
    let raw: Vec<&RawValue> = serde_json::from_str(&list).ok()?;
    let items: Vec<Item> = raw.iter().map(|item| self::item(item)).collect();
    let plan = Plan::new(&items, told.asked, fixed(told), most);
    if plan.is_whole() {
        return None;
    }
    let kept = raw.iter().zip(&plan.fates).filter_map(|(item, fate)| match fate {
        Fate::Stays => Some(item.get().to_owned()),
        Fate::Shortened => Some(shortened(item)),
        Fate::Goes => None,
    });
    let input = format!("[{}]", kept.collect::<Vec<_>>().join(","));
    let edit = Edit {
        span: told.facts.responses.as_ref()?.input.clone(),
        text: input.as_bytes(),
    };
    let fitted = ContextFitted {
        dropped_messages: plan.count(Fate::Goes),
        dropped_tool_results: plan.count(Fate::Shortened),
        messages: items.len(),
        tokens_before: tokens_of(plan.before),
        tokens: tokens_of(plan.size),
    };
    Some((splice(told.body, &[edit]), fitted))
}

/// What becomes of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Stays,
    /// A note stands for what the tool returned.
    Shortened,
    Goes,
}

/// What becomes of all of them.
#[derive(Debug)]
struct Plan {
    fates: Vec<Fate>,
    before: usize,
    size: usize,
}

impl Plan {
    fn new(items: &[Item], asked: usize, fixed: usize, most: u64) -> Self {
        let before = fixed + items.iter().map(|item| item.size).sum::<usize>();
        let mut plan = Self {
            fates: vec![Fate::Stays; items.len()],
            before,
            size: before,
        };
        let exchanges = exchanges(items, asked);
        let older = exchanges.len().saturating_sub(1);
        for place in exchanges[..older].iter().cloned().flatten() {
            if tokens_of(plan.size) > most {
                plan.shorten(place, &items[place]);
            }
        }
        for exchange in &exchanges[..older] {
            if tokens_of(plan.size) > most {
                exchange.clone().for_each(|place| plan.drop(place, &items[place]));
            }
        }
        plan
    }

    fn shorten(&mut self, place: usize, item: &Item) {
        let saved = item.size.saturating_sub(short_size());
        if matches!(item.role, Role::Result(_)) && saved > 0 {
            (self.fates[place], self.size) = (Fate::Shortened, self.size - saved);
        }
    }

    fn drop(&mut self, place: usize, item: &Item) {
        if item.role == Role::System {
            return;
        }
        self.size -= match self.fates[place] {
            Fate::Stays => item.size,
            Fate::Shortened => short_size(),
            Fate::Goes => 0,
        };
        self.fates[place] = Fate::Goes;
    }

    fn is_whole(&self) -> bool {
        self.fates.iter().all(|fate| *fate == Fate::Stays)
    }

    fn count(&self, fate: Fate) -> usize {
        self.fates.iter().filter(|one| **one == fate).count()
    }
}

const fn short_size() -> usize {
    NOTE.len() + OVERHEAD
}

const fn tokens_of(bytes: usize) -> u64 {
    bytes.div_ceil(BYTES_PER_TOKEN) as u64
}

fn items(told: Told<'_>) -> Vec<Item> {
    let list = format!("[{}]", responses::own_items(told.body, told.facts));
    let raw: Vec<&RawValue> = serde_json::from_str(&list).unwrap_or_default();
    raw.iter().map(|raw| item(raw)).collect()
}

/// What stays whatever is left out: all around the items, and the rounds.
fn fixed(told: Told<'_>) -> usize {
    let input = told.facts.responses.as_ref().map_or(0, |facts| facts.input.len());
    told.body.len().saturating_sub(input) + rounds_size(told.rounds)
}

fn item(raw: &RawValue) -> Item {
    let value: Value = serde_json::from_str(raw.get()).unwrap_or_default();
    let id = || value["call_id"].as_str().unwrap_or_default().to_owned();
    let (role, texts) = match value["type"].as_str() {
        Some("function_call") => (Role::Call(id()), &["name", "arguments"][..]),
        Some("function_call_output") => (Role::Result(id()), &["output"][..]),
        Some("message") | None => match value["role"].as_str() {
            Some("system" | "developer") => (Role::System, &["content"][..]),
            Some("user") => (Role::User, &["content"][..]),
            Some(_) | None => (Role::Other, &["content"][..]),
        },
        Some(_) => (Role::Other, &["summary", "encrypted_content"][..]),
    };
    let size = texts.iter().map(|key| size(&value[*key])).sum::<usize>() + OVERHEAD;
    Item { role, size }
}

/// The text in a value; the data of media are no text.
fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(parts) => parts.iter().map(size).sum(),
        Value::Object(part) => match part.get("type").and_then(Value::as_str) {
            Some("input_image" | "input_file" | "input_audio") => MEDIUM,
            Some(_) | None => ["text", "refusal"]
                .iter()
                .filter_map(|key| part.get(*key))
                .map(size)
                .sum(),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

fn rounds_size(rounds: &[ToolRound]) -> usize {
    let results = rounds.iter().flat_map(|round| &round.results);
    let said = rounds.iter().flat_map(|round| &round.said);
    said.chain(results.flat_map(|result| &result.parts))
        .map(part_size)
        .sum()
}

fn part_size(part: &Part) -> usize {
    OVERHEAD
        + match part {
            Part::Text(text) | Part::Refusal(text) => text.len(),
            Part::Media(_) => MEDIUM,
            Part::Reasoning(reasoning) => reasoning.text.len(),
            Part::ToolCall(call) => call.name.len() + call.arguments.len(),
            Part::ToolResult(result) => result.parts.iter().map(part_size).sum(),
        }
}

/// The item of a tool's result with a note in its place.
fn shortened(raw: &RawValue) -> String {
    let mut value: Value = serde_json::from_str(raw.get()).unwrap_or_default();
    value["output"] = json!(NOTE);
    value.to_string()
}

#[cfg(test)]
mod tests;
