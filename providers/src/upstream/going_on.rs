//! An answer that goes on with one that broke off, or with an earlier round of its turn: what of its pieces is new to the
//! client. Pure.

use understudy_messages::answer::Piece;
use understudy_messages::session::Continuation;

use crate::continuation::overlap::Overlap;

/// Filters the pieces of one continuation.
#[derive(Debug)]
pub struct GoingOn {
    overlap: Overlap,
    /// Whether the client has read text already: it is past the reasoning then, and gets no more of it.
    in_text: bool,
    /// Whether what is said first comes after a blank line.
    apart: bool,
    /// Who answers and the latest tokens, as long as nothing went that they could go with.
    begin: Option<Piece>,
    usage: Option<Piece>,
    begun: bool,
}

impl GoingOn {
    /// For what comes after `continuation`.
    pub fn new(continuation: &Continuation) -> Self {
        Self {
            overlap: Overlap::new(&continuation.text),
            in_text: !continuation.text.is_empty(),
            // the blank line before a text that broke off is there
            apart: continuation.after_text && continuation.text.is_empty(),
            begin: None,
            usage: None,
            begun: false,
        }
    }

    /// What of `pieces` may go to the client now.
    pub fn new_in(&mut self, pieces: Vec<Piece>) -> Vec<Piece> {
        let mut new = Vec::with_capacity(pieces.len());
        for mut piece in pieces {
            self.set_apart(&mut piece);
            match piece {
                Piece::Text { choice, text } => add_text(&mut new, choice, self.overlap.push(&text)),
                Piece::Reasoning { .. } | Piece::Sealed { .. } if self.in_text => {}
                Piece::Begin { .. } if !self.begun => self.begin = Some(piece),
                Piece::Usage(_) if !self.begun => self.usage = Some(piece),
                Piece::Ping if !self.begun => {}
                Piece::Refusal { .. } | Piece::ToolCall { .. } | Piece::Finish { .. } => {
                    add_text(&mut new, 0, self.overlap.finish());
                    new.push(piece);
                }
                Piece::Begin { .. }
                | Piece::Usage(_)
                | Piece::Ping
                | Piece::Reasoning { .. }
                | Piece::Sealed { .. } => {
                    new.push(piece);
                }
            }
        }
        if new.is_empty() { new } else { self.begin_with(new) }
    }

    /// What is left to go when the answer is whole.
    pub fn finish(&mut self) -> Vec<Piece> {
        let mut new = Vec::new();
        add_text(&mut new, 0, self.overlap.finish());
        self.begin_with(new)
    }

    fn set_apart(&mut self, piece: &mut Piece) {
        if self.apart
            && let Piece::Text { choice: 0, text } | Piece::Refusal { choice: 0, text } = piece
        {
            text.insert_str(0, "\n\n");
            self.apart = false;
        }
    }

    fn begin_with(&mut self, new: Vec<Piece>) -> Vec<Piece> {
        self.begun = true;
        let waited = self.begin.take().into_iter().chain(self.usage.take());
        waited.chain(new).collect()
    }
}

fn add_text(pieces: &mut Vec<Piece>, choice: u32, text: String) {
    if !text.is_empty() {
        pieces.push(Piece::Text { choice, text });
    }
}

#[cfg(test)]
mod tests {
    use understudy_messages::answer::{Finish, Usage};

    use super::*;

    fn going_on(text: &str) -> GoingOn {
        GoingOn::new(&Continuation {
            text: text.to_owned(),
            sent: Vec::new(),
            prefill: false,
            usage: Usage::default(),
            after_text: false,
        })
    }

    fn text(text: &str) -> Piece {
        Piece::Text {
            choice: 0,
            text: text.to_owned(),
        }
    }

    fn begin() -> Piece {
        Piece::Begin {
            id: None,
            model: Some("m".to_owned()),
        }
    }

    fn reasoning() -> Piece {
        Piece::Reasoning {
            choice: 0,
            text: "hm".to_owned(),
        }
    }

    fn finish() -> Piece {
        Piece::Finish {
            choice: 0,
            finish: Finish::Stop,
            stop_sequence: None,
        }
    }

    #[test]
    fn nothing_goes_before_something_new_does() {
        let mut going_on = going_on("Once upon a time");
        for held in [begin(), Piece::Ping, reasoning(), text("Once upon"), text(" a time")] {
            assert_eq!(going_on.new_in(vec![held]), []);
        }
        assert_eq!(going_on.new_in(vec![text(" there")]), [begin(), text(" there")]);
        assert_eq!(going_on.new_in(vec![Piece::Ping]), [Piece::Ping]);
    }

    #[test]
    fn what_was_held_goes_before_what_is_no_text() {
        let mut going_on = going_on("Once upon a time");
        assert_eq!(going_on.new_in(vec![begin(), text("Once")]), []);
        assert_eq!(going_on.new_in(vec![finish()]), [begin(), text("Once"), finish()]);
    }

    #[test]
    fn where_the_client_has_read_no_text_the_reasoning_is_new() {
        let mut going_on = going_on("");
        assert_eq!(going_on.new_in(vec![reasoning()]), [reasoning()]);
        assert_eq!(going_on.new_in(vec![text("Once")]), [text("Once")]);
    }

    fn after_text(so_far: &str) -> GoingOn {
        GoingOn::new(&Continuation {
            text: so_far.to_owned(),
            after_text: true,
            ..Continuation::default()
        })
    }

    #[test]
    fn what_a_later_round_says_first_comes_after_a_blank_line() {
        let mut round = after_text("");
        assert_eq!(round.new_in(vec![reasoning()]), [reasoning()]);
        assert_eq!(round.new_in(vec![text(" It")]), [text("\n\n It")]);
        assert_eq!(round.new_in(vec![text(" is")]), [text(" is")]);
        let refusal = |text: &str| Piece::Refusal {
            choice: 0,
            text: text.to_owned(),
        };
        assert_eq!(after_text("").new_in(vec![refusal("No")]), [refusal("\n\nNo")]);
    }

    #[test]
    fn a_later_round_that_broke_off_is_gone_on_with_in_place() {
        assert_eq!(after_text("Once upon").new_in(vec![text(" a time")]), [text(" a time")]);
    }

    #[test]
    fn a_round_without_text_adds_none() {
        let mut round = after_text("");
        assert_eq!(round.new_in(vec![finish()]), [finish()]);
        assert_eq!(round.finish(), []);
    }

    #[test]
    fn an_answer_that_was_whole_already_only_ends() {
        let mut one = going_on("All said.");
        assert_eq!(one.new_in(vec![Piece::Usage(Usage::default())]), []);
        assert_eq!(one.finish(), [Piece::Usage(Usage::default())]);
        assert_eq!(going_on("All said.").finish(), []);
    }
}
