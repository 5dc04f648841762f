//! A whole answer, gathered from the frames of its turn. Pure.

use actix_web::http::header::{HeaderName, HeaderValue};
use bytes::Bytes;
use understudy_messages::answer::{Piece, Usage};
use understudy_messages::client::Seam;
use understudy_messages::ids::Name;
use understudy_messages::tools::TurnNote;

/// The tools whose calls a guard took out of the answer.
pub(super) const REMOVED: HeaderName = HeaderName::from_static("x-understudy-removed-calls");
/// How many of them are named.
const MOST_NAMED: usize = 16;
/// The longest name that is told.
const LONGEST: usize = 128;
/// What stands for those that are not.
const MORE: &str = "more";

/// What has come of an answer.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// The answer as bytes, where it came so.
    pub(super) body: Bytes,
    /// The answer in pieces, where it came so.
    pieces: Vec<Piece>,
    /// Tokens of those who wrote earlier parts, and of who writes now.
    earlier: Usage,
    reported: Option<Usage>,
    removed: Vec<Name>,
    more: bool,
}

impl Gathered {
    pub(super) fn data(&mut self, bytes: Bytes) {
        self.body = match self.body.is_empty() {
            true => bytes,
            false => [std::mem::take(&mut self.body), bytes].concat().into(),
        };
    }

    pub(super) fn pieces(&mut self, pieces: Vec<Piece>) {
        let mut reports = pieces.iter().filter_map(|piece| match piece {
            Piece::Usage(usage) => Some(*usage),
            _ => None,
        });
        self.reported = reports.next_back().or(self.reported);
        self.pieces.extend(pieces);
    }

    pub(super) fn seam(&mut self, seam: &Seam) {
        if seam.continued {
            self.earlier = self.earlier + self.reported.take().unwrap_or_default();
        }
    }

    /// A name that a model made up goes into a header only where it fits there.
    pub(super) fn note(&mut self, note: &TurnNote) {
        match note {
            TurnNote::CallRemoved(removed) => match is_token(&removed.tool) && self.removed.len() < MOST_NAMED {
                true => self.removed.push(removed.tool.clone()),
                false => self.more = true,
            },
            TurnNote::ToolStarted { .. }
            | TurnNote::ToolEnded { .. }
            | TurnNote::Fallback(_)
            | TurnNote::ContextFitted(_) => {}
        }
    }

    /// All pieces, with the tokens of everybody who wrote them.
    pub(super) fn take_pieces(&mut self) -> Vec<Piece> {
        let mut pieces = std::mem::take(&mut self.pieces);
        if !pieces.is_empty() && self.earlier != Usage::default() {
            pieces.push(Piece::Usage(self.earlier + self.reported.unwrap_or_default()));
        }
        pieces
    }

    /// The header that names removed calls, if any was removed.
    pub(super) fn removed(&self) -> Option<HeaderValue> {
        let more = self.more.then_some(MORE);
        let names: Vec<&str> = self.removed.iter().map(|name| &**name).chain(more).collect();
        HeaderValue::from_str(&names.join(", "))
            .ok()
            .filter(|value| !value.is_empty())
    }
}

/// Whether a name is a token of HTTP (RFC 9110 §5.6.2), and not too long.
fn is_token(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.len() <= LONGEST && name.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use understudy_messages::ids::ModelRef;
    use understudy_messages::tools::RemovedCall;

    use super::*;

    fn header(tools: &[&str]) -> Option<String> {
        let mut gathered = Gathered::default();
        for tool in tools {
            gathered.note(&TurnNote::CallRemoved(RemovedCall {
                tool: (*tool).into(),
                plugin: "guard".into(),
                veto: true,
            }));
        }
        gathered
            .removed()
            .map(|value| value.to_str().expect("plain").to_owned())
    }

    #[test]
    fn removed_calls_are_named_in_their_order() {
        assert_eq!(header(&["exec", "read"]).as_deref(), Some("exec, read"));
        assert_eq!(header(&[]), None);
    }

    #[test]
    fn no_name_can_write_a_header_of_its_own() {
        for hostile in ["a, b", "a\r\nset-cookie: x", "", "wörk", &"x".repeat(LONGEST + 1)] {
            assert_eq!(header(&["read", hostile]).as_deref(), Some("read, more"), "{hostile}");
        }
    }

    #[test]
    fn only_so_many_are_named() {
        let many = ["f"; MOST_NAMED + 1];
        let named = header(&many).expect("a header");
        assert_eq!(named.matches("f,").count(), MOST_NAMED);
        assert!(named.ends_with(", more"));
    }

    #[test]
    fn tokens_of_several_rounds_are_added_up_and_those_of_one_are_not() {
        let report = |input| {
            let usage = Usage {
                input,
                ..Usage::default()
            };
            Piece::Usage(usage)
        };
        let seam = |continued| Seam {
            sent: Vec::new(),
            served_by: ModelRef::new("a", "m"),
            continued,
        };
        for (continued, expected) in [(true, 12), (false, 7)] {
            let mut gathered = Gathered::default();
            gathered.pieces(vec![report(2), report(5)]);
            gathered.seam(&seam(continued));
            gathered.pieces(vec![report(7)]);
            assert_eq!(gathered.take_pieces().last(), Some(&report(expected)));
        }
    }
}
