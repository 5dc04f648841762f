//! Responses: numbered events, items that begin and end, and at the end all of it once more.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Ending, Event, must};

/// An item under way: its parts by content or summary index, and what came of each.
#[derive(Default)]
struct Item {
    begun: Value,
    parts: BTreeMap<u64, Part>,
    arguments: String,
    done: Option<Value>,
}

#[derive(Default)]
struct Part {
    text: String,
    closed: bool,
}

/// What is wrong with a whole stream, if anything is.
pub(super) fn check(events: &[Event], ending: Ending) -> Result<(), String> {
    let mut items: BTreeMap<u64, Item> = BTreeMap::new();
    let (mut id, mut over) = (Value::Null, None);
    for (at, event) in events.iter().enumerate() {
        let (kind, json) = event.typed()?;
        must(over.is_none(), "nothing comes after the end", &json)?;
        must(json["sequence_number"] == at, &format!("number {at}"), &json)?;
        must((kind == "response.created") == (at == 0), "created once, first", &json)?;
        match &*kind {
            "response.created" => id = json["response"]["id"].clone(),
            "response.in_progress" => must(json["response"]["id"] == id, "id", &json)?,
            "response.failed" if ending == Ending::Error => {
                let response = &json["response"];
                must(
                    response["id"] == id && response["status"] == "failed",
                    "a failed response",
                    &json,
                )?;
                let error = &response["error"];
                must(
                    error["code"].is_string() && error["message"].is_string(),
                    "an error",
                    &json,
                )?;
                return last(at + 1 == events.len());
            }
            "response.completed" | "response.incomplete" if ending == Ending::Whole => {
                must(json["response"]["id"] == id && id.is_string(), "id", &json)?;
                must(json["response"]["status"] == kind["response.".len()..], "status", &json)?;
                over = Some(json);
            }
            _ => item_event(&mut items, &kind, &json)?,
        }
    }
    let end = over.ok_or("the response has no end")?;
    let done: Vec<Value> = items.into_values().map(|item| item.done.unwrap_or_default()).collect();
    let output = end["response"]["output"].as_array().cloned().unwrap_or_default();
    must(
        json!(output) == json!(done),
        &format!("the items are {}", json!(done)),
        &json!(output),
    )
}

fn last(is: bool) -> Result<(), String> {
    if is {
        Ok(())
    } else {
        Err("nothing comes after the end".to_owned())
    }
}

fn item_event(items: &mut BTreeMap<u64, Item>, kind: &str, json: &Value) -> Result<(), String> {
    let at = json["output_index"]
        .as_u64()
        .ok_or_else(|| format!("{kind} of no item"))?;
    if kind == "response.output_item.added" {
        must(at == items.len() as u64, "items begin in order", json)?;
        must(json["item"]["id"].is_string(), "an item's id", json)?;
        let begun = json["item"].clone();
        items.insert(
            at,
            Item {
                begun,
                ..Item::default()
            },
        );
        return Ok(());
    }
    let item = items.get_mut(&at).ok_or_else(|| format!("{kind} of no item"))?;
    must(item.done.is_none(), "the item has ended", json)?;
    if kind == "response.output_item.done" {
        return item_done(item, json);
    }
    must(json["item_id"] == item.begun["id"], "the item's id", json)?;
    let part = json["content_index"]
        .as_u64()
        .or(json["summary_index"].as_u64())
        .unwrap_or(0);
    let delta = json["delta"].as_str().unwrap_or_default();
    match kind {
        "response.content_part.added" | "response.reasoning_summary_part.added" => {
            must(part == item.parts.len() as u64, "parts begin in order", json)?;
            item.parts.insert(part, Part::default());
        }
        "response.function_call_arguments.delta" => item.arguments.push_str(delta),
        "response.function_call_arguments.done" => {
            must(json["arguments"] == *item.arguments, "arguments", json)?;
        }
        _ => part_event(item.parts.get_mut(&part), kind, json)?,
    }
    Ok(())
}

fn part_event(part: Option<&mut Part>, kind: &str, json: &Value) -> Result<(), String> {
    let part = part
        .filter(|part| !part.closed)
        .ok_or_else(|| format!("{kind} of no part"))?;
    match kind {
        "response.content_part.done" | "response.reasoning_summary_part.done" => {
            let whole = json["part"]["text"].as_str().or(json["part"]["refusal"].as_str());
            must(whole == Some(&*part.text), "a part's text", json)?;
            part.closed = true;
        }
        _ if kind.ends_with(".delta") => part.text.push_str(json["delta"].as_str().unwrap_or_default()),
        "response.refusal.done" => must(json["refusal"] == *part.text, "a refusal", json)?,
        "response.output_text.done" | "response.reasoning_summary_text.done" | "response.reasoning_text.done" => {
            must(json["text"] == *part.text, "a text", json)?;
        }
        _ => return Err(format!("a strange event: {kind}")),
    }
    Ok(())
}

fn item_done(item: &mut Item, json: &Value) -> Result<(), String> {
    let done = &json["item"];
    must(
        done["id"] == item.begun["id"] && done["type"] == item.begun["type"],
        "another item",
        json,
    )?;
    must(item.parts.values().all(|part| part.closed), "a part is open", json)?;
    if done["type"] == "function_call" {
        must(done["arguments"] == *item.arguments, "a call's arguments", json)?;
        must(done["call_id"].is_string() && done["name"].is_string(), "a call", json)?;
    }
    if done["type"] == "message" {
        let texts = done["content"].as_array().into_iter().flatten();
        let texts: Vec<_> = texts
            .map(|part| part["text"].as_str().or(part["refusal"].as_str()))
            .collect();
        let parts: Vec<_> = item.parts.values().map(|part| Some(&*part.text)).collect();
        must(texts == parts, "a message's parts", json)?;
    }
    item.done = Some(done.clone());
    Ok(())
}
