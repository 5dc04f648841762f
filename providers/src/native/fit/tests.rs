//! What stays, what goes, and in which order.

use proptest::prelude::*;
use understudy_messages::request::Endpoint;

use super::*;
use crate::wire;

fn user(text: &str) -> Value {
    json!({ "type": "message", "role": "user", "content": [{ "type": "input_text", "text": text }] })
}

fn answer(text: &str) -> Value {
    json!({ "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": text }] })
}

fn call(id: &str) -> Value {
    json!({ "type": "function_call", "call_id": id, "name": "look", "arguments": "{}" })
}

fn result(id: &str, text: &str) -> Value {
    json!({ "type": "function_call_output", "call_id": id, "output": text })
}

fn system(text: &str) -> Value {
    json!({ "role": "system", "content": text })
}

fn body(items: &[Value]) -> Bytes {
    json!({ "model": "m", "input": items }).to_string().into()
}

/// What is left of the items within `most` tokens, and what was left out; the last `asked` are asked now.
fn fitted(items: &[Value], asked: usize, most: u64) -> (Vec<Value>, Option<ContextFitted>, u64) {
    let body = body(items);
    let facts = wire::scan(Endpoint::Native, &body).expect("a request");
    fn told<'a>(body: &'a Bytes, facts: &'a RequestFacts, asked: usize) -> Told<'a> {
        Told {
            body,
            facts,
            asked,
            rounds: &[],
        }
    }
    let (fitted, left_out) = match fit(told(&body, &facts, asked), most) {
        Some((fitted, left_out)) => (fitted, Some(left_out)),
        None => (body.clone(), None),
    };
    let facts = wire::scan(Endpoint::Native, &fitted).expect("still a request");
    let items: Value = serde_json::from_slice(&fitted).expect("JSON");
    let items = items["input"].as_array().expect("a list").clone();
    (items, left_out, tokens(told(&fitted, &facts, asked)))
}

#[test]
fn results_of_tools_go_first_and_the_oldest_exchange_next() {
    let long = "x".repeat(4000);
    let items = [
        system("rules"),
        user("one"),
        call("c1"),
        result("c1", &long),
        answer(&long),
        user("two"),
        answer("yes"),
        user("three"),
    ];
    let (all, nothing, _) = fitted(&items, 1, 10_000);
    assert_eq!((all.len(), nothing), (items.len(), None));

    let (kept, left_out, tokens) = fitted(&items, 1, 1500);
    assert_eq!(kept.len(), items.len());
    assert_eq!(kept[3], result("c1", NOTE));
    let left_out = left_out.expect("something");
    assert_eq!((left_out.dropped_messages, left_out.dropped_tool_results), (0, 1));
    assert_eq!((left_out.messages, left_out.tokens), (items.len(), tokens));
    assert!(left_out.tokens_before > 2000);

    let (kept, left_out, _) = fitted(&items, 1, 200);
    assert_eq!(kept, [system("rules"), user("two"), answer("yes"), user("three")]);
    let left_out = left_out.expect("something");
    assert_eq!((left_out.dropped_messages, left_out.dropped_tool_results), (4, 0));
}

#[test]
fn all_that_is_asked_now_stays_though_it_does_not_fit() {
    let long = "x".repeat(400);
    let items = [user("old"), answer("yes"), user(&long), user("and this")];
    let (kept, left_out, _) = fitted(&items, 2, 10);
    assert_eq!(kept, [user(&long), user("and this")]);
    assert_eq!(left_out.map(|it| it.dropped_messages), Some(2));
    assert_eq!(fitted(&kept, 2, 10).1, None);
}

#[test]
fn turns_that_nobody_answered_are_left_out_one_by_one() {
    let items: Vec<Value> = (0..20).map(|_| user(&"x".repeat(100))).collect();
    let (kept, _, tokens) = fitted(&items, 1, 200);
    assert!((2..20).contains(&kept.len()), "{}", kept.len());
    assert!(tokens <= 200);
}

#[test]
fn data_of_media_are_not_taken_for_text() {
    let image = format!("data:image/png;base64,{}", "A".repeat(1 << 20));
    let seen = json!({ "type": "message", "role": "user",
        "content": [{ "type": "input_image", "image_url": image }] });
    assert_eq!(fitted(&[seen, answer("a cat"), user("sure?")], 1, 2000).1, None);
}

#[test]
fn there_is_room_for_the_answer() {
    assert_eq!(room(br#"{"input":[]}"#, 8000), 7000);
    assert_eq!(room(br#"{"max_output_tokens":100}"#, 8000), 7900);
    assert_eq!(room(br#"{"max_output_tokens":100000}"#, 8000), 4000);
}

#[test]
fn what_tools_returned_in_this_turn_takes_room() {
    let items = [user("old"), answer("yes"), user("now")];
    let body = body(&items);
    let facts = wire::scan(Endpoint::Native, &body).expect("a request");
    let round = ToolRound {
        said: vec![Part::Text("x".repeat(4000))],
        results: Vec::new(),
    };
    let rounds = [round];
    let told = |rounds| Told {
        body: &body,
        facts: &facts,
        asked: 1,
        rounds,
    };
    assert!(fit(told(&[]), 500).is_none());
    let (_, left_out) = fit(told(&rounds), 500).expect("it does not fit");
    assert_eq!(left_out.dropped_messages, 2);
    assert!(surely_fits(told(&[]), 500) && !surely_fits(told(&rounds), 500));
}

/// Some exchanges: how long the user's text is, those of the results of tools, and the answer's.
fn conversation() -> impl Strategy<Value = Vec<(usize, Vec<usize>, Option<usize>)>> {
    let exchange = (
        1..400_usize,
        proptest::collection::vec(0..900_usize, 0..3),
        proptest::option::of(1..400_usize),
    );
    proptest::collection::vec(exchange, 0..12)
}

fn written(exchanges: &[(usize, Vec<usize>, Option<usize>)]) -> Vec<Value> {
    let mut items = vec![system("rules")];
    for (place, (asked, results, answered)) in exchanges.iter().enumerate() {
        items.push(user(&format!("{place} {}", "x".repeat(*asked))));
        let id = |result: usize| format!("{place}-{result}");
        items.extend((0..results.len()).map(|result| call(&id(result))));
        items.extend(
            results
                .iter()
                .enumerate()
                .map(|(at, long)| result(&id(at), &"x".repeat(*long))),
        );
        items.extend(answered.map(|long| answer(&"x".repeat(long))));
    }
    items
}

proptest! {
    #[test]
    fn a_call_keeps_its_result_and_what_is_asked_now_stays(exchanges in conversation(), most in 1..3000_u64) {
        let mut items = written(&exchanges);
        let newest = user("the newest");
        items.push(newest.clone());
        let (kept, _, tokens) = fitted(&items, 1, most);
        let ids = |kind: &str| -> Vec<Value> {
            kept.iter().filter(|item| item["type"] == kind).map(|item| item["call_id"].clone()).collect()
        };
        prop_assert_eq!(ids("function_call"), ids("function_call_output"));
        prop_assert_eq!(kept.last(), Some(&newest));
        prop_assert_eq!(&kept[0], &system("rules"));
        let alone = fitted(&[system("rules"), newest], 1, u64::MAX).2;
        prop_assert!(tokens <= most || tokens == alone, "{tokens} > {most}");
        let (again, more, _) = fitted(&kept, 1, most);
        prop_assert!(more.is_none() && again == kept, "fitting again changes nothing");
    }

    #[test]
    fn what_stays_is_the_newest_of_it_in_its_order(exchanges in conversation(), most in 1..3000_u64) {
        let mut items = written(&exchanges);
        items.push(user("the newest"));
        let kept = fitted(&items, 1, most).0;
        let behind = &items[items.len() - (kept.len() - 1)..];
        for (was, is) in behind.iter().zip(&kept[1..]) {
            prop_assert!(was == is || is["output"] == NOTE);
        }
    }
}
