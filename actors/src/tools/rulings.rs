//! An answer after its calls of tools have been judged: what of it the client gets. Pure.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use understudy_messages::answer::{Finish, Piece, Usage};
use understudy_messages::hooks::ToolFate;
use understudy_messages::ids::Name;

use super::calls::{Call, plain};

/// The most that a model or a client is told of why a call was blocked.
const LONGEST_REASON: usize = 2000;
/// Why a call is blocked whose arguments nobody can judge.
const UNREADABLE: &str = "Blocked: its arguments are no JSON object, or name a key twice, and nobody can judge such.";
/// Why a call is blocked that a plugin wants to have approved.
const NO_APPROVAL: &str = "Blocked: it needs an approval, and approvals cannot be asked for here yet.";
/// Who blocks what no plugin has judged.
const GATEWAY: &str = "understudy";

/// What becomes of one call.
#[derive(Clone, Debug, PartialEq)]
pub enum Ruling {
    /// It stays as the model wrote it.
    Stays,
    /// It stays, with these arguments.
    Changed(Map<String, Value>),
    /// It goes.
    Blocked(Block),
}

/// Why a call goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Who said so.
    pub plugin: Name,
    /// What the model is told.
    pub reason: String,
    /// Whether it was refused on purpose, or could not be judged.
    pub veto: bool,
}

impl Ruling {
    /// Of a call whose arguments nobody can judge.
    pub fn unreadable() -> Self {
        Self::Blocked(Block {
            plugin: GATEWAY.into(),
            reason: UNREADABLE.to_owned(),
            veto: false,
        })
    }

    /// Of a call with these arguments that has been judged.
    pub fn of(fate: ToolFate, asked: &Map<String, Value>) -> Self {
        match fate {
            ToolFate::Allowed { params: Some(params) } if params != *asked => Self::Changed(params),
            ToolFate::Allowed { .. } => Self::Stays,
            ToolFate::Blocked { plugin, reason, veto } => Self::Blocked(Block {
                plugin,
                reason: reason.chars().take(LONGEST_REASON).collect(),
                veto,
            }),
            ToolFate::Approval { plugin, .. } => Self::Blocked(Block {
                plugin,
                reason: NO_APPROVAL.to_owned(),
                veto: false,
            }),
        }
    }

    /// Why it goes, if it does.
    pub const fn block(&self) -> Option<&Block> {
        match self {
            Self::Blocked(block) => Some(block),
            Self::Stays | Self::Changed(_) => None,
        }
    }
}

/// The end of an answer without its blocked calls, and with the changed ones. Those that stay keep their order and are
/// numbered anew; a call that nobody has ruled on goes. A choice that loses all its calls ends as one that has said
/// everything. With `explained` such a choice says why: below a blank line where the client has text already, as `Some(true)`
/// tells of what went before.
pub fn ruled(pieces: Vec<Piece>, judged: &[(Call, Ruling)], explained: Option<bool>) -> Vec<Piece> {
    let mut rewriting = Rewriting {
        places: places(judged),
        judged,
        written: BTreeMap::new(),
        out: Vec::with_capacity(pieces.len()),
    };
    for piece in pieces {
        match piece {
            Piece::ToolCall { .. } => rewriting.call(piece),
            Piece::Finish {
                choice,
                finish,
                stop_sequence,
            } => {
                rewriting.explain(choice, explained);
                let none_left = rewriting.places.iter().all(|((of, _), _)| *of != choice);
                let finish = match finish {
                    Finish::ToolCalls if none_left => Finish::Stop,
                    other => other,
                };
                rewriting.out.push(Piece::Finish {
                    choice,
                    finish,
                    stop_sequence,
                });
            }
            piece => rewriting.out.push(piece),
        }
    }
    rewriting.out
}

/// The tokens of earlier rounds on top of each report.
pub fn add_usage(pieces: &mut [Piece], before: Usage) {
    for piece in pieces {
        if let Piece::Usage(usage) = piece {
            *usage = before + *usage;
        }
    }
}

/// The new index of each call that stays.
fn places(judged: &[(Call, Ruling)]) -> BTreeMap<(u32, u32), (u32, &Ruling)> {
    let staying = judged.iter().filter(|(_, ruling)| ruling.block().is_none());
    let mut staying: Vec<_> = staying
        .map(|(call, ruling)| ((call.choice, call.index), ruling))
        .collect();
    staying.sort_by_key(|(place, _)| *place);
    let mut counts = BTreeMap::<u32, u32>::new();
    let numbered = staying.into_iter().map(|((choice, index), ruling)| {
        let next = counts.entry(choice).or_default();
        *next += 1;
        ((choice, index), (*next - 1, ruling))
    });
    numbered.collect()
}

/// An answer while it is written anew.
struct Rewriting<'a> {
    places: BTreeMap<(u32, u32), (u32, &'a Ruling)>,
    judged: &'a [(Call, Ruling)],
    /// Where in `out` a changed call stands.
    written: BTreeMap<(u32, u32), usize>,
    out: Vec<Piece>,
}

impl Rewriting<'_> {
    fn call(&mut self, mut piece: Piece) {
        let Piece::ToolCall {
            choice,
            index,
            id,
            name,
            arguments,
            seal,
        } = &mut piece
        else {
            return;
        };
        let place = (*choice, *index);
        let Some((new, ruling)) = self.places.get(&place) else {
            return;
        };
        *index = *new;
        if let Ruling::Changed(params) = ruling {
            let whole = self.written.get(&place).and_then(|at| self.out.get_mut(*at));
            if let Some(Piece::ToolCall {
                id: known_id,
                name: known_name,
                seal: known_seal,
                ..
            }) = whole
            {
                *known_id = known_id.take().or(id.take());
                *known_name = known_name.take().or(name.take());
                *known_seal = known_seal.take().or(seal.take());
                return;
            }
            *arguments = Value::Object(params.clone()).to_string();
            self.written.insert(place, self.out.len());
        }
        self.out.push(piece);
    }

    /// Says in a choice that lost all its calls why it did.
    fn explain(&mut self, choice: u32, after_text: Option<bool>) {
        let Some(after_text) = after_text else { return };
        let own = self.judged.iter().filter(|(call, _)| call.choice == choice);
        let blocked: Vec<String> = own
            .filter_map(|(call, ruling)| Some(told(&call.name, ruling.block()?)))
            .collect();
        let lost_all = !blocked.is_empty() && self.places.keys().all(|(of, _)| *of != choice);
        if lost_all {
            let is_text = |piece: &Piece| matches!(piece, Piece::Text { choice: of, .. } if *of == choice);
            let below = if after_text || self.out.iter().any(is_text) {
                "\n\n"
            } else {
                ""
            };
            let text = format!("{below}{}", blocked.join("\n"));
            self.out.push(Piece::Text { choice, text });
        }
    }
}

/// Why a call goes, for people.
fn told(tool: &str, block: &Block) -> String {
    let reason = &block.reason;
    match plain(tool) {
        name if name.is_empty() => format!("A call of a tool was blocked: {reason}"),
        name => format!("The call of {name} was blocked: {reason}"),
    }
}

#[cfg(test)]
mod tests;
