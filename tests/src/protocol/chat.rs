//! Chat completions: one id, one beginning and one end for each choice, and the word that nothing more comes.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Ending, Event, must};

#[derive(Default)]
struct Choice {
    ended: bool,
    calls: u64,
}

/// What is wrong with a whole stream, if anything is.
pub(super) fn check(events: &[Event], ending: Ending) -> Result<(), String> {
    let Some((last, events)) = events.split_last() else {
        return Err("nothing".to_owned());
    };
    let ends = match ending {
        Ending::Whole => last.data == "[DONE]",
        Ending::Error => last.json()?["error"]["message"].is_string(),
    };
    if !ends {
        return Err(format!("the end is {}", last.data));
    }
    let mut choices: BTreeMap<u64, Choice> = BTreeMap::new();
    let (mut face, mut reported) = (None, false);
    for event in events {
        let chunk = event.json()?;
        must(event.name.is_none(), "a chunk has no name", &chunk)?;
        must(chunk["object"] == "chat.completion.chunk", "object", &chunk)?;
        must(
            chunk["model"].is_string() && chunk["id"].is_string(),
            "model and id",
            &chunk,
        )?;
        let this = (chunk["id"].clone(), chunk["created"].clone());
        must(
            *face.get_or_insert_with(|| this.clone()) == this,
            "id and time stay",
            &chunk,
        )?;
        must(!reported, "usage comes last", &chunk)?;
        let told = chunk["choices"].as_array().ok_or("no list of choices")?;
        reported = told.is_empty();
        must(!reported || chunk["usage"].is_object(), "an empty chunk", &chunk)?;
        for choice in told {
            check_choice(&mut choices, choice)?;
        }
    }
    let open = choices.is_empty() || choices.values().any(|choice| !choice.ended);
    if ending == Ending::Whole && open {
        return Err("a choice has no end".to_owned());
    }
    Ok(())
}

fn check_choice(choices: &mut BTreeMap<u64, Choice>, told: &Value) -> Result<(), String> {
    let index = told["index"].as_u64().ok_or("a choice without an index")?;
    let delta = &told["delta"];
    must(delta.is_object(), "delta", told)?;
    let begins = !choices.contains_key(&index);
    must(
        begins == (delta["role"] == "assistant"),
        "the role comes once, first",
        told,
    )?;
    let choice = choices.entry(index).or_default();
    must(!choice.ended, "nothing comes after the end", told)?;
    for call in delta["tool_calls"].as_array().into_iter().flatten() {
        let at = call["index"].as_u64().ok_or("a call without an index")?;
        if at == choice.calls {
            must(
                call["id"].is_string() && call["type"] == "function",
                "a call's beginning",
                call,
            )?;
            must(call["function"]["name"].is_string(), "a call's name", call)?;
            choice.calls += 1;
        }
        must(at < choice.calls, "calls begin in order", call)?;
        must(call["function"]["arguments"].is_string(), "arguments", call)?;
    }
    let known = ["stop", "length", "tool_calls", "content_filter", "function_call"];
    let finish = &told["finish_reason"];
    must(
        finish.is_null() || known.iter().any(|word| finish == word),
        "finish_reason",
        told,
    )?;
    choice.ended = !finish.is_null();
    Ok(())
}
