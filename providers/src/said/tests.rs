use bytes::Bytes;
use understudy_messages::conversation::Seal;
use understudy_messages::settings::Api;

use super::*;
use crate::sse::SseDecoder;
use crate::wire::Decoder;

/// What a model said in a stream of these data lines.
fn said(api: Api, frames: &[&str]) -> Vec<Part> {
    let (mut decoder, mut events, mut pieces) = (Decoder::new(api), SseDecoder::default(), Vec::new());
    for frame in frames {
        events.push(Bytes::from(format!("data: {frame}\n\n")));
        let frame = events.next_frame().expect("small").expect("whole");
        decoder.read(&frame, &mut pieces);
    }
    of(&pieces)
}

fn text(text: &str) -> Part {
    Part::Text(text.to_owned())
}

fn thought(text: &str, maker: Api, whole: bool, data: &str) -> Part {
    let (text, data) = (text.to_owned(), data.to_owned());
    let seal = Some(Seal { maker, whole, data });
    Part::Reasoning(Reasoning { text, seal })
}

fn call(id: &str, name: &str, arguments: &str) -> Part {
    Part::ToolCall(ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
        seal: None,
    })
}

#[test]
fn chat_calls_that_come_in_turns_are_told_apart_by_index() {
    let delta = |delta: &str| format!(r#"{{"choices":[{{"index":0,"delta":{delta}}}]}}"#);
    let frames = [
        r#"{"role":"assistant","content":"Let me"}"#,
        r#"{"content":" see."}"#,
        r#"{"tool_calls":[{"index":0,"id":"c1","function":{"name":"look","arguments":"{\"a\""}},{"index":1,"id":"c2","function":{"name":"read","arguments":""}}]}"#,
        r#"{"tool_calls":[{"index":1,"function":{"arguments":"{}"}}]}"#,
        r#"{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]}"#,
        r#"{"content":"Done."}"#,
    ]
    .map(delta);
    let frames = frames.each_ref().map(|frame| &**frame);
    let expected = [
        text("Let me see."),
        call("c1", "look", r#"{"a":1}"#),
        call("c2", "read", "{}"),
        text("Done."),
    ];
    assert_eq!(said(Api::OpenaiChat, &frames), expected);
}

#[test]
fn an_anthropic_thought_ends_with_its_signature() {
    let frames = [
        r#"{"type":"message_start","message":{"id":"msg_1","model":"m","usage":{"input_tokens":1}}}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"h"}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"m"}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"s1"}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
        r#"{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"s2"}}"#,
        r#"{"type":"content_block_stop","index":1}"#,
        r#"{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"c1","name":"look","input":{}}}"#,
        r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"a\":"}}"#,
        r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"1}"}}"#,
        r#"{"type":"content_block_stop","index":2}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"}}"#,
    ];
    let expected = [
        thought("hm", Api::AnthropicMessages, false, "s1"),
        thought("", Api::AnthropicMessages, true, "s2"),
        call("c1", "look", r#"{"a":1}"#),
    ];
    assert_eq!(said(Api::AnthropicMessages, &frames), expected);
}

#[test]
fn encrypted_reasoning_of_responses_is_one_thought_with_its_summary() {
    let frames = [
        r#"{"type":"response.created","response":{"id":"r","model":"m"}}"#,
        r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"reasoning","id":"rs_1"}}"#,
        r#"{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":0,"delta":"hm"}"#,
        r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"rs_1","encrypted_content":"e"}}"#,
        r#"{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","id":"fc_1","call_id":"c1","name":"look","arguments":""}}"#,
        r#"{"type":"response.output_item.added","output_index":2,"item":{"type":"function_call","id":"fc_2","call_id":"c2","name":"read","arguments":""}}"#,
        r#"{"type":"response.function_call_arguments.delta","output_index":2,"delta":"{}"}"#,
        r#"{"type":"response.function_call_arguments.done","output_index":1,"arguments":"{\"a\":1}"}"#,
    ];
    let expected = [
        thought("hm", Api::OpenaiResponses, true, "e"),
        call("c1", "look", r#"{"a":1}"#),
        call("c2", "read", "{}"),
    ];
    assert_eq!(said(Api::OpenaiResponses, &frames), expected);
}

#[test]
fn a_gemini_call_keeps_its_seal() {
    let frames = [
        r#"{"responseId":"r","candidates":[{"content":{"parts":[{"text":"hm","thought":true}]}}]}"#,
        r#"{"candidates":[{"content":{"parts":[{"text":"Let me see."},{"functionCall":{"name":"look","args":{"a":1}},"thoughtSignature":"s"}]},"finishReason":"STOP"}]}"#,
    ];
    let seal = Seal {
        maker: Api::Gemini,
        whole: false,
        data: "s".to_owned(),
    };
    let expected = [
        Part::Reasoning(Reasoning {
            text: "hm".to_owned(),
            seal: None,
        }),
        text("Let me see."),
        Part::ToolCall(ToolCall {
            id: "call_r_0_0".to_owned(),
            name: "look".to_owned(),
            arguments: r#"{"a":1}"#.to_owned(),
            seal: Some(seal),
        }),
    ];
    assert_eq!(said(Api::Gemini, &frames), expected);
}

#[test]
fn refusals_are_told_and_other_choices_are_not() {
    let refusal = |choice, text: &str| Piece::Refusal {
        choice,
        text: text.to_owned(),
    };
    let pieces = [refusal(0, "I "), refusal(1, "You "), refusal(0, "will not.")];
    assert_eq!(of(&pieces), [Part::Refusal("I will not.".to_owned())]);
}

#[test]
fn beyond_the_bound_text_is_left_out_and_calls_are_not() {
    let part = |text: String| Piece::Text { choice: 0, text };
    let called = Piece::ToolCall {
        choice: 0,
        index: 0,
        id: Some("c1".to_owned()),
        name: Some("look".to_owned()),
        arguments: "{}".to_owned(),
        seal: None,
    };
    let pieces = [part("x".repeat(MOST)), part("y".to_owned()), called];
    assert_eq!(of(&pieces), [text(&"x".repeat(MOST)), call("c1", "look", "{}")]);
}
