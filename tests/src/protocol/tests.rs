//! Each thing that is checked is found when it is wrong.

use super::*;

fn events_of(frames: &[&str]) -> Vec<u8> {
    let typed = |frame: &&str| {
        let json: Value = serde_json::from_str(frame).expect("JSON");
        format!("event: {}\ndata: {frame}\n\n", json["type"].as_str().expect("a type"))
    };
    frames.iter().map(typed).collect::<String>().into_bytes()
}

fn chunks(frames: &[&str]) -> Vec<u8> {
    let chunk = |frame: &&str| format!("data: {frame}\n\n");
    frames.iter().map(chunk).collect::<String>().into_bytes()
}

/// Checks that a stream is right, and wrong without any one of its frames.
fn needs_each(client: Endpoint, frames: &[&str], join: fn(&[&str]) -> Vec<u8>) {
    check(client, &join(frames), Ending::Whole).expect("right");
    for left_out in 0..frames.len() {
        let fewer: Vec<&str> = frames
            .iter()
            .enumerate()
            .filter(|(at, _)| *at != left_out)
            .map(|(_, it)| *it)
            .collect();
        let checked = check(client, &join(&fewer), Ending::Whole);
        checked.expect_err(&format!("without {}", frames[left_out]));
    }
    for twice in 0..frames.len() {
        let more = [&frames[..=twice], &frames[twice..]].concat();
        let is_delta = frames[twice].contains("\"content\":\"b\"") || frames[twice].contains("input_json_delta");
        if !is_delta {
            check(client, &join(&more), Ending::Whole).expect_err(&format!("twice {}", frames[twice]));
        }
    }
    check(client, &join(frames), Ending::Error).expect_err("no error");
}

#[test]
fn a_chat_stream_needs_its_role_its_end_and_its_closing_word() {
    let chunk = |id: &str, delta: &str, finish: &str| {
        format!(
            "{{\"id\":\"{id}\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{{\"index\":0,\
             \"delta\":{delta},\"finish_reason\":{finish}}}]}}"
        )
    };
    let begins = chunk("c", "{\"role\":\"assistant\",\"content\":\"a\"}", "null");
    let ends = chunk("c", "{}", "\"stop\"");
    needs_each(Endpoint::Chat, &[&begins, &ends, "[DONE]"], chunks);
    let other = chunk("d", "{}", "\"stop\"");
    let late = chunk("c", "{\"content\":\"b\"}", "null");
    let strange = chunk("c", "{}", "\"end_turn\"");
    for wrong in [
        [&*begins, &*other, "[DONE]"].as_slice(),
        &[&begins, &ends, &late, "[DONE]"],
        &[&begins, &strange, "[DONE]"],
        &[&begins, "[DONE]", &ends],
    ] {
        check(Endpoint::Chat, &chunks(wrong), Ending::Whole).expect_err("wrong");
    }
    let error = "{\"error\":{\"message\":\"no\"}}";
    check(Endpoint::Chat, &chunks(&[&begins, error]), Ending::Error).expect("an error ending");
}

#[test]
fn a_messages_stream_needs_each_of_its_events() {
    let frames = [
        r#"{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"usage":{"input_tokens":1,"output_tokens":1}}}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
        r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t","name":"n","input":{}}}"#,
        r#"{"type":"content_block_stop","index":1}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":2}}"#,
        r#"{"type":"message_stop"}"#,
    ];
    needs_each(Endpoint::Messages, &frames, events_of);
    let stray = r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":""}}"#;
    let with = [&frames[..2], &[stray], &frames[2..]].concat();
    check(Endpoint::Messages, &events_of(&with), Ending::Whole).expect_err("a delta of another kind");
    let error = r#"{"type":"error","error":{"type":"overloaded_error","message":"no"}}"#;
    let broken = [&frames[..2], &[error]].concat();
    check(Endpoint::Messages, &events_of(&broken), Ending::Error).expect("an error ending");
}

#[test]
fn a_responses_stream_needs_each_of_its_events() {
    let frames = [
        r#"{"type":"response.created","sequence_number":0,"response":{"id":"r"}}"#,
        r#"{"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"id":"i","type":"message"}}"#,
        r#"{"type":"response.content_part.added","sequence_number":2,"item_id":"i","output_index":0,"content_index":0}"#,
        r#"{"type":"response.output_text.delta","sequence_number":3,"item_id":"i","output_index":0,"content_index":0,"delta":"a"}"#,
        r#"{"type":"response.output_text.done","sequence_number":4,"item_id":"i","output_index":0,"content_index":0,"text":"a"}"#,
        r#"{"type":"response.content_part.done","sequence_number":5,"item_id":"i","output_index":0,"content_index":0,"part":{"text":"a"}}"#,
        r#"{"type":"response.output_item.done","sequence_number":6,"output_index":0,"item":{"id":"i","type":"message","content":[{"text":"a"}]}}"#,
        r#"{"type":"response.completed","sequence_number":7,"response":{"id":"r","status":"completed","output":[{"id":"i","type":"message","content":[{"text":"a"}]}]}}"#,
    ];
    needs_each(Endpoint::Responses, &frames, events_of);
    let other = frames[7].replace("\"text\":\"a\"", "\"text\":\"b\"");
    let wrong = [&frames[..7], &[&*other]].concat();
    check(Endpoint::Responses, &events_of(&wrong), Ending::Whole).expect_err("the end says something else");
    let failed = r#"{"type":"response.failed","sequence_number":4,"response":{"id":"r","status":"failed","error":{"code":"c","message":"no"}}}"#;
    let broken = [&frames[..4], &[failed]].concat();
    check(Endpoint::Responses, &events_of(&broken), Ending::Error).expect("an error ending");
}
