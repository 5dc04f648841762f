use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;
use understudy_messages::conversation::Seal;
use understudy_messages::settings::Api;

use super::*;
use crate::tools::calls::calls;

fn call(choice: u32, index: u32, begins: bool, arguments: &str) -> Piece {
    Piece::ToolCall {
        choice,
        index,
        id: begins.then(|| format!("id-{choice}-{index}")),
        name: begins.then(|| format!("tool-{index}")),
        arguments: arguments.to_owned(),
        seal: None,
    }
}

fn finish(choice: u32, finish: Finish) -> Piece {
    Piece::Finish {
        choice,
        finish,
        stop_sequence: None,
    }
}

fn blocked(reason: &str) -> Ruling {
    Ruling::Blocked(Block {
        plugin: "guard".into(),
        reason: reason.to_owned(),
        veto: true,
    })
}

fn judged(pieces: &[Piece], rulings: &[Ruling]) -> Vec<(Call, Ruling)> {
    calls(pieces, &[]).into_iter().zip(rulings.iter().cloned()).collect()
}

fn object(value: Value) -> Map<String, Value> {
    value.as_object().cloned().expect("an object")
}

#[test]
fn a_blocked_call_goes_and_the_next_one_takes_its_number() {
    let pieces = vec![
        call(0, 0, true, "{}"),
        call(0, 1, true, "{\"a\":"),
        call(0, 1, false, "1}"),
        finish(0, Finish::ToolCalls),
    ];
    let judged = judged(&pieces, &[blocked("no"), Ruling::Stays]);
    let ruled = ruled(pieces, &judged, Some(false));
    let Piece::ToolCall {
        index, id, arguments, ..
    } = &ruled[0]
    else {
        panic!("{ruled:?}");
    };
    assert_eq!((*index, id.as_deref(), &**arguments), (0, Some("id-0-1"), "{\"a\":"));
    assert_eq!(ruled.len(), 3);
    assert_eq!(ruled[2], finish(0, Finish::ToolCalls), "calls are left");
}

#[test]
fn changed_arguments_are_one_whole_piece_with_what_its_maker_wants_back() {
    let seal = Seal {
        maker: Api::Gemini,
        whole: false,
        data: "s".to_owned(),
    };
    let mut sealed = call(0, 0, false, ":1}");
    if let Piece::ToolCall { seal: of, .. } = &mut sealed {
        *of = Some(seal.clone());
    }
    let pieces = vec![call(0, 0, true, "{\"a\""), call(0, 1, true, "{}"), sealed];
    let changed = Ruling::Changed(object(json!({ "a": 2 })));
    let judged = judged(&pieces, &[changed, Ruling::Stays]);
    let expected = Piece::ToolCall {
        choice: 0,
        index: 0,
        id: Some("id-0-0".to_owned()),
        name: Some("tool-0".to_owned()),
        arguments: "{\"a\":2}".to_owned(),
        seal: Some(seal),
    };
    assert_eq!(ruled(pieces, &judged, None), [expected, call(0, 1, true, "{}")]);
}

#[test]
fn a_choice_without_calls_has_said_everything_and_says_why() {
    let pieces = vec![
        Piece::Text {
            choice: 1,
            text: "so".to_owned(),
        },
        call(0, 0, true, "{}"),
        call(1, 0, true, "{}"),
        finish(0, Finish::ToolCalls),
        finish(1, Finish::Length),
    ];
    let judged = judged(&pieces, &[blocked("no"), blocked("never")]);
    let text = |choice, text: &str| Piece::Text {
        choice,
        text: text.to_owned(),
    };
    assert_eq!(
        ruled(pieces.clone(), &judged, Some(false)),
        [
            text(1, "so"),
            text(0, "The call of tool-0 was blocked: no"),
            finish(0, Finish::Stop),
            text(1, "\n\nThe call of tool-0 was blocked: never"),
            finish(1, Finish::Length),
        ]
    );
    assert_eq!(
        ruled(pieces, &judged, None),
        [text(1, "so"), finish(0, Finish::Stop), finish(1, Finish::Length)]
    );
}

#[test]
fn a_call_that_nobody_has_ruled_on_goes() {
    let pieces = vec![call(0, 0, true, "{}"), finish(0, Finish::ToolCalls)];
    assert_eq!(ruled(pieces, &[], Some(false)), [finish(0, Finish::Stop)]);
}

#[test]
fn an_approval_blocks_and_says_that_it_cannot_be_had_here() {
    let fate = ToolFate::Approval {
        plugin: "guard".into(),
        request: json!({}),
        params: Some(object(json!({ "a": 2 }))),
    };
    let ruling = Ruling::of(fate, &Map::new());
    let block = ruling.block().expect("blocked");
    assert!(block.reason.contains("approval") && !block.veto);
}

#[test]
fn arguments_that_were_written_anew_as_they_are_change_nothing() {
    let params = object(json!({ "a": 1 }));
    let fate = ToolFate::Allowed {
        params: Some(params.clone()),
    };
    assert_eq!(Ruling::of(fate, &params), Ruling::Stays);
}

fn any_ruling() -> impl Strategy<Value = Ruling> {
    prop_oneof![
        Just(Ruling::Stays),
        Just(Ruling::Changed(object(json!({ "changed": true })))),
        Just(blocked("no")),
    ]
}

/// Calls of two choices whose pieces come in turns, each with a ruling.
fn any_answer() -> impl Strategy<Value = (Vec<Piece>, Vec<Ruling>)> {
    let parts = proptest::collection::vec((0_u32..2, 0_u32..4), 0..24);
    (parts, proptest::collection::vec(any_ruling(), 8)).prop_map(|(parts, rulings)| {
        let (mut pieces, mut begun) = (Vec::new(), Vec::<(u32, u32)>::new());
        for (choice, index) in parts {
            // calls are numbered in the order in which they begin
            let so_far = u32::try_from(begun.iter().filter(|(of, _)| *of == choice).count()).expect("few");
            let index = index.min(so_far);
            let begins = !begun.contains(&(choice, index));
            if begins {
                begun.push((choice, index));
            }
            pieces.push(call(choice, index, begins, " "));
        }
        pieces.extend([finish(0, Finish::ToolCalls), finish(1, Finish::ToolCalls)]);
        (pieces, rulings)
    })
}

proptest! {
    #[test]
    fn what_is_left_are_the_calls_that_stay_in_their_order_and_numbered_without_a_gap((pieces, rulings) in any_answer()) {
        let judged = judged(&pieces, &rulings);
        let left = calls(&ruled(pieces, &judged, Some(false)), &[]);
        for choice in 0..2 {
            let own = |call: &&Call| call.choice == choice;
            let numbers: Vec<u32> = left.iter().filter(own).map(|call| call.index).collect();
            let mut sorted = numbers.clone();
            sorted.sort_unstable();
            prop_assert_eq!(&sorted, &(0..u32::try_from(numbers.len()).expect("few")).collect::<Vec<_>>());
            let stays = judged.iter().filter(|(call, ruling)| own(&call) && ruling.block().is_none());
            let mut expected: Vec<_> = stays.map(|(call, ruling)| (call.index, call.id.clone(), ruling)).collect();
            expected.sort_by_key(|(index, ..)| *index);
            let mut own: Vec<&Call> = left.iter().filter(own).collect();
            own.sort_by_key(|call| call.index);
            prop_assert_eq!(own.len(), expected.len());
            for (call, (_, id, ruling)) in own.into_iter().zip(expected) {
                prop_assert_eq!(&call.id, &id);
                let params = call.params.clone().map(Arc::unwrap_or_clone).unwrap_or_default();
                match ruling {
                    Ruling::Changed(changed) => prop_assert_eq!(&params, changed),
                    Ruling::Stays => prop_assert!(params.is_empty()),
                    Ruling::Blocked(_) => prop_assert!(false, "a blocked call is left"),
                }
            }
        }
    }
}
