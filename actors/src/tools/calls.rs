//! The calls of tools that an answer proposes, out of its pieces. Pure.

use std::sync::Arc;

use serde_json::{Map, Value};
use understudy_messages::answer::Piece;
use understudy_messages::conversation::Part;
use understudy_messages::ids::Name;

use self::distinct::Distinct;

mod distinct;

/// The longest name of a tool that is told to anybody but its model and its guard.
const LONGEST_NAME: usize = 128;

/// One call of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// In which choice.
    pub choice: u32,
    /// Which of the choice's calls.
    pub index: u32,
    /// Its id; where the provider gave none, one that is its own in this answer.
    pub id: String,
    /// The tool, as the model spelt it; empty where it named none.
    pub name: Name,
    /// Its arguments; `None` where they are no JSON object that everybody reads alike, and then nobody can judge them.
    pub params: Option<Arc<Map<String, Value>>>,
}

/// The calls in `pieces`, in the order in which they began. `said` is the same answer as its model gets it back: the calls of
/// its first choice have the ids that they have there.
pub fn calls(pieces: &[Piece], said: &[Part]) -> Vec<Call> {
    let mut begun: Vec<Begun> = Vec::new();
    for piece in pieces {
        let Piece::ToolCall {
            choice,
            index,
            id,
            name,
            arguments,
            ..
        } = piece
        else {
            continue;
        };
        let place = begun.iter().position(|it| (it.choice, it.index) == (*choice, *index));
        let place = place.unwrap_or_else(|| {
            begun.push(Begun::at(*choice, *index));
            begun.len() - 1
        });
        begun[place].add(id.as_deref(), name.as_deref(), arguments);
    }
    let mut known = said.iter().filter_map(|part| match part {
        Part::ToolCall(call) => Some(&*call.id),
        Part::Text(_) | Part::Refusal(_) | Part::Media(_) | Part::Reasoning(_) | Part::ToolResult(_) => None,
    });
    let calls = begun.into_iter().enumerate().map(|(place, call)| {
        let known = if call.choice == 0 { known.next() } else { None };
        call.whole(known, place)
    });
    calls.collect()
}

/// The name of a tool for logs, notes and records: a model may have made it up.
pub fn plain(name: &str) -> Name {
    // some readers of streams end lines at these two as well
    let ends_lines = |letter: &char| letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}');
    let letters = name.chars().filter(|letter| !ends_lines(letter));
    Name::from(&*letters.take(LONGEST_NAME).collect::<String>())
}

/// A call whose pieces are still being put together.
struct Begun {
    choice: u32,
    index: u32,
    id: Option<String>,
    name: Option<String>,
    arguments: String,
}

impl Begun {
    const fn at(choice: u32, index: u32) -> Self {
        Self {
            choice,
            index,
            id: None,
            name: None,
            arguments: String::new(),
        }
    }

    fn add(&mut self, id: Option<&str>, name: Option<&str>, arguments: &str) {
        let filled = |it: &&str| !it.is_empty();
        self.id = self.id.take().or(id.filter(filled).map(str::to_owned));
        self.name = self.name.take().or(name.filter(filled).map(str::to_owned));
        self.arguments.push_str(arguments);
    }

    fn whole(self, known: Option<&str>, place: usize) -> Call {
        let id = known.filter(|id| !id.is_empty()).map(str::to_owned).or(self.id);
        let name = self.name.unwrap_or_default();
        Call {
            choice: self.choice,
            index: self.index,
            id: id.unwrap_or_else(|| format!("call_{place}")),
            params: params(&self.arguments).filter(|_| !name.is_empty()),
            name: Name::from(&*name),
        }
    }
}

/// Arguments as an object; none at all are an empty one. `None` where an object names a key twice: who judges could read one
/// value, and who runs the call the other.
fn params(arguments: &str) -> Option<Arc<Map<String, Value>>> {
    if arguments.trim().is_empty() {
        return Some(Arc::default());
    }
    let params = serde_json::from_str::<Distinct>(arguments).ok()?;
    match params {
        Distinct(Value::Object(params)) => Some(Arc::new(params)),
        Distinct(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use understudy_messages::conversation::ToolCall;

    use super::*;

    fn piece(choice: u32, index: u32, begin: Option<(&str, &str)>, arguments: &str) -> Piece {
        Piece::ToolCall {
            choice,
            index,
            id: begin.map(|(id, _)| id.to_owned()),
            name: begin.map(|(_, name)| name.to_owned()),
            arguments: arguments.to_owned(),
            seal: None,
        }
    }

    fn shown(call: &Call) -> (u32, u32, &str, &str, Value) {
        let params = call.params.as_ref().map(|params| Value::Object((**params).clone()));
        (
            call.choice,
            call.index,
            &call.id,
            &call.name,
            params.unwrap_or_default(),
        )
    }

    #[test]
    fn calls_that_come_in_turns_are_told_apart_and_stand_in_the_order_in_which_they_began() {
        let pieces = [
            piece(0, 0, Some(("a", "read")), "{\"at\""),
            piece(0, 1, Some(("b", "exec")), ""),
            piece(0, 0, None, ":1}"),
            piece(1, 0, Some(("c", "read")), "{}"),
            piece(0, 1, None, "{\"cmd\":\"ls\"}"),
        ];
        let calls = calls(&pieces, &[]);
        assert_eq!(
            calls.iter().map(shown).collect::<Vec<_>>(),
            [
                (0, 0, "a", "read", json!({ "at": 1 })),
                (0, 1, "b", "exec", json!({ "cmd": "ls" })),
                (1, 0, "c", "read", json!({})),
            ]
        );
    }

    #[test]
    fn arguments_that_are_no_object_and_calls_of_nothing_cannot_be_judged() {
        for (arguments, name, judged) in [
            ("", "read", true),
            (" {} ", "read", true),
            ("{", "read", false),
            ("[]", "read", false),
            ("null", "read", false),
            ("{} {}", "read", false),
            ("{\"cmd\":\"rm\",\"cmd\":\"ls\"}", "read", false),
            ("{\"at\":[{\"cmd\":1,\"\\u0063md\":2}]}", "read", false),
            ("{\"at\":[{\"cmd\":1},{\"cmd\":2}]}", "read", true),
            ("{}", "", false),
        ] {
            let calls = calls(&[piece(0, 0, Some(("c", name)), arguments)], &[]);
            assert_eq!(calls[0].params.is_some(), judged, "{name}({arguments})");
        }
    }

    #[test]
    fn a_call_without_an_id_gets_the_one_that_its_model_is_told_or_one_of_its_own() {
        let pieces = [piece(0, 0, Some(("", "read")), "{}"), piece(0, 1, None, "{}")];
        let said = [
            Part::Text("so".to_owned()),
            Part::ToolCall(ToolCall {
                id: "x".to_owned(),
                ..ToolCall::default()
            }),
        ];
        let ids: Vec<String> = calls(&pieces, &said).into_iter().map(|call| call.id).collect();
        assert_eq!(ids, ["x", "call_1"]);
    }

    #[test]
    fn a_made_up_name_is_told_without_control_characters_and_cut() {
        assert_eq!(&*plain("re\nad\u{7}\u{2028}"), "read");
        assert_eq!(plain(&"ä".repeat(500)).chars().count(), 128);
    }
}
