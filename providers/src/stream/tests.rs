use super::*;
use proptest::prelude::*;

const ROLE: Delta = Delta {
    reasoning: false,
    content: false,
    tool_call: false,
    finish: None,
    choices: Choices(1),
    ended: Choices(0),
    usage: None,
    error: false,
    last: false,
};
const TEXT: Delta = Delta { content: true, ..ROLE };
const REASONING: Delta = Delta {
    reasoning: true,
    ..ROLE
};
const TOOL_CALL: Delta = Delta {
    tool_call: true,
    ..ROLE
};
/// A text and its end in one frame, behind which nothing comes.
const LAST: Delta = Delta {
    content: true,
    last: true,
    ..ROLE
};
const ERROR: Delta = Delta { error: true, ..ROLE };

fn finish(finish: Finish) -> Delta {
    Delta {
        finish: Some(finish),
        ended: Choices(1),
        ..ROLE
    }
}

fn play(deltas: &[Delta]) -> (StreamMachine, Vec<Verdict>) {
    let mut machine = StreamMachine::default();
    let verdicts = deltas
        .iter()
        .map(|delta| machine.frame(Signal::Delta(*delta), 100))
        .collect();
    (machine, verdicts)
}

#[test]
fn the_preamble_is_held_until_the_first_content() {
    let (mut machine, verdicts) = play(&[ROLE, ROLE, TEXT, TEXT]);
    assert_eq!(
        verdicts,
        [Verdict::Hold, Verdict::Hold, Verdict::Release, Verdict::Forward]
    );
    assert_eq!(machine.frame(Signal::Comment, 20), Verdict::Forward);
    assert_eq!(machine.summary().progress, Progress::Content);
}

#[test]
fn reasoning_and_tool_calls_release_what_is_held() {
    for (first, progress) in [(REASONING, Progress::Reasoning), (TOOL_CALL, Progress::ToolCall)] {
        let (machine, verdicts) = play(&[ROLE, first]);
        assert_eq!(verdicts[1], Verdict::Release);
        assert_eq!(machine.summary().progress, progress);
    }
}

#[test]
fn an_error_before_content_fails_with_nothing_let_through() {
    let (machine, verdicts) = play(&[ROLE, ERROR]);
    assert_eq!(verdicts[1], Verdict::Failed(StreamFailure::Answered));
    assert_eq!(machine.summary().progress, Progress::Nothing);
}

#[test]
fn an_error_beside_content_is_an_error() {
    let (machine, verdicts) = play(&[Delta { content: true, ..ERROR }]);
    assert_eq!(verdicts, [Verdict::Failed(StreamFailure::Answered)]);
    assert_eq!(machine.summary().progress, Progress::Nothing);
}

#[test]
fn an_error_after_content_or_after_the_finish_reason_still_fails() {
    let (machine, verdicts) = play(&[TEXT, finish(Finish::Stop), ERROR]);
    assert_eq!(verdicts[2], Verdict::Failed(StreamFailure::Answered));
    assert!(machine.summary().progress.is_answer());
}

#[test]
fn the_terminal_word_finishes_at_once_and_nothing_follows_it() {
    let (mut machine, _) = play(&[TEXT]);
    assert_eq!(machine.frame(Signal::Done, 14), Verdict::Finished);
    assert_eq!(machine.frame(Signal::Delta(ERROR), 10), Verdict::Drop);
    assert_eq!(machine.end(BodyEnd::Lost), Ok(()));
}

#[test]
fn the_last_frame_finishes_at_once_whether_anything_was_sent_before_it() {
    for deltas in [&[ROLE, LAST][..], &[TEXT, LAST], &[LAST]] {
        let (mut machine, verdicts) = play(deltas);
        assert_eq!(verdicts.last(), Some(&Verdict::Finished));
        assert_eq!(machine.frame(Signal::Delta(TEXT), 10), Verdict::Drop);
        assert_eq!(machine.end(BodyEnd::Lost), Ok(()));
    }
}

#[test]
fn a_finish_reason_is_enough_however_the_body_ends() {
    for end in [BodyEnd::Clean, BodyEnd::Lost] {
        assert_eq!(play(&[TEXT, finish(Finish::Stop)]).0.end(end), Ok(()));
    }
}

#[test]
fn one_choice_that_ended_does_not_speak_for_the_others() {
    let second = Delta {
        choices: Choices(2),
        ..TEXT
    };
    let (mut machine, _) = play(&[TEXT, second, finish(Finish::Stop)]);
    assert_eq!(machine.end(BodyEnd::Clean), Err(StreamFailure::Truncated));
}

#[test]
fn content_without_any_terminal_signal_is_truncated_or_lost() {
    assert_eq!(play(&[TEXT]).0.end(BodyEnd::Clean), Err(StreamFailure::Truncated));
    assert_eq!(play(&[TEXT]).0.end(BodyEnd::Lost), Err(StreamFailure::Lost));
}

#[test]
fn a_stream_without_an_answer_is_empty() {
    let stopped = [ROLE, finish(Finish::Stop)];
    for deltas in [&[][..], &[ROLE], &[REASONING], &stopped] {
        let (mut machine, _) = play(deltas);
        assert_eq!(machine.clone().end(BodyEnd::Clean), Err(StreamFailure::Empty));
        assert_eq!(machine.frame(Signal::Done, 14), Verdict::Failed(StreamFailure::Empty));
        assert!(machine.summary().done);
    }
}

#[test]
fn length_filter_and_tool_calls_are_answers_with_nothing_in_them() {
    for reason in [Finish::Length, Finish::ContentFilter, Finish::ToolCalls] {
        let (mut machine, verdicts) = play(&[ROLE, finish(reason)]);
        assert_eq!(verdicts[1], Verdict::Release, "{reason:?}");
        assert_eq!(machine.summary().progress, Progress::Head);
        assert_eq!(machine.end(BodyEnd::Clean), Ok(()));
    }
}

#[test]
fn a_malformed_frame_is_dropped_and_counted() {
    let (mut machine, _) = play(&[TEXT]);
    assert_eq!(machine.frame(Signal::Malformed, 30), Verdict::Drop);
    assert_eq!(machine.frame(Signal::Done, 14), Verdict::Finished);
    assert_eq!(machine.summary().malformed, 1);
}

#[test]
fn no_more_preamble_is_held_than_the_bound() {
    let mut machine = StreamMachine::default();
    assert_eq!(machine.frame(Signal::Delta(ROLE), MAX_HELD), Verdict::Hold);
    assert_eq!(machine.frame(Signal::Comment, 1), Verdict::Drop);
    let failed = Verdict::Failed(StreamFailure::TooLarge);
    assert_eq!(machine.frame(Signal::Delta(ROLE), 1), failed);
    assert_eq!(machine.end(BodyEnd::Clean), Err(StreamFailure::TooLarge));
}

#[test]
fn the_latest_usage_and_finish_stand() {
    let usage = Usage {
        input: 9,
        output: 2,
        ..Usage::default()
    };
    let counted = Delta {
        usage: Some(usage),
        ..ROLE
    };
    let (machine, _) = play(&[TEXT, finish(Finish::Length), counted]);
    assert_eq!(machine.summary().usage, Some(usage));
    assert_eq!(machine.summary().finish, Some(Finish::Length));
}

#[test]
fn failures_name_their_cut_and_reason() {
    let observed = |failure: StreamFailure| failure.observed().map(|f| (f.reason, f.cut));
    assert_eq!(observed(StreamFailure::Answered), None);
    assert_eq!(
        observed(StreamFailure::Empty),
        Some((Reason::EmptyResponse, Cut::CleanEnd))
    );
    assert_eq!(
        observed(StreamFailure::Truncated),
        Some((Reason::Timeout, Cut::CleanEnd))
    );
    assert_eq!(observed(StreamFailure::Lost), Some((Reason::Timeout, Cut::Lost)));
}

fn signal() -> impl Strategy<Value = Signal> {
    let delta = prop_oneof![
        Just(ROLE),
        Just(TEXT),
        Just(REASONING),
        Just(TOOL_CALL),
        Just(ERROR),
        Just(LAST),
        Just(finish(Finish::Stop)),
        Just(finish(Finish::Length)),
    ];
    prop_oneof![
        6 => delta.prop_map(Signal::Delta),
        1 => Just(Signal::Comment),
        1 => Just(Signal::Malformed),
        1 => Just(Signal::Done),
    ]
}

proptest! {
    #[test]
    fn bytes_leave_once_in_order_and_never_after_the_end(
        signals in prop::collection::vec((signal(), 1usize..200_000), 0..30),
    ) {
        let mut machine = StreamMachine::default();
        let (mut held, mut open, mut over) = (0, false, false);
        for (signal, len) in signals {
            match machine.frame(signal, len) {
                Verdict::Hold => {
                    prop_assert!(!open && !over);
                    held += len;
                    prop_assert!(held <= MAX_HELD);
                }
                Verdict::Release => {
                    prop_assert!(!open && !over);
                    open = true;
                }
                Verdict::Forward => prop_assert!(open && !over),
                Verdict::Finished => {
                    prop_assert!(!over && (open || signal == Signal::Delta(LAST)));
                    (open, over) = (true, true);
                }
                Verdict::Failed(failure) => {
                    over = true;
                    prop_assert_eq!(machine.end(BodyEnd::Clean), Err(failure));
                }
                Verdict::Drop => {}
            }
            prop_assert_eq!(open, machine.summary().progress > Progress::Nothing);
        }
    }
}
